package client

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"gated/client/api"
	"gated/internal/base/refusal"
)

// SystemSocket is where a daemon of the system's own listens.
const SystemSocket = api.SystemSocket

// maxSocketPath is the longest socket path in bytes: sun_path has 108 with the
// final NUL (unix(7)).
const maxSocketPath = 107

// Options say where the gate is and which uids may run it. The zero value is right for a command line.
type Options struct {
	Socket string // --socket; the only path tried if not empty
	Remote string // --remote: a gate on another host, see ParseRemote; not with Socket

	// Getenv looks up GATED_SOCKET, GATED_UID, GATED_AGENT_TOKEN_FILE, HOME, XDG_RUNTIME_DIR, XDG_CONFIG_HOME and
	// XDG_STATE_HOME; os.Getenv if nil.
	Getenv func(string) string

	// System is the path tried last; SystemSocket if empty.
	System string

	// File is the path of the host's client.yaml; SystemFile if empty.
	File string

	// Token is an agent's; then that agent is the caller. It is for a gate of this host and never sent to a Remote one.
	Token string

	// ReadToken, if not nil, reads the file that GATED_AGENT_TOKEN_FILE names, if there is no Token.
	// It has to refuse a file that others can read. A program without it never calls as a token's agent.
	ReadToken func(path string) (string, error)

	// Unattended has ssh ask for no password, passphrase or host key (BatchMode, ssh_config(5)).
	Unattended bool

	// Slow, if not nil, is called once with the socket's path, when a gate of this host has not answered for two seconds. Calls that
	// last by their nature do not count: waits, events and backups.
	Slow func(socket string)

	// Lost, if not nil, is called each time a daemon goes away while the client waits for its events. Back is called
	// when the daemon returns.
	Lost, Back func()
}

// token returns the token to send, "" for none.
func (o Options) token() (string, error) {
	path := o.Getenv("GATED_AGENT_TOKEN_FILE")
	if o.Token != "" || o.ReadToken == nil || path == "" {
		return o.Token, nil
	}
	token, err := o.ReadToken(path)
	if err == nil && token == "" {
		err = refusal.New(refusal.Malformed, "the file %q of GATED_AGENT_TOKEN_FILE has no token", path)
	}
	if err != nil {
		return "", fmt.Errorf("GATED_AGENT_TOKEN_FILE: %w", err)
	}
	return token, nil
}

// Paths returns the paths at which a client looks for the socket, in order; none for a remote gate, or if a client.yaml
// is refused, which New says.
func (o Options) Paths() []string {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Remote != "" {
		return nil
	}
	p, err := o.place()
	if err != nil {
		return nil
	}
	return p.paths
}

// trusted returns the uids that may own the socket and answer on it: root, the
// caller, GATED_UID, and the uid of the file that names the socket.
func (o Options) trusted(at place) (map[uint32]bool, error) {
	uids := map[uint32]bool{0: true, uint32(os.Geteuid()): true}
	if at.uid != nil {
		uids[*at.uid] = true
	}
	text := o.Getenv("GATED_UID")
	if text == "" {
		return uids, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == math.MaxUint32 {
		return nil, refusal.New(refusal.Malformed, "GATED_UID is %q, not a uid", text).
			WithHint("set it to the daemon's numeric uid")
	}
	uids[uint32(n)] = true
	return uids, nil
}

// Attempt is one socket path that was tried.
type Attempt struct {
	Path string
	Err  error
	Hint string // what to do; may be empty
}

// Unreachable says that no gate answered: there is no socket, no process listens on it, the client does not trust the
// one that does, or the connection broke.
type Unreachable struct {
	Tried []Attempt // in order; the last one ended the search

	// Asked says that a connection broke before the answer: the request may have had its effect. If it is false, no
	// gate got the request.
	Asked bool
}

// Error lists every path that was tried.
func (u *Unreachable) Error() string {
	text := "the daemon cannot be reached"
	for _, a := range u.Tried {
		text += fmt.Sprintf("; %s: %v", a.Path, a.Err)
		if a.Hint != "" {
			text += " (" + a.Hint + ")"
		}
	}
	return text
}

// Unwrap returns the errors of all paths.
func (u *Unreachable) Unwrap() []error {
	errs := make([]error, 0, len(u.Tried))
	for _, a := range u.Tried {
		errs = append(errs, a.Err)
	}
	return errs
}

// CommandExit is 4, the exit code of gated and opsign.
func (u *Unreachable) CommandExit() int { return 4 }

// The reasons of an Attempt that are not system errors.
var (
	errNotSocket = errors.New("is not a socket")
	errNobody    = errors.New("no daemon answers there")
	errTooLong   = fmt.Errorf("has more than %d bytes, which no unix socket can have", maxSocketPath)
)
