package matrix_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/driver/local"
	"gated/internal/host/server"
	"gated/internal/test/forker"
	"gated/internal/test/must"
)

// guestUIDRows: a guest's program attacks the gate, or has its uid. What else such a
// program tries, on each version of Landlock, is in internal/driver/local.
var guestUIDRows = []attack{
	{id: "U04a", what: "a process of the daemon's own uid, which the lists name, calls as an operator and as a submitter", want: refusal.NotAllowed,
		run: func(w *world) error {
			needRootIn(w)
			socket := w.serveLists(server.Config{UID: stranger, Operators: []uint32{stranger}, Submitters: []uint32{stranger}})
			w.arm()
			for _, call := range [][]string{{"PUT", "/v1/desired/web", "host: h", "application/yaml"}, {"GET", "/v1/backup", "", ""},
				{"POST", "/v1/canary/1/accept", "", ""}, {"POST", "/v1/jobs", `{"op":"guest.start","target":"guest/victim"}`, "application/json"}} {
				require.ErrorIs(w.t, problem(w.t, w.callAs(socket, call...)), refusal.NotAllowed, call)
			}
			return problem(w.t, w.callAs(socket, "DELETE", "/v1/desired/web", "", ""))
		}},
	{id: "U04b", what: "a guest's command has no user to run as, and the daemon is root", want: refusal.NotAllowed, run: func(w *world) error {
		needRootIn(w)
		w.shut()
		w.uids = local.UIDRange{}
		w.open()
		w.makeGuest("web", "command", "idle")
		w.arm()
		return failure(w.submit(builder, ask("guest.start", "web")))
	}},
	{id: "U04c", what: "a guest's program changes modes, owners and times of the gate's files and of other guests' data, and ends what it can",
		want: refusal.PendingSignature, run: func(w *world) error {
			needRootIn(w)
			w.makeGuest("web", "command", "hostile")
			w.arm()
			w.allow.trash, w.allow.tree = true, []string{"web"}
			key := filepath.Join(w.dir, "gate.key")
			modes := w.modes(w.dir, w.root, filepath.Join(w.dir, "gated.db"), key, w.path("victim"), w.path("victim", "data"))
			text := fmt.Sprintf("#!/bin/sh\nfor f in %s %s %s/* %s/victim %s/victim/data %s/victim/data/*; do\n"+
				"chmod 777 $f; chown 0 $f; touch -d 2000-01-01 $f; truncate -s 0 $f; setfattr -n user.x -v y $f\ndone\n"+
				"kill -STOP %d; kill -KILL %d; prlimit --pid %d --nofile=1:1; renice 19 %d\necho tried > tried\nexec sleep 1000\n",
				w.dir, w.root, w.dir, w.root, w.root, w.root, os.Getpid(), os.Getpid(), os.Getpid(), os.Getpid())
			require.NoError(w.t, os.WriteFile(hostile(), []byte(text), 0o755))
			w.do("guest.start", "web")
			require.Eventually(w.t, func() bool { return exists(w.path("web", "data", "tried")) }, time.Minute, time.Millisecond)
			w.do("guest.stop", "web")
			require.NoError(w.t, os.WriteFile(hostile(), []byte(harmless), 0o755))
			w.unchanged()
			require.Equal(w.t, modes, w.modes(w.dir, w.root, filepath.Join(w.dir, "gated.db"), key, w.path("victim"), w.path("victim", "data")))
			w.allow.finale = []string{"web"}
			return w.waits(w.submit(hub, ask("guest.destroy", "web")))
		}},
	{id: "U04d", what: "a guest's program leaves its session, ignores SIGTERM and forks from parent to child without pause, to outlive a stop and " +
		"reach what is put into the guest later", want: refusal.PendingSignature, run: func(w *world) error {
		needRootIn(w)
		w.makeGuest("web", "command", "forks")
		w.arm()
		w.allow.trash, w.allow.tree = true, []string{"web"}
		w.do("guest.start", "web")
		data := w.path("web", "data")
		defer func() { _ = forker.End(data) }() // a row that fails leaves nothing
		require.Eventually(w.t, func() bool { return forker.Up(data) }, time.Minute, time.Millisecond)
		w.do("guest.stop", "web")
		require.False(w.t, must.Get(forker.Alive(data))(w.t), "the stop succeeded, and a process of the guest lives")
		w.unchanged()
		w.allow.finale = []string{"web"}
		return w.waits(w.submit(hub, ask("guest.destroy", "web")))
	}},
}

func needRootIn(w *world) {
	w.t.Helper()
	if os.Getuid() != 0 {
		w.t.Skip("needs root")
	}
}

// serveLists is serve with lists of who may what. The socket is open to everybody.
func (w *world) serveLists(c server.Config) string {
	w.t.Helper()
	dir := must.Get(os.MkdirTemp("", "gated"))(w.t)
	require.NoError(w.t, os.Chmod(dir, 0o755))
	w.cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := server.Listen(path, callers)
	require.NoError(w.t, err)
	c.Gate, c.Refused, c.Now, c.Logger = w.gate, w.gate.NoteRefused, time.Now, slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.New(c).Serve(ctx, l) }()
	w.cleanup(func() { cancel(); <-ended; _ = l.Close() })
	return path
}

// modes says of files what a program could change without opening them.
func (w *world) modes(paths ...string) (out []string) {
	w.t.Helper()
	for _, path := range paths {
		info, err := os.Stat(path)
		if os.IsNotExist(err) {
			continue // not every row's gate has a key
		}
		require.NoError(w.t, err)
		st := info.Sys().(*syscall.Stat_t)
		out = append(out, fmt.Sprintf("%s %v %d:%d %v", path, info.Mode(), st.Uid, st.Gid, info.Size() > 0 || info.IsDir()))
	}
	return out
}
