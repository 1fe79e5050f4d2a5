package libvirt

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// maxPacket is the size in bytes of the largest answer that the driver reads. It is libvirt's
// own bound.
const maxPacket = 32 << 20

// The parts of a libvirt RPC packet that the guard reads: length, program, version, procedure,
// type, serial, status. Each has four bytes, big endian.
const (
	headerSize   = 28
	program      = 0x20008086
	typeOfReply  = 1
	typeAt       = 16
	serialAt     = 20
	programAt    = 4
	lengthOfSize = 4
)

// guard gives the library only whole replies, each once and in the order of the calls. A
// connection has one call at a time. The library trusts the lengths that it reads, and waits
// for ever if an answer comes twice. An answer of libvirtd must not be able to end or to stop
// this daemon.
type guard struct {
	net.Conn
	rest []byte // of the packet that the library is reading
	last uint32 // the serial of the last reply
}

// Read returns bytes of the next reply. After a packet that is no reply, the connection ends.
func (g *guard) Read(p []byte) (int, error) {
	for len(g.rest) == 0 {
		packet, err := g.packet()
		if err != nil {
			return 0, err
		}
		if binary.BigEndian.Uint32(packet[programAt:]) != program || binary.BigEndian.Uint32(packet[typeAt:]) != typeOfReply {
			continue // an event that the driver did not ask for
		}
		if serial := binary.BigEndian.Uint32(packet[serialAt:]); serial > g.last {
			g.last, g.rest = serial, packet
		}
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

func (g *guard) packet() ([]byte, error) {
	var size [lengthOfSize]byte
	if _, err := io.ReadFull(g.Conn, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n < headerSize || n > maxPacket {
		return nil, fmt.Errorf("libvirtd sent a packet of %d bytes", n)
	}
	// It allocates for the bytes that come, not for the length in the packet.
	rest, err := io.ReadAll(io.LimitReader(g.Conn, int64(n-lengthOfSize)))
	if err == nil && len(rest) < int(n-lengthOfSize) {
		err = io.ErrUnexpectedEOF
	}
	return append(size[:], rest...), err
}
