package story

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience bounds every wait. It is never waited for where things work.
const patience = 60 * time.Second

// running is the story's daemon.
type running struct {
	cmd    *exec.Cmd
	notify *net.UnixConn // where it says that it is ready
	ended  chan error
	log    string
}

func gate(ts *testscript.TestScript) *running {
	r, ok := ts.Value(running{}).(*running)
	if !ok {
		ts.Fatalf("the story was not set up")
	}
	return r
}

// serve starts the daemon and returns when it says that it is ready, through
// sd_notify. What it logs goes to the story's log when it ends.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	r := gate(ts)
	if neg || r.cmd != nil {
		ts.Fatalf("usage: serve [FLAG...], once at a time")
	}
	notify := workPath(ts, "n")
	ts.Check(removeOld(notify))
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notify, Net: "unixgram"})
	ts.Check(err)
	r.log = workPath(ts, "serve.log")
	logFile, err := os.OpenFile(r.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	ts.Check(err)
	defer func() { _ = logFile.Close() }() // the daemon has it
	args = append([]string{"serve", "--state", ts.Getenv("STATE"), "--socket", ts.Getenv("GATED_SOCKET")}, args...)
	cmd := exec.Command(lookPath(ts, "gated"), args...)
	cmd.Env = environment(ts, "NOTIFY_SOCKET="+notify)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Stdout, cmd.Stderr = logFile, logFile
	ts.Check(cmd.Start())
	*r = running{cmd: cmd, notify: conn, ended: make(chan error, 1), log: r.log}
	go func() {
		r.ended <- cmd.Wait()
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // whoever waits for it need not
	}()
	ts.Defer(func() {
		if r.cmd == cmd {
			_ = cmd.Process.Kill() // the story failed, or left it running on purpose
			<-r.ended
		}
		_ = conn.Close()
		if b, err := os.ReadFile(r.log); err == nil {
			ts.Logf("[daemon]\n%s", b)
		}
	})
	r.awaitReady(ts)
}

// awaitReady reads notifications until the daemon is ready.
func (r *running) awaitReady(ts *testscript.TestScript) {
	ts.Check(r.notify.SetReadDeadline(time.Now().Add(patience)))
	buf := make([]byte, 4096)
	for {
		n, err := r.notify.Read(buf)
		if err != nil {
			b, _ := os.ReadFile(r.log)
			ts.Fatalf("the daemon did not get ready: %v\n%s", err, b)
		}
		for _, line := range strings.Split(string(buf[:n]), "\n") {
			if line == "READY=1" {
				return
			}
		}
	}
}

// stop ends the daemon. After a TERM it has to exit with 0.
func stop(ts *testscript.TestScript, neg bool, args []string) {
	r := gate(ts)
	if neg || len(args) > 1 || r.cmd == nil {
		ts.Fatalf("usage: stop [TERM|KILL], of a running daemon")
	}
	sig := syscall.SIGTERM
	if len(args) == 1 && args[0] == "KILL" {
		sig = syscall.SIGKILL
	}
	ts.Check(r.cmd.Process.Signal(sig))
	select {
	case err := <-r.ended:
		r.cmd = nil
		if sig == syscall.SIGTERM && err != nil {
			b, _ := os.ReadFile(r.log)
			ts.Fatalf("the daemon stopped with %v\n%s", err, b)
		}
	case <-time.After(patience):
		ts.Fatalf("the daemon did not end after %v", sig)
	}
}

// reload makes the daemon read its files again.
func reload(ts *testscript.TestScript, neg bool, args []string) {
	r := gate(ts)
	if neg || len(args) > 0 || r.cmd == nil {
		ts.Fatalf("usage: reload, of a running daemon")
	}
	ts.Check(r.cmd.Process.Signal(syscall.SIGHUP))
	r.awaitReady(ts)
}

// agent starts ssh-agent in the foreground, so that its pid is the one to end.
// It is ready when it has printed where it listens.
func agent(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: agent")
	}
	socket := workPath(ts, "a")
	cmd := exec.Command("ssh-agent", "-D", "-a", socket)
	cmd.Env = environment(ts)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		ts.Fatalf("ssh-agent: %v", err)
	}
	if !strings.Contains(line, socket) {
		ts.Fatalf("ssh-agent printed %q", line)
	}
	ts.Setenv("SSH_AUTH_SOCK", socket)
}

// answer stands in for a daemon that answers everything with one status.
func answer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: answer STATUS [BODY]")
	}
	status, err := strconv.Atoi(args[0])
	ts.Check(err)
	l, err := net.Listen("unix", ts.Getenv("GATED_SOCKET"))
	ts.Check(err)
	body := []byte(strings.Join(args[1:], ""))
	srv := &http.Server{ReadHeaderTimeout: patience, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		kind := "application/json"
		if bytes.Contains(body, []byte(`"code"`)) {
			kind = "application/problem+json"
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})}
	go func() { _ = srv.Serve(l) }()
	ts.Defer(func() { _ = srv.Close() })
}

func removeOld(path string) error {
	err := os.Remove(path)
	if os.IsNotExist(err) {
		return nil
	}
	return err
}
