package server

import (
	"net"
	"slices"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/service"
)

// crowd holds every connection and bounds their number. If it is full, a new connection replaces one without a complete
// request: the oldest such one of the process with the most connections, of the uid with the most. So idle and slow
// connections keep no caller out, and the process that made them loses its own first.
type crowd struct {
	all, perUID int

	mu    sync.Mutex
	total int
	peers map[uint32][]*peer // by uid, oldest first
}

// peer is a connection and its other end, as the kernel reports it. It is a whole *net.UnixConn, because net/http ends
// a connection gently only if it finds CloseWrite.
type peer struct {
	*net.UnixConn
	uid    uint32
	pid    int32
	caller *service.Caller // nil if there is no registry of agents
	of     *op.Account     // of a caller that another member forwards; uid is a number for limits then
	agent  string          // the same; its registration, as the member says
	gone   sync.Once

	crowd *crowd
	in    bool // has a place in the crowd; guarded by crowd.mu
	busy  bool // a complete request is being answered; guarded by crowd.mu
}

// Close closes the connection, leaves the crowd and releases the process. It may be called more than once.
func (p *peer) Close() error {
	p.crowd.leave(p)
	err := p.UnixConn.Close()
	p.gone.Do(func() {
		if p.caller != nil {
			p.caller.Close()
		}
	})
	return err
}

// begin marks that a complete request has arrived: from now on, no new connection replaces this one. It reports false
// if one already has.
func (p *peer) begin() bool {
	p.crowd.mu.Lock()
	defer p.crowd.mu.Unlock()
	p.busy = p.in
	return p.busy
}

// end marks that the request was answered.
func (p *peer) end() {
	p.crowd.mu.Lock()
	defer p.crowd.mu.Unlock()
	p.busy = false
}

// join lets p in. It returns the connection that p replaces, which the caller closes. ok is false if there is no place.
func (c *crowd) join(p *peer) (victim *peer, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.peers[p.uid]) >= c.perUID:
		victim = idlest(c.peers[p.uid])
	case c.total >= c.all:
		victim = c.anyVictim()
	default:
		c.add(p)
		return nil, true
	}
	if victim == nil {
		return nil, false
	}
	c.remove(victim)
	c.add(p)
	return victim, true
}

func (c *crowd) leave(p *peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.in {
		c.remove(p)
	}
}

func (c *crowd) add(p *peer) {
	if c.peers == nil {
		c.peers = map[uint32][]*peer{}
	}
	p.in = true
	c.peers[p.uid] = append(c.peers[p.uid], p)
	c.total++
}

func (c *crowd) remove(p *peer) {
	p.in = false
	rest := c.peers[p.uid]
	i := slices.Index(rest, p)
	if rest = slices.Delete(rest, i, i+1); len(rest) == 0 {
		delete(c.peers, p.uid)
	} else {
		c.peers[p.uid] = rest
	}
	c.total--
}

// anyVictim looks through the uids, the one with the most connections first.
func (c *crowd) anyVictim() *peer {
	var victim *peer
	most := 0
	for _, peers := range c.peers {
		if len(peers) <= most {
			continue
		}
		if v := idlest(peers); v != nil {
			victim, most = v, len(peers)
		}
	}
	return victim
}

// idlest returns the oldest connection without a request, of the process with the most connections. It is nil if every
// connection has a request.
func idlest(peers []*peer) *peer {
	count := map[int32]int{}
	for _, p := range peers {
		count[p.pid]++
	}
	var victim *peer
	for _, p := range peers {
		if !p.busy && (victim == nil || count[p.pid] > count[victim.pid]) {
			victim = p
		}
	}
	return victim
}

// inTurn is for end points that read much: lists must not keep decisions, which
// need no turn, waiting. The others wait within their deadline.
func (s *Server) inTurn(answerTo func(*call) (answer, error)) func(*call) (answer, error) {
	return func(c *call) (answer, error) {
		end, err := s.turns.Take(c.ctx, c.by.Account().Lane())
		if err != nil {
			return answer{}, ownRefusal(refusal.New(refusal.OverLimit, "too many lists at once").
				WithHint("end some, or try again later"))
		}
		defer end()
		a, err := answerTo(c)
		if err == nil {
			err = s.encode(&a) // what it was made of is let go within the turn
		}
		return a, err
	}
}
