package agent

import (
	"fmt"

	"gated/internal/base/proc"
)

// WhyNot says, in a sentence for people, why Who has no registration for a peer; "" if it has one. It looks again.
func (r *Registry) WhyNot(p *Peer) string {
	switch {
	case r.blind != "":
		return "processes cannot be recognised: " + r.blind + "; a token would do"
	case p.PID <= 1 || p.handle == nil:
		return "the calling process cannot be seen from here: it has ended, or is in another PID namespace; a token would do"
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	var to *entry
	chain, err := climb(r.cfg.Table, p.PID, func(q proc.Process) bool {
		to = r.registered(q)
		return to != nil
	})
	switch n := unbroken(chain, p.UID); {
	case !p.Alive():
		return "the calling process has ended"
	case err != nil:
		return fmt.Sprintf("its lineage cannot be told: %v", err)
	case n < len(chain):
		return broken(chain, n, p.UID)
	case to == nil:
		return unregistered(chain)
	case !to.alive():
		return fmt.Sprintf("%q, from which it descends, has ended", to.Name)
	}
	return ""
}

// broken says why a name does not pass the n-th process of a chain.
func broken(chain []proc.Process, n int, uid uint32) string {
	p := chain[n]
	switch {
	case p.Foreign && n == 0:
		return "the calling process is in another PID namespace; a token would do"
	case !p.OneUID || p.UID != uid:
		return fmt.Sprintf("process %d, in its lineage, has other uids than %d alone; a name does not pass through sudo", p.PID, uid)
	case p.Foreign:
		return fmt.Sprintf("process %d, in its lineage, is in another PID namespace", p.PID)
	default:
		return fmt.Sprintf("process %d took process %d in and did not start it: its session is another one", p.PID, chain[n-1].PID)
	}
}

// unregistered says that no process in a whole chain is registered. The chain of an orphan is short.
func unregistered(chain []proc.Process) string {
	top := chain[len(chain)-1]
	if len(chain) == 1 {
		return fmt.Sprintf("process %d is not registered, and its parent is process %d: it is an orphan, or a service", top.PID, top.Parent)
	}
	return fmt.Sprintf("neither process %d nor one of the %d above it, up to process %d, is registered", chain[0].PID, len(chain)-1, top.PID)
}
