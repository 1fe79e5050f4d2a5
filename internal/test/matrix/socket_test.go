package matrix_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/server"
	"gated/internal/log/audit"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

// stranger is a uid that is nobody's here, with the group that may connect.
const (
	stranger = 64321
	callers  = 64320
)

// serve puts the real server on the gate and returns its socket.
func (w *world) serve() string { return w.serveWithin(server.Limits{}) }

// serveWithin is serve with other limits.
func (w *world) serveWithin(limits server.Limits) string {
	w.t.Helper()
	dir := must.Get(os.MkdirTemp("", "gated"))(w.t)
	require.NoError(w.t, os.Chmod(dir, 0o755))
	w.cleanup(func() { _ = os.RemoveAll(dir) })
	path, gid := filepath.Join(dir, "s"), -1
	if os.Getuid() == 0 {
		gid = callers
	}
	l, err := server.Listen(path, gid)
	require.NoError(w.t, err)
	s := server.New(server.Config{Gate: w.gate, UID: daemonUID, Refused: w.gate.NoteRefused, Now: time.Now, Limits: limits,
		Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	w.cleanup(func() { cancel(); <-ended; _ = l.Close() })
	return path
}

// callAs makes one call as a uid that is no operator's, and returns the answer.
func (w *world) callAs(socket string, call ...string) []byte {
	w.t.Helper()
	text := must.Get(json.Marshal(orders{What: "call", Dir: socket, Call: call}))(w.t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Dir = "/"
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0", helperEnv + "=" + string(text)}
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: callers}}
	}
	out, err := cmd.Output()
	require.NoError(w.t, err, "%s", out)
	return out
}

func callOnce(socket string, call []string) error {
	c := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", socket)
	}}}
	req, err := http.NewRequest(call[0], "http://gated"+call[1], strings.NewReader(call[2]))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", call[3])
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return failure(io.Copy(os.Stdout, resp.Body))
}

// problem is the refusal that an answer carries, nil if it carries none.
func problem(t testing.TB, answer []byte) error {
	t.Helper()
	require.True(t, jsontext.Value(bytes.TrimSpace(answer)).IsValid(), "the answer is no JSON: %s", answer)
	var p api.Problem
	if api.DecodeAnswer(answer, &p) != nil || p.Code == "" {
		return nil
	}
	return p.Refusal()
}

// occupied is a row in which the socket's path is no free path.
func occupied(id, what string, want refusal.Code, path func(w *world) string, intact func(t testing.TB, path string)) attack {
	return attack{id: id, what: "the socket's path " + what, want: want, run: func(w *world) error {
		at := path(w)
		w.armUnlogged("it does not start")
		s, err := server.Listen(at, -1)
		if err == nil {
			require.NoError(w.t, s.Close())
		}
		intact(w.t, at)
		return err
	}}
}

// odd is what a careless program would interpret.
var odd = []string{`$(touch pwned)`, "`touch pwned`", `"; touch pwned; "`, `' OR 1=1 --`, `../../etc/passwd`, `%s%n%x`, `{{.}}`,
	`\u0000`, `<script>`, `file:///etc/passwd`, `@/etc/passwd`, `*`, `~root`, `|touch pwned`, `&& touch pwned`, "\\", `"`, `'`, `null`, `{}`}

