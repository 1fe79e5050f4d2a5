package agent

import "gated/internal/base/refusal"

// entry is one registration. Before it is committed, it takes its name and process, but names no caller.
type entry struct {
	Registration
	handle    Handle // nil with a token
	committed bool
}

func (e *entry) alive() bool { return e.handle == nil || !e.handle.Ended() }

// enter takes a name and a process or token. The caller holds admission.
func (r *Registry) enter(e *entry) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return refusal.New(refusal.Unavailable, "the daemon is stopping")
	}
	if e.committed {
		r.epoch++
	}
	r.byName[e.Name] = e
	if e.Token != "" {
		r.byToken[e.Token] = e
	} else {
		r.byPID[e.Process.PID] = e
	}
	if e.committed {
		r.watch(e)
	}
	return nil
}

// commit makes an entry name callers.
func (r *Registry) commit(e *entry, id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.ID = id
	if r.byName[e.Name] != e {
		return // the registry was closed; the next start finds the entry in the database
	}
	e.committed = true
	r.epoch++
	r.watch(e)
}

// leave gives up what enter took, if e still has it.
func (r *Registry) leave(e *entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName[e.Name] != e {
		return
	}
	r.epoch++
	delete(r.byName, e.Name)
	if e.Token != "" {
		delete(r.byToken, e.Token)
		return
	}
	if r.byPID[e.Process.PID] == e { // otherwise another process has its pid already
		delete(r.byPID, e.Process.PID)
	}
	e.handle.Close()
}

// watch waits for the end of an entry's process. The caller holds mu.
func (r *Registry) watch(e *entry) {
	if e.handle == nil || r.ctx.Err() != nil {
		return
	}
	r.wg.Go(func() {
		if e.handle.Wait(r.ctx) != nil {
			return // the registry or the handle is closed
		}
		if r.cfg.Ended != nil {
			r.cfg.Ended(e.Registration)
		}
		r.leave(e)
	})
}
