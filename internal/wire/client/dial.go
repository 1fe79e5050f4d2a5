package client

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// backlogPause is the pause before the next try, if the daemon's queue of new connections is full.
const backlogPause = 10 * time.Millisecond

// callKey finds the context of the call that a dial is made for.
type callKey struct{}

// forItsCall ends a dial with its call. The transport would continue it for the next call that needs a connection. Then
// each call that gave up would leave a dial that asks a full daemon again and again.
func forItsCall(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	of, ok := ctx.Value(callKey{}).(context.Context)
	if !ok {
		return ctx, cancel
	}
	forget := context.AfterFunc(of, cancel)
	return ctx, func() { forget(); cancel() }
}

// dial connects to the gate.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	if c.remote != nil {
		return c.dialSSH(ctx)
	}
	conn, err := c.dialUnix(ctx)
	if err != nil {
		return nil, err // a nil *UnixConn in a net.Conn would not be nil
	}
	return conn, nil
}

// dialUnix connects to the first socket that exists. If that one does not answer, the search ends: another gate may
// guard another host's guests than the caller means.
func (c *Client) dialUnix(ctx context.Context) (*net.UnixConn, error) {
	gone := &Unreachable{}
	for _, path := range c.paths {
		conn, err := c.dialPath(ctx, path)
		if err == nil {
			c.last.Store(&path)
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var a *attemptError
		if !errors.As(err, &a) {
			a = &attemptError{err: err}
		}
		gone.Tried = append(gone.Tried, Attempt{Path: path, Err: a.err, Hint: a.hint})
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return nil, gone
}

// attemptError is an error with its remedy.
type attemptError struct {
	err  error
	hint string
}

func (a *attemptError) Error() string { return a.err.Error() }
func (a *attemptError) Unwrap() error { return a.err }

func (c *Client) dialPath(ctx context.Context, path string) (*net.UnixConn, error) {
	if len(path) > maxSocketPath {
		return nil, errTooLong
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, &attemptError{err: syscall.EACCES, hint: joinHint(filepath.Dir(path))}
	case errors.Is(err, fs.ErrNotExist):
		return nil, &attemptError{err: syscall.ENOENT, hint: "start one with gated serve"}
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, errNotSocket
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || !c.trusted[st.Uid] {
		return nil, c.distrust("the socket belongs to %s", st.Uid)
	}
	conn, err := connect(ctx, path)
	switch {
	case errors.Is(err, syscall.EACCES):
		return nil, &attemptError{err: syscall.EACCES, hint: joinHint(path)}
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, &attemptError{err: errNobody, hint: "start it with gated serve"}
	case err != nil:
		return nil, err
	}
	if err := c.checkPeer(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// connect tries again while the daemon's queue is full. The kernel answers a non-blocking caller with EAGAIN then.
func connect(ctx context.Context, path string) (*net.UnixConn, error) {
	pause := time.NewTicker(backlogPause)
	defer pause.Stop()
	var d net.Dialer
	for {
		conn, err := d.DialContext(ctx, "unix", path)
		if err == nil {
			return conn.(*net.UnixConn), nil
		}
		if !errors.Is(err, syscall.EAGAIN) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-pause.C:
		}
	}
}

// joinHint says how this user gets access to a path.
func joinHint(path string) string {
	for {
		info, err := os.Stat(path)
		if err == nil {
			return groupHint(info)
		}
		parent := filepath.Dir(path)
		if parent == path {
			return ""
		}
		path = parent
	}
}

func groupHint(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	need := fs.FileMode(0o060)
	if info.IsDir() {
		need = 0o010
	}
	if info.Mode().Perm()&need != need {
		return fmt.Sprintf("only uid %d may use it; set socket_group in gated.yaml to let a group in", st.Uid)
	}
	name := strconv.FormatUint(uint64(st.Gid), 10)
	if g, err := user.LookupGroupId(name); err == nil {
		name = g.Name
	}
	return fmt.Sprintf("join the group %s: usermod -aG %s \"$USER\", then log in again", name, name)
}