var hostRows = []attack{
	occupied("H02a", "is taken by a file", refusal.Conflict, func(w *world) string {
		path := filepath.Join(w.t.TempDir(), "s")
		require.NoError(w.t, os.WriteFile(path, []byte("precious"), 0o600))
		return path
	}, func(t testing.TB, path string) { require.Equal(t, "precious", string(must.Get(os.ReadFile(path))(t))) }),
	occupied("H02b", "is taken by a live daemon", refusal.Conflict, func(w *world) string { return w.serve() },
		func(t testing.TB, path string) {
			conn := must.Get(net.Dial("unix", path))(t, "the live one goes on")
			require.NoError(t, conn.Close())
		}),
	occupied("H02c", "is longer than a socket's can be", refusal.Malformed, func(w *world) string {
		return "/tmp/" + strings.Repeat("x", server.MaxSocketPath)
	}, func(t testing.TB, path string) { require.False(t, exists(path)) }),
	occupied("H02d", "is taken by a symlink to a file", refusal.Conflict, func(w *world) string {
		dir := w.t.TempDir()
		require.NoError(w.t, os.WriteFile(filepath.Join(dir, "precious"), nil, 0o600))
		require.NoError(w.t, os.Symlink("precious", filepath.Join(dir, "s")))
		return filepath.Join(dir, "s")
	}, func(t testing.TB, path string) { require.Equal(t, "precious", must.Get(os.Readlink(path))(t)) }),
	{id: "H02e", what: "the socket's path is taken by a dead daemon, whose socket is replaced, and then by a live one", want: refusal.Conflict,
		run: func(w *world) error {
			path := filepath.Join(w.t.TempDir(), "s")
			dead := must.Get(net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"}))(w.t)
			dead.SetUnlinkOnClose(false)
			require.NoError(w.t, dead.Close())
			live := must.Get(server.Listen(path, -1))(w.t, "a dead socket is in nobody's way")
			defer live.Close()
			w.armUnlogged("it does not start")
			return failure(server.Listen(path, -1))
		}},
	{id: "H05a", what: "shell, SQL, paths and quotes in every string of a job", want: refusal.PendingSignature, run: func(w *world) error {
		r := w.destroyRequest()
		socket := w.serve()
		w.arm()
		for _, s := range odd {
			q := string(must.Get(jsontext.AppendQuote(nil, s))(w.t))
			for _, body := range []string{
				`{"op":` + q + `,"target":"guest/victim"}`,
				`{"op":"guest.destroy","target":` + q + `}`,
				`{"op":"guest.restore","target":"guest/victim","params":{"snapshot":` + q + `}}`,
				`{"op":"guest.set-config","target":"guest/victim","params":{` + q + `:` + q + `}}`,
				`{"op":"guest.set-config","target":"guest/victim","params":{"command":` + q + `}}`,
				`{"op":"guest.set-config","target":"guest/victim","params":{"labels":{` + q + `:"x"}}}`,
			} {
				if op.CheckName(s) == nil {
					continue // null is a name like another
				}
				require.Error(w.t, problem(w.t, w.callAs(socket, "POST", "/v1/jobs", body, "application/json")), "%s", body)
			}
			answer := w.callAs(socket, "POST", "/v1/jobs", `{"op":"guest.destroy","target":"guest/victim","reason":`+q+`}`, "application/json")
			require.NoError(w.t, problem(w.t, answer), "a reason is any text")
		}
		require.False(w.t, exists("pwned"))
		require.NoError(w.t, problem(w.t, w.callAs(socket, "GET", "/v1/requests/"+r.ID.String(), "", "")))
		return w.waits(w.gate.Job(w.ctx, r.ID.Job))
	}},
	{id: "H05b", what: "odd text in the labels of a guest, which is shown again as it is", want: refusal.PendingSignature, run: func(w *world) error {
		for i, s := range odd {
			w.do("guest.set-config", "victim", "labels", addLabel(w, fmt.Sprintf("l%d", i), s))
		}
		for i, s := range odd {
			require.Equal(w.t, s, w.observe("victim").Labels[fmt.Sprintf("l%d", i)])
		}
		w.arm()
		j, err := w.submit(hub, ask("guest.destroy", "victim"))
		require.NoError(w.t, problem(w.t, w.callAs(w.serve(), "GET", "/v1/requests/"+j.Steps[0].ID.String(), "", "")))
		return w.waits(j, err)
	}},
	{id: "H10a", what: "the caller goes away while its decision is queued", want: refusal.Unavailable, run: func(w *world) error {
		r := w.destroyRequest()
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		w.armUnlogged("nothing was decided, so there is nothing to tell")
		return failure(w.gate.Approve(ctx, hub, r.ID, w.envelopeOf(r)))
	}},
	{id: "H10b", what: "decisions that fail a constraint, in the same commit groups as ones that do not", want: refusal.Replayed, run: func(w *world) error {
		r := w.destroyRequest()
		w.arm()
		var wg sync.WaitGroup
		errs := make([]error, 64)
		for i := range errs {
			wg.Go(func() {
				errs[i] = w.store.Update(w.ctx, func(tx *store.Tx) error {
					if i%2 == 0 {
						_, err := tx.Insert(`INSERT INTO idempotency(caller, key, body, job, at) VALUES('t', ?, '', 1, 0)`, i)
						return err
					}
					if _, err := tx.Exec(`UPDATE steps SET state = 'authorized' WHERE job = ?`, int64(r.ID.Job)); err != nil {
						return err
					}
					return nonce.Issue(tx, nonce.Record{Nonce: r.Nonce, Request: r.ID, ExpiresAt: w.now()})
				})
			})
		}
		wg.Wait()
		var last error
		for i, err := range errs {
			if i%2 == 0 {
				require.NoError(w.t, err)
			} else {
				require.ErrorIs(w.t, err, refusal.Replayed)
				last = err
			}
		}
		w.allow.unlogged = "the store was asked, not the gate"
		w.sql(`DELETE FROM idempotency WHERE caller = 't'`)
		return last
	}},
	{id: "H11", what: "a flood of refusals from many callers", want: refusal.UnknownSigner, run: func(w *world) error {
		r := w.destroyRequest()
		e := w.mallory.envelope(w.t, r.Payload)
		w.arm()
		const callers, each = 8, 100
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for range each {
					_, _ = w.gate.Approve(w.ctx, op.Requester{Source: op.SourceAPI, UID: uint32(5000 + c)}, r.ID, e)
				}
			})
		}
		wg.Wait()
		require.Len(w.t, must.Get(w.gate.Events(w.ctx, w.before.seq, 100000))(w.t), callers*10)
		w.pass(time.Minute)
		require.NoError(w.t, w.gate.Tick(w.ctx))
		count := 0
		for _, e := range must.Get(w.gate.Events(w.ctx, w.before.seq, 100000))(w.t) {
			count += max(1, e.Count)
			require.Equal(w.t, audit.Refused, e.Kind)
		}
		require.Equal(w.t, callers*each, count, "every refusal is counted")
		return w.send(r.ID, e)
	}},
}

