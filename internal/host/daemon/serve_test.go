package daemon_test

import (
	"context"
	"database/sql"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store/storetest"
	"gated/internal/host/daemon"
	"gated/internal/host/life"
	"gated/internal/test/must"
	"gated/internal/test/spareuids"
)

func TestServeStartsAndStops(t *testing.T) {
	w := newInitialised(t)
	w.config("local:\n" + spareuids.Line(t.Cleanup) + "  commands:\n    sleep: {argv: [/bin/sleep, \"600\"]}\n")
	// The runtime's own goroutine for signals, which it never ends.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	signal.Stop(signals)
	before := goroutines()
	w.serve()
	s := w.status()
	require.Equal(t, testHost, s.Host)
	require.Equal(t, "none", s.Isolation)
	require.Len(t, s.Remedies, 2)
	require.True(t, s.Healthy(), "%+v", s.Health)
	require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", "web", "command", "sleep", "state", "running")).State)
	w.halt()
	w.client.Close()

	must.Fail(os.Lstat(w.socket))(t, fs.ErrNotExist, "the socket is taken away")
	require.NotContains(t, w.log.String(), "level=ERROR", "a plain stop is no error")
	limit := time.Now().Add(patience)
	for goroutines() > before && time.Now().Before(limit) {
		runtime.Gosched()
	}
	require.LessOrEqual(t, goroutines(), before, stacks())

	// Nothing keeps the directory or the guest's process from the next daemon.
	w.serve()
	g := must.Get(w.client.Guest(t.Context(), "web"))(t)
	require.Equal(t, "running", g.State, "a guest's process outlives the daemon")
	require.Equal(t, op.StateSucceeded, w.submit(ask("guest.stop", "web")).State)
	w.halt()
	require.Equal(t, []string{"started", "stopped", "started", "stopped"}, kinds(t, w, "started", "stopped"))
	w.sound()
}

// TestStopWhileWorkIsUnderWay: callers and streams are let go, and what was
// acknowledged is there.
func TestStopWhileWorkIsUnderWay(t *testing.T) {
	w := newServing(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	streams := make(chan error, 1)
	first := make(chan bool, 1)
	go func() {
		streams <- w.client.Events(ctx, 0, true, func(api.Entry) error {
			select {
			case first <- true:
			default:
			}
			return nil
		})
	}()
	<-first
	var ids []string
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		j := must.Get(w.client.Submit(t.Context(), ask("guest.create", name), ""))(t)
		ids = append(ids, j.ID)
	}
	w.halt()
	cancel()
	<-streams
	require.NotContains(t, w.log.String(), "level=ERROR")
	w.serve()
	for _, id := range ids {
		require.Equal(t, op.StateSucceeded, w.await(id).State, id)
	}
	w.haltSound()
}

func TestStoppedBeforeItServed(t *testing.T) {
	w := newInitialised(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, w.run(ctx))
	require.NotContains(t, w.log.String(), "level=ERROR")
	must.Fail(os.Lstat(w.socket))(t, fs.ErrNotExist)
}

func TestSecondDaemon(t *testing.T) { // H06
	w := newServing(t)
	//fsck:none init has it watched, or it does not start
	err := daemon.Serve(t.Context(), daemon.ServeOptions{StateDir: w.state, Socket: filepath.Join(w.dir, "s2")})
	refused(t, err, refusal.Conflict, "uses the state directory", "pid")
	must.Fail(os.Lstat(filepath.Join(w.dir, "s2")))(t, fs.ErrNotExist)

	// Another gate at the same socket is told so, too, and takes nothing away.
	other := w.options()
	other.StateDir = filepath.Join(w.dir, "other")
	must.Get(life.Init(t.Context(), other))(t)
	//fsck:none init has it watched, or it does not start
	err = daemon.Serve(t.Context(), daemon.ServeOptions{StateDir: other.StateDir, Socket: w.socket})
	refused(t, err, refusal.Conflict, "another daemon listens")
	w.status()
}

// TestBrokenSettingsAtStart: refused with file and line, and nothing was
// started: the same state serves once they are mended.
func TestBrokenSettingsAtStart(t *testing.T) {
	w := newInitialised(t)
	conf := filepath.Join(w.state, "gated.yaml")
	for name, c := range map[string]struct {
		text string
		code refusal.Code
		says []string
	}{
		"an unknown key":    {"host: pve1\nsingle_user: true\nnonsense: 1\n", refusal.Malformed, []string{conf + ":3:1"}},
		"a looser policy":   {"host: pve1\nsingle_user: true\npolicy:\n  max_validity: 48h\n", refusal.Malformed, []string{conf + ":4:"}},
		"no YAML":           {"host: [\n", refusal.Malformed, []string{conf + ":"}},
		"another host":      {"host: pve2\nsingle_user: true\n", refusal.TargetMismatch, []string{"pve2", "pve1"}},
		"a socket too long": {"host: pve1\nsingle_user: true\nsocket_group: no-such-group\n", refusal.BadParams, []string{"no-such-group", "groupadd --system no-such-group"}},
		"no token": {"host: pve1\nsingle_user: true\nproxmox:\n  url: https://localhost:8006\n  token_file: /no/such/token\n  node: pve1\n  pool: gated\n" +
			"  storage: local\n  fingerprint: " + strings.Repeat("AB:", 31) + "AB\n", refusal.Conflict, []string{"proxmox.token_file", "/no/such/token", "pveum user token add"}},
	} {
		t.Run(name, func(t *testing.T) {
			whole := read(t, conf)
			require.NoError(t, os.WriteFile(conf, []byte(c.text), 0o600))
			refused(t, w.run(t.Context()), c.code, c.says...)
			must.Fail(os.Lstat(w.socket))(t, fs.ErrNotExist)
			require.NoError(t, os.WriteFile(conf, []byte(whole), 0o600))
		})
	}
	require.NoError(t, os.Rename(conf, conf+".away"))
	refused(t, w.run(t.Context()), refusal.Unavailable, conf)
	require.NoError(t, os.Rename(conf+".away", conf))
	w.serve()
	w.halt()
}

