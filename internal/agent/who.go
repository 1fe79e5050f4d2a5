package agent

import (
	"gated/internal/proc"
)

// lineage is a registered process and the way up to it.
type lineage struct {
	to    *entry         // nil if there is none
	chain []proc.Process // from the peer up to the registered process
}

// Who returns the registration of the nearest registered process that the peer is or
// descends from. There is none for a peer that has ended or cannot be seen, one
// whose lineage passes through another uid, PID namespace or a process that
// took it in, and one whose lineage changed while it was looked at: such a
// caller is its uid and nothing else.
//
// reaper, if not 0, is what the caller measured with Reaper. It can only take a
// name away: if orphans go to a process between the peer and the registered
// one, or to that itself, the peer may be such an orphan.
func (r *Registry) Who(p *Peer, reaper int) (reg Registration, ok bool) {
	if r.blind != "" || p.handle == nil || p.PID <= 1 {
		return Registration{}, false
	}
	// Nothing is registered while this walks, so that one moment is answered for.
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.byPID) == 0 {
		return Registration{}, false
	}
	l, known := p.recall(r.epoch)
	if !known {
		if l, ok = r.lineage(p); !ok {
			return Registration{}, false
		}
		p.remember(l, r.epoch)
	}
	if l.to == nil {
		return Registration{}, false
	}
	if reaper != 0 && len(l.chain) > 1 && index(l.chain, reaper) >= 0 {
		return Registration{}, false
	}
	// Last of all: while both live, the numbers that were read were theirs.
	if p.handle.Ended() || l.to.handle.Ended() {
		return Registration{}, false
	}
	return l.to.Registration, true
}

// lineage walks from the peer to the nearest registered process. ok is false
// if that could not be told.
func (r *Registry) lineage(p *Peer) (lineage, bool) {
	var to *entry
	chain, err := climb(r.cfg.Table, p.PID, func(q proc.Process) bool {
		to = r.registered(q)
		return to != nil
	})
	if err != nil {
		return lineage{}, false
	}
	if unbroken(chain, p.UID) < len(chain) {
		to = nil
	}
	return lineage{to: to, chain: chain}, true
}

// registered returns the entry of a process, nil if it has none that answers.
func (r *Registry) registered(p proc.Process) *entry {
	e := r.byPID[p.PID]
	if e == nil || !e.committed || e.Process.Start != p.Start {
		return nil
	}
	return e
}

// recall returns the lineage that was found for the peer before. Who a process
// descends from does not change while it lives; what may change is who is
// registered, and then it is looked up anew. That it has no name is kept too: a
// lineage only ever gets shorter.
func (p *Peer) recall(epoch uint64) (lineage, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.known && p.epoch == epoch
}

func (p *Peer) remember(l lineage, epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.known, p.epoch = l, true, epoch
}
