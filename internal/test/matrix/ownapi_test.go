package matrix_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// asksRaw sends bytes over one connection and returns every answer, until the
// server closes it or has nothing more to say.
func (w *world) asksRaw(conn net.Conn, bytes string) (all []error) {
	w.t.Helper()
	require.NoError(w.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, _ = io.WriteString(conn, bytes)                 // what is refused early is not read to its end
	if !strings.Contains(bytes, "Connection: close") { // else the end is the daemon's, and a caller who hangs up first is not answered
		_ = conn.(*net.UnixConn).CloseWrite()
	}
	lines := bufio.NewReader(conn)
	for {
		answer, err := http.ReadResponse(lines, nil)
		if err != nil {
			return all
		}
		b, err := io.ReadAll(answer.Body)
		switch {
		case err != nil:
			return append(all, dropped)
		case answer.Header.Get("Content-Type") == "application/problem+json":
			all = append(all, problem(w.t, b))
		case answer.StatusCode >= 400:
			all = append(all, dropped) // in the words of net/http, before any handler
		default:
			all = append(all, nil)
		}
	}
}

// smuggled is a row in which a call that would do harm stands where it is to be
// taken for one of its own. The connection is root's, who may cancel anything.
func smuggled(id, what string, want refusal.Code, text func(harm string) string) attack {
	return attack{id: id, what: "a call inside another one: " + what, want: want, run: func(w *world) error {
		r := w.destroyRequest()
		conn := w.dialTo(w.serve(), 1)[0]
		harm := "DELETE /v1/jobs/" + r.ID.Job.String() + " HTTP/1.1\r\nHost: gated\r\n\r\n"
		w.arm()
		if want == dropped {
			w.allow.unlogged = "no handler saw it"
		}
		answers := w.asksRaw(conn, text(harm))
		require.Len(w.t, answers, 1, "%v", answers)
		require.Equal(w.t, op.StatePending, w.stepOf(r.ID).State)
		return answers[0]
	}}
}

// spelled is a row in which calls name what they mean otherwise.
func spelled(id, what string, want refusal.Code, calls func(job string) []string) attack {
	return attack{id: id, what: what, want: want, run: func(w *world) error {
		r := w.destroyRequest()
		socket := w.serve()
		w.arm()
		var last error
		for _, c := range calls(r.ID.Job.String()) {
			answers := w.asksRaw(w.dialTo(socket, 1)[0], c+" HTTP/1.1\r\nHost: gated\r\nConnection: close\r\n\r\n")
			require.Len(w.t, answers, 1, "%q", c)
			if last = answers[0]; last == dropped {
				continue
			}
			require.ErrorIs(w.t, last, want, "%q", c)
			require.Equal(w.t, op.StatePending, w.stepOf(r.ID).State, "%q", c)
		}
		return last
	}}
}

// members is a list of n members of JSON.
func members(n int, member func(i int) string) string {
	out := make([]string, n)
	for i := range out {
		out[i] = member(i)
	}
	return strings.Join(out, ",")
}

// wireRows are attacks by what is sent over the socket.
var wireRows = []attack{
	smuggled("X99a", "behind a length and chunks, of which each says another end", dropped, func(harm string) string {
		return fmt.Sprintf("POST /v1/classify HTTP/1.1\r\nHost: gated\r\nContent-Length: %d\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n%s", len(harm)+5, harm)
	}),
	smuggled("X99b", "behind two lengths", dropped, func(harm string) string {
		return fmt.Sprintf("POST /v1/classify HTTP/1.1\r\nHost: gated\r\nContent-Length: 0\r\nContent-Length: %d\r\n\r\n%s", len(harm), harm)
	}),
	smuggled("X99c", "as the body of a call that takes none", refusal.Malformed, func(harm string) string {
		return fmt.Sprintf("GET /v1/jobs HTTP/1.1\r\nHost: gated\r\nContent-Length: %d\r\n\r\n%s", len(harm), harm)
	}),
	smuggled("X99d", "as the rest of a body that is refused for its length", refusal.Oversized, func(harm string) string {
		return fmt.Sprintf("POST /v1/jobs HTTP/1.1\r\nHost: gated\r\nContent-Length: %d\r\n\r\n%s", 2<<20, harm)
	}),
	smuggled("X99e", "after a header line that is continued", dropped, func(harm string) string {
		return "GET /v1/jobs HTTP/1.1\r\nHost: gated\r\n X: y\r\nContent-Length : 0\r\n\r\n" + harm
	}),
	smuggled("X99f", "after the preface of HTTP/2", refusal.Malformed, func(harm string) string {
		return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + harm
	}),
	spelled("X99g", "a job is cancelled by paths that lead to it by detours", refusal.Malformed, func(job string) []string {
		return []string{"DELETE //v1/jobs/" + job, "DELETE /v1//jobs/" + job, "DELETE /v1/./jobs/" + job, "DELETE /v1/guests/../jobs/" + job,
			"DELETE /v1/guests/%2e%2e/jobs/" + job, "DELETE /v1/jobs/%2e/" + job, "DELETE /v1/jobs/" + job + "/", "DELETE /v1/jobs/" + job + ";x",
			"DELETE /v1/jobs;x/" + job, "DELETE /v1%2fjobs%2f" + job, "DELETE /V1/jobs/" + job, "DELETE /v1/jobs/" + job + "%00", "DELETE /v1/jobs/0" + job[1:],
			"DELETE /v1/jobs/" + job + "?force=true", "DELETE *", "DELETE jobs/" + job, "DELETE /v1/jobs/" + job + "%20"}
	}),
	spelled("X99h", "a job is cancelled by methods that are none of the path's", refusal.Malformed, func(job string) []string {
		return []string{"delete /v1/jobs/" + job, "Delete /v1/jobs/" + job, "POST /v1/jobs/" + job, "PUT /v1/jobs/" + job, "PATCH /v1/jobs/" + job,
			"HEAD /v1/jobs/x", "OPTIONS /v1/jobs/" + job, "TRACE /v1/jobs/" + job, "CONNECT /v1/jobs/" + job,
			"POST /v1/jobs/" + job + " HTTP/1.1\r\nX-HTTP-Method-Override: DELETE\r\nX-Method:"}
	}),
	{id: "X99i", what: "30,000 members, and 300,000 brackets, in bodies of less than 1 MiB", want: refusal.Malformed, run: func(w *world) error {
		w.destroyRequest()
		socket := w.serve()
		w.arm()
		params := func(s string) string { return `{"op":"guest.set-config","target":"guest/victim","params":{` + s + `}}` }
		send := func(body string) error {
			require.Less(w.t, len(body), 1<<20)
			answers := w.asksRaw(w.dialTo(socket, 1)[0],
				fmt.Sprintf("POST /v1/jobs HTTP/1.1\r\nHost: gated\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
			require.Len(w.t, answers, 1)
			return answers[0]
		}
		require.ErrorIs(w.t, send(params(members(30_000, func(i int) string { return fmt.Sprintf(`"%d":1`, i) }))), refusal.TooComplex)
		require.Error(w.t, send(params(`"labels":{`+members(20_000, func(i int) string { return fmt.Sprintf(`"l%d":"x"`, i) })+`}`)))
		require.Error(w.t, send(`{"steps":[`+members(20_000, func(int) string { return `{"op":"","target":""}` })+`]}`))
		w.served(socket)
		return send(strings.Repeat("[", 300_000))
	}},
	{id: "X99j", what: "a process connects under one uid and becomes another one, whose job it then cancels", want: refusal.NotAllowed, run: func(w *world) error {
		if os.Getuid() != 0 {
			w.t.Skip("needs root, to be two uids")
		}
		j := must.Get(w.submit(op.Requester{Source: op.SourceAPI, UID: 0}, ask("guest.destroy", "victim")))(w.t)
		socket := w.serve()
		require.NoError(w.t, os.Chmod(socket, 0o666))
		conn := must.Get(dialAs(stranger, socket))(w.t)
		w.cleanup(func() { _ = conn.Close() })
		require.Equal(w.t, 0, os.Geteuid(), "and this process is root again")
		w.arm()
		answers := w.asksRaw(conn, "DELETE /v1/jobs/"+j.ID.String()+" HTTP/1.1\r\nHost: gated\r\nConnection: close\r\n\r\n")
		require.Len(w.t, answers, 1)
		return answers[0]
	}},
	{id: "X99k", what: "10,000 header lines, and one of a MiB", want: dropped, run: func(w *world) error {
		w.destroyRequest()
		socket := w.serve()
		w.armUnlogged("no handler saw it")
		for _, lines := range []string{strings.Repeat("X: y\r\n", 10_000), "X: " + strings.Repeat("y", 1<<20) + "\r\n"} {
			for _, err := range w.asksRaw(w.dialTo(socket, 1)[0], "GET /v1/jobs HTTP/1.1\r\nHost: gated\r\n"+lines+"\r\n") {
				require.ErrorIs(w.t, err, dropped)
			}
		}
		w.served(socket)
		return dropped
	}},
	{id: "X99l", what: "a handler that panics, many times at once and amid approvals", want: refusal.Internal, run: func(w *world) error {
		r := w.destroyRequest()
		socket := w.serve() // with no one behind /v1/status
		w.armUnlogged("nothing was decided")
		errs := make([]error, 32)
		var wg sync.WaitGroup
		for i, conn := range w.dialTo(socket, len(errs)) {
			wg.Go(func() {
				if answers := w.asksRaw(conn, "GET /v1/status HTTP/1.1\r\nHost: gated\r\n\r\n"); len(answers) == 1 {
					errs[i] = answers[0]
				}
			})
		}
		wg.Wait()
		for _, err := range errs {
			require.ErrorIs(w.t, err, refusal.Internal)
		}
		w.served(socket)
		require.Equal(w.t, op.StatePending, w.stepOf(r.ID).State)
		return errs[0]
	}},
	{id: "X99m", what: "an approval whose body is expected and never sent, while the same connection asks for more", want: refusal.Malformed, run: func(w *world) error {
		r := w.destroyRequest()
		conn := w.dialTo(w.serve(), 1)[0]
		w.arm()
		answers := w.asksRaw(conn, "POST /v1/requests/"+r.ID.String()+"/approve HTTP/1.1\r\nHost: gated\r\nExpect: 100-continue\r\nContent-Length: 999\r\n\r\n"+
			"DELETE /v1/jobs/"+r.ID.Job.String()+" HTTP/1.1\r\nHost: gated\r\n\r\n")
		require.NotEmpty(w.t, answers)
		return answers[len(answers)-1]
	}},
}

// dialAs connects as another uid: a thread of this process takes it, and gives
// it back.
func dialAs(uid int, socket string) (net.Conn, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid int) error {
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, ^uintptr(0), uintptr(uid), ^uintptr(0)); errno != 0 {
			return errno
		}
		return nil
	}
	if err := become(uid); err != nil {
		return nil, err
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err == nil {
		err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket})
	}
	if err = errors.Join(err, become(0)); err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), socket)
	defer file.Close()
	return net.FileConn(file)
}