func TestCopiedOrReplacedState(t *testing.T) { // T14
	w := newInitialised(t)
	storetest.Breaks(t, w.database(), "database")
	w.serve()
	w.waiting("web")
	w.halt()

	// The whole directory somewhere else.
	copied := filepath.Join(w.dir, "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(w.state)))
	require.NoError(t, filepath.WalkDir(copied, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			return os.Chmod(path, 0o600)
		}
		return os.Chmod(path, 0o700)
	}))
	before := tree(t, copied)
	//fsck:none init has it watched, or it does not start
	err := daemon.Serve(t.Context(), daemon.ServeOptions{StateDir: copied, Socket: filepath.Join(w.dir, "s2")})
	refused(t, err, refusal.TargetMismatch, "is not the one", "gated restore")
	require.Equal(t, before, tree(t, copied))
	report := must.Get(life.Fsck(t.Context(), copied))(t)
	require.False(t, report.Sound)
	require.EqualValues(t, "copy", report.Problems[0].Rule)

	// An old copy of the database in its place.
	db := filepath.Join(w.state, "gated.db")
	copyFile(t, db, db+".old")
	require.NoError(t, os.Rename(db, db+".away"))
	require.NoError(t, os.Rename(db+".old", db))
	refused(t, w.run(t.Context()), refusal.TargetMismatch, "gated restore")

	// Back again, it serves.
	require.NoError(t, os.Rename(db+".away", db))
	w.serve()
	w.halt()

	// A damaged one says so.
	f := must.Get(os.OpenFile(db, os.O_WRONLY, 0))(t)
	must.Get(f.WriteAt(make([]byte, 100), 0))(t)
	require.NoError(t, f.Close())
	refused(t, w.run(t.Context()), refusal.Unavailable, db, "gated restore")
}

func TestAuditOfStateDirectory(t *testing.T) { // H07
	w := newInitialised(t)
	storetest.Breaks(t, w.database(), "audit-log")
	w.serve()
	w.waiting("web")
	head := must.Get(life.VerifyAudit(t.Context(), w.state))(t)
	require.Equal(t, w.status().AuditHead.Seq, head.Seq)
	w.halt()
	db := must.Get(sql.Open("sqlite", "file:"+filepath.Join(w.state, "gated.db")+"?_pragma=busy_timeout(10000)"))(t)
	must.Get(db.Exec(`DELETE FROM audit WHERE seq = 3`))(t)
	require.NoError(t, db.Close())
	_, err := life.VerifyAudit(t.Context(), w.state)
	refused(t, err, refusal.Conflict, "entry 3")
	require.False(t, must.Get(life.Fsck(t.Context(), w.state))(t).Sound)
}

// TestFsckOfADamagedDatabase: a page that cannot be read is a problem that is
// reported, not an error that hides the others.
func TestFsckOfADamagedDatabase(t *testing.T) {
	w := newInitialised(t)
	storetest.Breaks(t, w.database(), "database")
	w.serve()
	for _, name := range []string{"a", "b", "c", "d"} {
		w.waiting(name)
	}
	w.halt()
	path := filepath.Join(w.state, "gated.db")
	info := must.Get(os.Stat(path))(t)
	f := must.Get(os.OpenFile(path, os.O_WRONLY, 0))(t)
	for at := int64(4096 * 2); at < info.Size(); at += 4096 * 3 {
		must.Get(f.WriteAt([]byte(strings.Repeat("x", 4096)), at))(t)
	}
	require.NoError(t, f.Close())
	r, err := life.Fsck(t.Context(), w.state)
	if err == nil {
		require.False(t, r.Sound)
		require.Equal(t, "database", r.Problems[0].Rule)
		return
	}
	refused(t, err, refusal.Unavailable, "gated restore")
}

func goroutines() int { return runtime.NumGoroutine() }

func stacks() string {
	var b strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
	return b.String()
}

// kinds returns those of the audit entries' kinds that are wanted, in order.
func kinds(t *testing.T, w *world, wanted ...string) []string {
	w.serve()
	defer w.halt()
	entries := must.Get(w.client.Audit(t.Context(), 0, 1000))(t)
	var out []string
	for _, e := range entries {
		for _, k := range wanted {
			if e.Kind == k {
				out = append(out, k)
			}
		}
	}
	return out[:len(out)-1] // this daemon's own start
}

func copyFile(t *testing.T, from, to string) {
	in := must.Get(os.Open(from))(t)
	defer in.Close()
	out := must.Get(os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600))(t)
	must.Get(io.Copy(out, in))(t)
	require.NoError(t, out.Close())
}
