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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
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
		if n := len(gone.Tried) - 1; n >= 0 && gone.Tried[n].Hint == a.hint {
			gone.Tried[n].Hint = "" // it is said once
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
		return nil, &attemptError{err: syscall.ENOENT, hint: c.absentHint(ctx, path)}
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
		return nil, &attemptError{err: errNobody, hint: c.absentHint(ctx, path)}
	case err != nil:
		return nil, err
	}
	if err := c.checkPeer(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// absentHint says how somebody comes to listen at the path.
func (c *Client) absentHint(ctx context.Context, path string) string {
	switch {
	case path == SystemSocket && c.host.Prepared():
		return c.host.Next(ctx, path)
	case c.file != "":
		return c.file + " names it: start the gate that listens there, or correct the path"
	}
	if len(c.paths) == 1 || c.host.Prepared() { // it may be any gate, or is not the host's
		return "start one with gated serve"
	}
	return "gated setup makes a gate; gated serve starts one that was made"
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
			return groupHint(path, info)
		}
		parent := filepath.Dir(path)
		if parent == path {
			return ""
		}
		path = parent
	}
}

func groupHint(path string, info fs.FileInfo) string {
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
	u, err := user.Current()
	joined := err == nil && ownfile.InGroup(u, name)
	if g, err := user.LookupGroupId(name); err == nil {
		name = g.Name
	}
	groups, err := os.Getgroups()
	switch {
	case err == nil && (slices.Contains(groups, int(st.Gid)) || os.Getegid() == int(st.Gid)):
		return fmt.Sprintf("this process is in the group %s, which may use it: getfacl %s shows what keeps it out",
			name, path)
	case joined:
		return fmt.Sprintf("this login began before the user was in the group %s: log in again", name)
	}
	return fmt.Sprintf("join the group %s: usermod -aG %s \"$USER\", then log in again", name, name)
}

// unixScheme begins the address of a gate of this host.
const unixScheme = "unix:"

// Address is a gate's address in its one form, as in known_gates: "unix:" and the absolute path of a socket, or the
// text of Remote.String.
type Address string

// UnixAddress returns the address of a socket of this host. A relative path is below the working directory.
func UnixAddress(path string) Address {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return Address(unixScheme + escape(path))
}

// ParseAddress reads an address as people write it: in its one form, as a remote gate's, or as a socket's path.
// Anything else is Malformed.
func ParseAddress(text string) (Address, error) {
	if filepath.IsAbs(text) {
		return UnixAddress(text), nil
	}
	if strings.HasPrefix(text, sshScheme) {
		r, err := ParseRemote(text)
		return Address(r.String()), err
	}
	rest, ok := strings.CutPrefix(text, unixScheme)
	path, escaped := unescape(rest)
	if !ok || !escaped || !filepath.IsAbs(path) {
		return "", refusal.New(refusal.Malformed, "%q is not the address of a gate", text).
			WithHint("write it as opsign known lists it: unix:/path/to/socket or ssh://[user@]host[:port][/path]")
	}
	return UnixAddress(path), nil
}

// At returns the options for the gate at an address. Errors are those of ParseAddress.
func (o Options) At(a Address) (Options, error) {
	a, err := ParseAddress(string(a))
	if err != nil {
		return o, err
	}
	o.Socket, o.Remote = "", string(a)
	if !a.Remote() {
		o.Remote = ""
		o.Socket, _ = unescape(strings.TrimPrefix(string(a), unixScheme)) // ParseAddress wrote it
	}
	return o, nil
}

const hexDigits = "0123456789ABCDEF"

// escape writes a percent sign and two digits for each byte that could end a field of known_gates or does not print.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c > 0x20 && c < 0x7f && c != '%' {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&0xf]})
		}
	}
	return b.String()
}

// unescape reverses escape. It accepts only what escape writes.
func unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		high, low := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
		if high < 0 || low < 0 {
			return "", false
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), escape(b.String()) == s
}

// Remote reports whether the gate is on another host.
func (a Address) Remote() bool { return strings.HasPrefix(string(a), sshScheme) }

// nobody is the uid that the kernel shows for a user outside of this user namespace (user_namespaces(7)).
const nobody = 65534

// checkPeer asks the kernel which process listens. The path's owner proves little: a path can be moved, but the
// listener's credentials cannot.
func (c *Client) checkPeer(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var pid int
	var uid uint32
	var credErr error
	if err := raw.Control(func(fd uintptr) { pid, uid, credErr = peer(int(fd)) }); err != nil {
		return err
	}
	if credErr != nil {
		return fmt.Errorf("ask who listens: %w", credErr)
	}
	if !c.trusted[uid] {
		return c.distrust(fmt.Sprintf("process %d of %%s listens there", pid), uid)
	}
	return nil
}

// distrust refuses to talk to a socket whose owner or listener is another uid. The refusal names that uid, names the
// right ones, and says that nothing was sent.
func (c *Client) distrust(who string, uid uint32) error {
	expected := []string{"root", fmt.Sprintf("you (uid %d)", os.Geteuid())}
	if uid := c.configured; uid != "" {
		expected = append(expected, "GATED_UID="+uid)
	}
	last := len(expected) - 1
	err := fmt.Errorf(who+", who is neither %s nor %s; nothing was sent", ownfile.Owner(uid), strings.Join(expected[:last], " nor "), expected[last])
	hint := fmt.Sprintf("any user can make a socket and answer on it. If the gate runs as that user, set GATED_UID=%d; "+
		"if not, find out what that process is and why the path is its", uid)
	if uid == nobody {
		hint = "the kernel shows uid 65534 for everybody outside of this user namespace: ask from where the gate's own user is seen"
	}
	return &attemptError{err: err, hint: hint}
}
