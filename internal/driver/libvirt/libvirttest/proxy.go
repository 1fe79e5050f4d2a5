package libvirttest

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"sync"

	"gated/internal/test/must"
)

// Proxy stands before a libvirtd. It can be silent, lie, or send an answer twice. It reads only
// the parts of the protocol that this needs.
type Proxy struct {
	Socket string

	mu     sync.Mutex
	mode   mode
	held   chan struct{} // closed when the held calls may go on
	tell   func(changes, takes bool)
	listen net.Listener
	conns  map[net.Conn]bool
	done   sync.WaitGroup
}

type mode int

const (
	faithful     mode = iota
	silent            // it passes no call on
	silentAtWork      // it passes no call on that changes something
	lying             // it answers those with success and does not pass them on
	twice             // it sends the answers to those two times
	cutOff            // the connection ends before the answer to an undefine
)

// The parts of a packet that the proxy reads, and their values.
const (
	headerSize  = 28
	procedureAt = 12
	typeAt      = 16
	typeReply   = 1
)

// The numbers of the driver's calls that change something (libvirt's remote_protocol.x).
const undefine = 231

// taking has those of them that take bytes of disks or of snapshots: to delete or wipe a volume, to go back to a snapshot or delete it.
var taking = map[uint32]bool{94: true, 165: true, 192: true, 193: true}

var changing = map[uint32]bool{9: true, 33: true, 93: true, 94: true, 125: true, 160: true, 161: true, 165: true, 185: true,
	192: true, 193: true, undefine: true, 234: true, 251: true, 260: true, 264: true, 350: true}

// Proxy starts a proxy that ends with the test.
func (l *Libvirtd) Proxy() *Proxy {
	l.t.Helper()
	p := &Proxy{Socket: filepath.Join(l.dir, "sock", "proxy"), conns: map[net.Conn]bool{}}
	p.listen = must.Get(net.Listen("unix", p.Socket))(l.t)
	p.done.Go(func() { p.accept(l.Socket) })
	l.t.Cleanup(func() {
		p.set(faithful)
		_ = p.listen.Close()
		p.Cut()
		p.done.Wait()
	})
	return p
}

// Silence holds calls until release: all, or only those that change something.
func (p *Proxy) Silence(all bool) (release func()) {
	m := silentAtWork
	if all {
		m = silent
	}
	p.set(m)
	return func() { p.set(faithful) }
}

// Lie answers changes with success and does none of them, until stop.
func (p *Proxy) Lie() (stop func()) { p.set(lying); return func() { p.set(faithful) } }

// Twice sends the answers to changes two times from now on.
func (p *Proxy) Twice() { p.set(twice) }

// CutOff breaks off before the answer to the next undefine, which is the end of a destroy.
func (p *Proxy) CutOff() { p.set(cutOff) }

// Tell has fn called before each call is passed on: whether the call changes something, and whether it takes bytes. nil ends that.
func (p *Proxy) Tell(fn func(changes, takes bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tell = fn
}

func (p *Proxy) tells() func(changes, takes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tell
}

// Cut ends every connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) set(m mode) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil {
		close(p.held)
		p.held = nil
	}
	if p.mode = m; m == silent || m == silentAtWork {
		p.held = make(chan struct{})
	}
}

func (p *Proxy) now() (mode, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mode, p.held
}

func (p *Proxy) accept(to string) {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", to)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		p.mu.Unlock()
		end := func() { _ = client.Close(); _ = server.Close() }
		p.done.Go(func() { defer end(); p.calls(client, server) })
		p.done.Go(func() { defer end(); p.answers(server, client) })
	}
}

// calls passes calls on.
func (p *Proxy) calls(client, server net.Conn) {
	for {
		packet, err := readPacket(client)
		if err != nil {
			return
		}
		procedure := binary.BigEndian.Uint32(packet[procedureAt:])
		if tell := p.tells(); tell != nil {
			tell(changing[procedure], taking[procedure])
		}
		m, held := p.now()
		if m == silent || m == silentAtWork && changing[procedure] {
			<-held
		}
		if m == lying && changing[procedure] {
			answer := append([]byte{0, 0, 0, headerSize}, packet[4:headerSize]...)
			binary.BigEndian.PutUint32(answer[typeAt:], typeReply)
			if _, err := client.Write(answer); err != nil {
				return
			}
			continue
		}
		if _, err := server.Write(packet); err != nil {
			return
		}
	}
}

// answers passes answers on.
func (p *Proxy) answers(server, client net.Conn) {
	for {
		packet, err := readPacket(server)
		if err != nil {
			return
		}
		procedure := binary.BigEndian.Uint32(packet[procedureAt:])
		m, _ := p.now()
		if m == cutOff && procedure == undefine {
			p.set(faithful)
			return
		}
		if m == twice && changing[procedure] {
			packet = append(packet, packet...)
		}
		if _, err := client.Write(packet); err != nil {
			return
		}
	}
}

func readPacket(r io.Reader) ([]byte, error) {
	packet := make([]byte, headerSize)
	if _, err := io.ReadFull(r, packet); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(packet)
	if n < headerSize || n > 64<<20 {
		return nil, io.ErrUnexpectedEOF
	}
	packet = append(packet, make([]byte, n-headerSize)...)
	_, err := io.ReadFull(r, packet[headerSize:])
	return packet, err
}
