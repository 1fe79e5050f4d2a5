package client

import (
	"net"
	"sync"
)

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
