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
	"sync"
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
	log    *daemonLog
}

// daemonLog keeps what a daemon logs, and hands out its lines.
type daemonLog struct {
	mu    sync.Mutex
	text  bytes.Buffer
	lines chan string
}

// read takes lines until the daemon closes its end.
func (l *daemonLog) read(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		l.mu.Lock()
		l.text.WriteString(s.Text() + "\n")
		l.mu.Unlock()
		select {
		case l.lines <- s.Text():
		default: // nobody waits for lines, and there are many
		}
	}
	close(l.lines)
}

func (l *daemonLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
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
	args = append([]string{"serve", "--state", ts.Getenv("STATE"), "--socket", ts.Getenv("GATED_SOCKET")}, args...)
	cmd := exec.Command(lookPath(ts, "gated"), args...)
	cmd.Env = environment(ts, "NOTIFY_SOCKET="+notify)
	cmd.Dir = ts.Getenv("WORK")
	stderr, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	log := &daemonLog{lines: make(chan string, 4096)}
	*r = running{cmd: cmd, notify: conn, ended: make(chan error, 1), log: log}
	ended := r.ended
	go func() {
		log.read(stderr)
		ended <- cmd.Wait()
		_ = conn.SetReadDeadline(time.Unix(1, 0)) // whoever waits for it need not
	}()
	ts.Defer(func() {
		if r.cmd == cmd {
			_ = cmd.Process.Kill() // the story failed, or left it running on purpose
			<-ended
		}
		_ = conn.Close()
		ts.Logf("[daemon]\n%s", log)
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
			ts.Fatalf("the daemon did not get ready: %v\n%s", err, r.log)
		}
		for _, line := range strings.Split(string(buf[:n]), "\n") {
			if line == "READY=1" {
				go r.drain(r.notify)
				return
			}
		}
	}
}

// drain reads what the daemon says later, until the story ends: a full queue would hold the daemon up.
func (*running) drain(notify *net.UnixConn) {
	if notify.SetReadDeadline(time.Time{}) != nil {
		return // it is closed
	}
	buf := make([]byte, 4096)
	for {
		if _, err := notify.Read(buf); err != nil {
			return
		}
	}
}

// halt ends the daemon. After a TERM it has to exit with 0. (testscript has a
// stop of its own, which ends the story as passed.)
func halt(ts *testscript.TestScript, neg bool, args []string) {
	r := gate(ts)
	if neg || len(args) > 1 || r.cmd == nil {
		ts.Fatalf("usage: halt [TERM|KILL], of a running daemon")
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
			ts.Fatalf("the daemon stopped with %v\n%s", err, r.log)
		}
	case <-time.After(patience):
		ts.Fatalf("the daemon did not end after %v", sig)
	}
}

// reload makes the daemon read its files again, and returns when it has logged
// whether it took them.
func reload(ts *testscript.TestScript, neg bool, args []string) {
	r := gate(ts)
	if neg || len(args) > 0 || r.cmd == nil {
		ts.Fatalf("usage: reload, of a running daemon")
	}
	for len(r.log.lines) > 0 {
		<-r.log.lines // what was logged before
	}
	ts.Check(r.cmd.Process.Signal(syscall.SIGHUP))
	limit := time.After(patience)
	for {
		select {
		case line, ok := <-r.log.lines:
			if !ok || strings.Contains(line, "reload") {
				return
			}
		case <-limit:
			ts.Fatalf("the daemon logged no reload")
		}
	}
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
