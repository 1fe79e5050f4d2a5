package client

import (
	"net"
	"sync"
)

// processes are the ssh processes of a client that still run. The transport
// closes a connection that is in use in its own time; a program that ends after
// Client.Close shall leave none behind.
type processes struct {
	mu   sync.Mutex
	open map[*sshConn]bool
}

// kept is a connection that is forgotten when it is closed.
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
		_ = s.Close() // nothing more is sent
	}
}
