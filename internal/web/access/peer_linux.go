package access

import (
	"net"
	"net/netip"
	"os"
)

// peerOwner returns the uid of the process at the other end of a connection within this machine. It is false if the kernel
// lists no such socket.
func peerOwner(c net.Conn) (uid uint32, known bool, err error) {
	peer, own := addrOf(c.RemoteAddr()), addrOf(c.LocalAddr())
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if os.IsNotExist(err) {
			continue // a machine without IPv6
		}
		if err != nil {
			return 0, false, err
		}
		if uid, ok := findOwner(string(text), peer, own); ok {
			return uid, true, nil
		}
	}
	return 0, false, nil
}

func addrOf(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}
