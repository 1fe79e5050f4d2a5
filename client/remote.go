package client

import (
	"net/netip"
	"path"
	"strconv"
	"strings"

	"gated/internal/base/refusal"
)

const (
	// sshScheme begins the address of a remote gate.
	sshScheme = "ssh://"
	// maxUser and maxHost are the longest names of a remote gate, in bytes. A domain name has at most 253 (RFC 1035
	// section 2.3.4).
	maxUser, maxHost = 64, 253
)

// Remote is a gate on another host, reached through the system's ssh. For zero members, ssh and the other host choose.
type Remote struct {
	User   string
	Host   string // a name for ssh, also an alias of ssh_config, or an IP address
	Port   uint16
	Socket string // the gate's socket on the other host
}

// ParseRemote reads ssh://[user@]host[:port][/path/to/socket]. It is strict, because ssh joins its arguments to one
// shell line, and takes an argument with a leading dash as a flag. Text that could be either is Malformed.
func ParseRemote(text string) (Remote, error) {
	rest, ok := strings.CutPrefix(text, sshScheme)
	if !ok {
		return Remote{}, badRemote(text, "it does not begin with "+sshScheme)
	}
	var r Remote
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		rest, r.Socket = rest[:i], rest[i:]
	}
	if r.Socket == "/" {
		r.Socket = ""
	}
	if user, host, ok := strings.Cut(rest, "@"); ok {
		r.User, rest = user, host
		if !isRemoteName(user, maxUser) {
			return Remote{}, badRemote(text, "the user is not 1 to 64 of A-Z a-z 0-9 _ . - with no dash or dot in front")
		}
	}
	host, port, hasPort, ok := splitPort(rest)
	if !ok {
		return Remote{}, badRemote(text, "the host is neither a name of A-Z a-z 0-9 _ . - with no dash or dot in front, nor an IP address")
	}
	r.Host = host
	if hasPort {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || port[0] == '0' {
			return Remote{}, badRemote(text, "the port is not a number from 1 to 65535")
		}
		r.Port = uint16(n)
	}
	if r.Socket != "" && !isSocketPath(r.Socket) {
		return Remote{}, badRemote(text, "the path is not one of A-Z a-z 0-9 _ . - and /, without . and .., of at most 107 bytes")
	}
	return r, nil
}

// splitPort separates host and port, and checks the host. An IPv6 address has brackets.
func splitPort(text string) (host, port string, hasPort, ok bool) {
	inner, bracketed := strings.CutPrefix(text, "[")
	if !bracketed {
		host, port, hasPort = strings.Cut(text, ":")
		return host, port, hasPort, isRemoteName(host, maxHost)
	}
	host, rest, closed := strings.Cut(inner, "]")
	addr, err := netip.ParseAddr(host)
	if !closed || err != nil || !addr.Is6() || addr.Zone() != "" {
		return "", "", false, false
	}
	port, hasPort = strings.CutPrefix(rest, ":")
	return addr.String(), port, hasPort, hasPort || rest == ""
}

// isRemoteName reports whether a name has no special meaning to ssh, to a shell or in ssh_config.
func isRemoteName(s string, limit int) bool {
	if s == "" || len(s) > limit || s[0] == '-' || s[0] == '.' {
		return false
	}
	return plain(s, "_.-")
}

func isSocketPath(s string) bool {
	return len(s) <= maxSocketPath && s[0] == '/' && path.Clean(s) == s && plain(s, "_.-/")
}

// plain reports whether s has only ASCII letters, digits and the characters of more.
func plain(s, more string) bool {
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte(more, c) < 0 {
			return false
		}
	}
	return true
}

// String writes the address as ParseRemote reads it.
func (r Remote) String() string {
	var b strings.Builder
	b.WriteString(sshScheme)
	if r.User != "" {
		b.WriteString(r.User + "@")
	}
	if strings.Contains(r.Host, ":") {
		b.WriteString("[" + r.Host + "]")
	} else {
		b.WriteString(r.Host)
	}
	if r.Port != 0 {
		b.WriteString(":" + strconv.Itoa(int(r.Port)))
	}
	return b.String() + r.Socket
}

// dial returns ssh's arguments for a connection to the gate.
func (r Remote) dial() []string {
	if r.Socket == "" {
		return r.argv("gated", "dial")
	}
	return r.argv("gated", "dial", "--socket", r.Socket)
}

// argv returns ssh's arguments for a command, with no terminal and no forwarding of ports, X11 or the agent. The other
// host gets signatures, but never the means to make them. No argument needs quotes in a shell, because ParseRemote
// checked them.
func (r Remote) argv(command ...string) []string {
	args := []string{"-T", "-a", "-x", "-o", "ClearAllForwardings=yes"}
	if r.Port != 0 {
		args = append(args, "-p", strconv.Itoa(int(r.Port)))
	}
	if r.User != "" {
		args = append(args, "-l", r.User)
	}
	return append(append(args, "--", r.Host), command...)
}

func badRemote(text, why string) error {
	return refusal.New(refusal.Malformed, "%q is not the address of a remote gate: %s", text, why).
		WithHint("write ssh://[user@]host[:port][/path/to/socket]")
}
