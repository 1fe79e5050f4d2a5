package postgres

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy passes TCP connections on to a port of 127.0.0.1, and has the faults of a network on order.
type Proxy struct {
	Port int // on 127.0.0.1

	listener net.Listener
	target   int
	running  sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	held    bool
	closed  bool
	deaf    bool // answers are thrown away
	halve   bool // the next bytes of a client arrive by half, and then the connection is cut
	delay   time.Duration
	conns   map[net.Conn]struct{}
}

// NewProxy starts a proxy. It ends with the test.
func NewProxy(t testing.TB, target int) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	p := &Proxy{Port: l.Addr().(*net.TCPAddr).Port, listener: l, target: target, conns: map[net.Conn]struct{}{}}
	p.changed = sync.NewCond(&p.mu)
	p.running.Add(1)
	go p.accept()
	t.Cleanup(func() {
		_ = l.Close()
		p.set(func() { p.closed = true })
		p.Cut()
		p.running.Wait()
	})
	return p
}

// Partition holds all bytes, or lets them go on. Bytes that were held are late, not lost.
func (p *Proxy) Partition(held bool) { p.set(func() { p.held = held }) }

// Delay makes all bytes of either way late.
func (p *Proxy) Delay(by time.Duration) { p.set(func() { p.delay = by }) }

// Deafen throws all answers away, while what clients say arrives.
func (p *Proxy) Deafen(deaf bool) { p.set(func() { p.deaf = deaf }) }

// Halve cuts a connection in the middle of the next bytes that a client sends.
func (p *Proxy) Halve() { p.set(func() { p.halve = true }) }

// Cut ends all connections of now.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
	p.changed.Broadcast()
}

func (p *Proxy) accept() {
	defer p.running.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Add(1)
		go p.pair(client)
	}
}

// pair serves one connection. While the proxy is partitioned the server does not see it.
func (p *Proxy) pair(client net.Conn) {
	defer p.running.Done()
	defer p.forget(client)
	if !p.keep(client) || !p.pass() {
		return
	}
	server, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.target))
	if err != nil {
		return
	}
	defer p.forget(server)
	if !p.keep(server) {
		return
	}
	p.running.Add(1)
	go func() {
		defer p.running.Done()
		p.copy(server, client, false)
	}()
	p.copy(client, server, true)
}

// copy passes bytes on in one direction. At its end neither side has a connection, but the other direction first
// delivers what it holds.
func (p *Proxy) copy(to, from net.Conn, answers bool) {
	defer p.forget(to)
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !p.deliver(to, buffer[:n], answers) {
			_ = from.Close()
			return
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) deliver(to net.Conn, b []byte, answers bool) bool {
	if !p.pass() {
		return false
	}
	p.mu.Lock()
	drop, half := p.deaf && answers, p.halve && !answers
	if half {
		p.halve, b = false, b[:len(b)/2]
	}
	p.mu.Unlock()
	if drop {
		return true
	}
	_, err := to.Write(b)
	return err == nil && !half
}

// pass waits while the proxy is partitioned, and for the delay. It is false if the proxy ends.
func (p *Proxy) pass() bool {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()
	if delay > 0 {
		<-time.After(delay)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.held && !p.closed {
		p.changed.Wait()
	}
	return !p.closed
}

func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
	return !p.closed
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = c.Close()
	delete(p.conns, c)
}
