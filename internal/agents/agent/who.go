package agent

import (
	"gated/internal/base/proc"
)

// lineage is a registered process and the way up to it.
type lineage struct {
	to    *entry         // nil if there is none
	chain []proc.Process // from the peer up to the registered process
}

// Who returns the registration of the nearest registered process that the peer is or descends from. ok is false if the
// peer has ended, cannot be seen, or has no such process. It is also false if the lineage changed during the walk, or
// passes through another uid, another PID namespace or a process that took a child in. Such a caller is only its uid.
//
// reaper, if not 0, is what the caller measured with Reaper. It can only take a name away: if orphans go to the
// registered process, or to one between it and the peer, the peer may be such an orphan.
func (r *Registry) Who(p *Peer, reaper int) (reg Registration, ok bool) {
	if r.blind != "" || p.handle == nil || p.PID <= 1 {
		return Registration{}, false
	}
	// The lock keeps registrations as they are during this walk, so that the answer is for one moment.
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
	// This check is last: while both processes live, the pids that were read were theirs.
	if p.handle.Ended() || l.to.handle.Ended() {
		return Registration{}, false
	}
	return l.to.Registration, true
}

// lineage walks from the peer to the nearest registered process. ok is false if the walk failed.
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

// registered returns the committed entry of a process, or nil.
func (r *Registry) registered(p proc.Process) *entry {
	e := r.byPID[p.PID]
	if e == nil || !e.committed || e.Process.Start != p.Start {
		return nil
	}
	return e
}

// recall returns the lineage that was found earlier for the peer. A living process keeps its ancestry; only
// registrations may change, and then the registry walks again. It also keeps "no name", because a lineage only gets
// shorter.
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