func addLabel(w *world, name, value string) map[string]any {
	m := map[string]any{name: value}
	for k, v := range w.observe("victim").Labels {
		m[k] = v
	}
	return m
}

const unreachable refusal.Code = "unreachable"

var socketRows = []attack{
	{id: "H12a", what: "a socket of another uid at the path", want: unreachable, run: func(w *world) error {
		if os.Getuid() != 0 {
			w.t.Skip("needs root, to give a socket to another uid")
		}
		path := filepath.Join(w.t.TempDir(), "s")
		l := must.Get(net.Listen("unix", path))(w.t)
		defer l.Close()
		require.NoError(w.t, os.Chown(path, stranger, -1))
		r := w.destroyRequest()
		w.armUnlogged("no gate was asked")
		return fooled(w, path, r)
	}},
	{id: "H13a", what: "another uid cancels a job, asked of the gate", want: refusal.NotAllowed, run: func(w *world) error {
		r := w.destroyRequest()
		w.arm()
		return failure(w.gate.Cancel(w.ctx, other, r.ID.Job))
	}},
	{id: "H13b", what: "another uid cancels a job, over the socket", want: refusal.NotAllowed, run: func(w *world) error {
		r := w.destroyRequest()
		socket := w.serve()
		w.arm()
		return problem(w.t, w.callAs(socket, "DELETE", "/v1/jobs/"+r.ID.Job.String(), "", ""))
	}},
	{id: "H13c", what: "another uid puts desired state", want: refusal.NotAllowed, run: func(w *world) error {
		socket := w.serve()
		w.arm()
		return problem(w.t, w.callAs(socket, "PUT", "/v1/desired/hub", document("  - name: victim\n    state: absent\n"), "application/yaml"))
	}},
	{id: "H13d", what: "another uid takes desired state away", want: refusal.NotAllowed, run: func(w *world) error {
		socket := w.serve()
		w.arm()
		return problem(w.t, w.callAs(socket, "DELETE", "/v1/desired/hub", "", ""))
	}},
	{id: "H13e", what: "another uid takes a backup", want: refusal.NotAllowed, run: func(w *world) error {
		socket := w.serve()
		w.arm()
		return problem(w.t, w.callAs(socket, "GET", "/v1/backup", "", ""))
	}},
	{id: "B10v", what: "an envelope over the wire with a doubled member", want: refusal.Malformed, run: func(w *world) error {
		r := w.destroyRequest()
		e := w.envelopeOf(r)
		body := string(must.Get(api.Encode(api.EnvelopeOf(e.Payload, e.Signatures...)))(w.t))
		socket := w.serve()
		w.arm()
		for _, bad := range []string{body + body, strings.Replace(body, `{`, `{"payload":"",`, 1), strings.Replace(body, `"payload"`, `"Payload"`, 1),
			strings.Replace(body, `{`, `{"force":true,`, 1), strings.Replace(body, `"signatures":[`, `"signatures":[null,`, 1), "null", ""} {
			require.ErrorIs(w.t, problem(w.t, w.callAs(socket, "POST", "/v1/requests/"+r.ID.String()+"/approve", bad, "application/json")), refusal.Malformed, "%s", bad)
		}
		return problem(w.t, w.callAs(socket, "POST", "/v1/ops", body+"x", "application/json"))
	}},
}

// fooled sends an approval to whoever listens at path.
func fooled(w *world, path string, r op.Request) error {
	w.t.Helper()
	c := must.Get(client.New(client.Options{Socket: path, Getenv: func(string) string { return "" }}))(w.t)
	defer c.Close()
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	e := w.envelopeOf(r)
	_, err := c.Approve(ctx, r.ID.String(), api.EnvelopeOf(e.Payload, e.Signatures...))
	var gone *client.Unreachable
	require.True(w.t, errors.As(err, &gone), "%v", err)
	require.ErrorContains(w.t, err, "64321")
	return unreachable
}
