package access

import (
	"context"
	"encoding/hex"
	"errors"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"gated/internal/base/refusal"
)

// strangerKey marks the connections of other users of this machine. A cookie of localhost goes to whatever listens at any port
// of it, as an agent's own server may. So a cookie alone opens nothing: the connection has to be this user's, or root's.
type strangerKey struct{}

// who is a server's ConnContext: it looks once for each connection.
func (w *Wall) who(ctx context.Context, c net.Conn) context.Context {
	if !w.config.Local {
		return ctx
	}
	uid, known, err := w.owner(c)
	switch {
	case errors.Is(err, errors.ErrUnsupported): // this system says it of no connection
		w.config.Logger.Debug("whose connection it is cannot be known", "why", err)
		return ctx
	case err != nil: // many connections could keep this one from being looked up
		w.config.Logger.Warn("whose connection it is was not found out", "why", err)
		return context.WithValue(ctx, strangerKey{}, true)
	}
	if own := uint32(os.Geteuid()); !known || uid != own && uid != 0 {
		w.config.Logger.Warn("a connection of another user", "known", known, "uid", uid)
		return context.WithValue(ctx, strangerKey{}, true)
	}
	return ctx
}

// strange refuses what comes over a connection of another user.
func strange(ctx context.Context) *refusal.Refusal {
	if ctx.Value(strangerKey{}) == nil {
		return nil
	}
	return refusal.New(refusal.NotAllowed, "this connection is of another user of this machine than the one who started opsign web").
		WithHint("start opsign web as yourself, without sudo, and open the address that it prints")
}

// findOwner returns the uid of the socket at the other end of a TCP connection within this machine, from the text of
// /proc/net/tcp or tcp6 (proc_net_tcp.txt of the kernel). It is false if there is none, and if no process has the socket any
// more: the kernel lists such a one with uid 0, and whoever closed it would pass for root.
func findOwner(table string, peer, own netip.AddrPort) (uid uint32, ok bool) {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		local, okLocal := parseSocket(f[1])
		remote, okRemote := parseSocket(f[2])
		if !okLocal || !okRemote || local != peer || remote != own {
			continue
		}
		n, err := strconv.ParseUint(f[7], 10, 32)
		return uint32(n), err == nil && f[9] != "0" // its inode
	}
	return 0, false
}

// parseSocket reads an address of /proc/net/tcp: words of four bytes, each in the machine's order, which is little-endian on
// every machine that gated is built for; and the port.
func parseSocket(text string) (netip.AddrPort, bool) {
	host, port, ok := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	n, errPort := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || errPort != nil || len(port) != 4 || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		b[i], b[i+1], b[i+2], b[i+3] = b[i+3], b[i+2], b[i+1], b[i]
	}
	addr, _ := netip.AddrFromSlice(b) // its length was checked
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), true
}
