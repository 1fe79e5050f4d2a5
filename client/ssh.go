package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gated/internal/base/op"
)

const (
	// sshGrace is how long ssh may take to end after it is asked to.
	sshGrace = 2 * time.Second
	// maxSaid is how many bytes of ssh's messages are kept.
	maxSaid = 4 << 10
	// maxProbe is the longest answer to a new connection's first call, in bytes.
	maxProbe = 64 << 10
)

// errNoGate is the reason if the other host answers, but no gate does.
var errNoGate = errors.New("what answers there is not gated dial")

// sshConn is a connection to a gate through one ssh process. Its end of the socket pair is the connection. The process
// is reaped when it ends, for any reason.
type sshConn struct {
	net.Conn
	kill  context.CancelFunc
	ended chan struct{} // closed when the process was reaped
	exit  error         // of the process, when ended is closed
	said  lastSaid
	once  sync.Once
}

// startSSH runs the system's ssh, without a shell on this side.
func startSSH(r Remote, unattended bool) (*sshConn, error) {
	fds, err := pair()
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ssh"), os.NewFile(uintptr(fds[1]), "ssh")
	defer func() { _, _ = ours.Close(), theirs.Close() }() // the child has its copy then
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	ctx, kill := context.WithCancel(context.Background())
	s := &sshConn{Conn: conn, kill: kill, ended: make(chan struct{})}
	args := r.dial()
	if unattended {
		args = append([]string{"-o", "BatchMode=yes"}, args...)
	}
	cmd := exec.CommandContext(ctx, "ssh", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, &s.said
	// It stays in this process group, so that it may ask on the terminal. After SIGTERM it restores the terminal. If it
	// does not end, it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = sshGrace
	if err := cmd.Start(); err != nil {
		kill()
		_ = conn.Close()
		return nil, err
	}
	go func() {
		s.exit = cmd.Wait()
		close(s.ended)
	}()
	return s, nil
}

// Close ends the process, and returns after it is reaped.
func (s *sshConn) Close() error {
	var err error
	s.once.Do(func() {
		err = s.Conn.Close()
		s.kill()
	})
	<-s.ended
	return err
}

// probe makes the first call of the connection, and returns nil as soon as a gate answers. So the client learns here
// why ssh cannot reach a gate, and not in the middle of a call that may have had an effect.
func (s *sshConn) probe() error {
	// If ssh is gone, the read finds that.
	_, _ = io.WriteString(s, "HEAD /v1/status HTTP/1.1\r\nHost: gated\r\n\r\n")
	in := bufio.NewReader(io.LimitReader(s, maxProbe))
	resp, err := http.ReadResponse(in, &http.Request{Method: http.MethodHead})
	if err != nil {
		return err
	}
	_ = resp.Body.Close()                          // it is empty
	if in.Buffered() > 0 || resp.ProtoMajor != 1 { // not what a gate sends
		return errNoGate
	}
	return nil
}

// dialSSH connects to the remote gate. The context bounds only the dialling.
func (c *Client) dialSSH(ctx context.Context) (net.Conn, error) {
	address := c.remote.String()
	s, err := startSSH(*c.remote, c.unattended)
	if errors.Is(err, exec.ErrNotFound) {
		return nil, &Unreachable{Tried: []Attempt{{Path: address, Err: errors.New("there is no program ssh in PATH"), Hint: "install OpenSSH's client"}}}
	}
	if err != nil {
		return nil, &Unreachable{Tried: []Attempt{{Path: address, Err: err}}}
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	err = s.probe()
	if !stop() {
		<-s.ended
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, &Unreachable{Tried: []Attempt{s.failure(*c.remote, err)}}
	}
	c.last.Store(&address)
	return c.processes.keep(s), nil
}

// failure says why no gate answered through ssh, in ssh's words if there are any.
func (s *sshConn) failure(r Remote, err error) Attempt {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		_ = s.Close()
		return Attempt{Path: r.String(), Err: fmt.Errorf("%w: %s", errNoGate, op.Shown(err.Error())),
			Hint: "does a start-up file of the shell there print something? It should do so in interactive shells only"}
	}
	// ssh's output ended, so ssh is about to end too. It is not stopped, because its own reason and exit code are
	// needed.
	select {
	case <-s.ended:
	case <-time.After(sshGrace):
	}
	_ = s.Close()
	said := s.said.lines()
	text, hint := sshExit(s.exit, r, said)
	switch len(said) {
	case 0:
	case 1:
		text += ": " + said[0]
	default:
		text += ":\n" + strings.Join(said, "\n")
	}
	return Attempt{Path: r.String(), Err: errors.New(text), Hint: hint}
}

// sshExit words how ssh ended: with its own code, 255, or with the code of the remote command. If one code has several
// causes, the messages tell them apart.
func sshExit(err error, r Remote, said []string) (text, hint string) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return "the connection ended before a gate answered", ""
	}
	unknown := slices.ContainsFunc(said, func(line string) bool { return strings.Contains(line, "unknown command") })
	switch code := exit.ExitCode(); {
	case code == 255:
		return "ssh did not get there", "try it by hand, and answer what it asks: ssh " + strings.Join(r.argv("gated", "status"), " ")
	case code == 127:
		return "there is no program gated there", "install it there, in the PATH of shells that are not interactive: /usr/local/bin, say"
	case code == 2 && unknown:
		return "gated there does not know the command dial", "install the same version on both sides"
	case code == 1 || code == 2: // such as a bad GATED_UID, or a bad login
		return fmt.Sprintf("the command there failed before it looked for a gate (exit code %d)", code),
			"what it says is about that host: its words, its command line, or the environment that sshd gives it"
	case code == 4:
		return "ssh got there, and no gate answers there", ""
	default:
		return fmt.Sprintf("ssh ended (%v)", exit), ""
	}
}

// lastSaid keeps the end of a process's messages.
type lastSaid struct {
	mu sync.Mutex
	b  []byte
}

func (l *lastSaid) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	if over := len(l.b) - maxSaid; over > 0 {
		l.b = append(l.b[:0], l.b[over:]...)
	}
	return len(p), nil
}

// lines returns it as lines that are safe to print: the other host may send any bytes.
func (l *lastSaid) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for line := range strings.Lines(string(l.b)) {
		// The banner of a changed host key is mostly at signs.
		if line = strings.Trim(line, "@ \t\r\n"); line != "" {
			out = append(out, op.Shown(line))
		}
	}
	return out
}

// processes are a client's ssh processes that still run. The transport closes a connection in use at its own time, but
// after Client.Close no process may remain.
type processes struct {
	mu   sync.Mutex
	open map[*sshConn]bool
}

// kept is a connection that its processes forget when it closes.
type kept struct {
	*sshConn
	of *processes
}

func (k kept) Close() error {
	k.of.mu.Lock()
	delete(k.of.open, k.sshConn)
	k.of.mu.Unlock()
	return k.sshConn.Close()
}

func (p *processes) keep(s *sshConn) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[*sshConn]bool{}
	}
	p.open[s] = true
	return kept{s, p}
}

// end closes every connection.
func (p *processes) end() {
	p.mu.Lock()
	open := p.open
	p.open = nil
	p.mu.Unlock()
	for s := range open {
		_ = s.Close() // nothing more is sent, so an error loses nothing
	}
}
