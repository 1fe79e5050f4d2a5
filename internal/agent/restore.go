package agent

import (
	"gated/internal/proc"
)

// Restore enters what was registered before the daemon was started again, and
// returns it in two parts: what is alive, and what has ended meanwhile, which
// is not entered and for which Config.Ended is not called. A process is the one
// it was if its pid, start time and boot id are. Tokens are alive.
//
// It is called once, before anything else is registered. An error says that it
// could not be told of a process; nothing is entered then.
func (r *Registry) Restore(list []Registration) (alive, ended []Registration, err error) {
	r.admission.Lock()
	defer r.admission.Unlock()
	var found []*entry
	defer func() {
		if err != nil {
			for _, e := range found {
				e.drop()
			}
		}
	}()
	for _, reg := range list {
		e, err := r.find(reg)
		if err != nil {
			return nil, nil, err
		}
		if e == nil {
			ended = append(ended, reg)
			continue
		}
		found = append(found, e)
		alive = append(alive, reg)
	}
	for i, e := range found {
		if err := r.enter(e); err != nil {
			found = found[i:] // those before have been entered, and Close ends them
			return nil, nil, err
		}
	}
	return alive, ended, nil
}

// find returns an entry for a registration whose process still lives, else nil.
func (r *Registry) find(reg Registration) (*entry, error) {
	if reg.Process == (proc.ID{}) {
		return &entry{Registration: reg, committed: true}, nil
	}
	if reg.Process.Boot != r.cfg.Boot || r.blind != "" {
		return nil, nil
	}
	handle, err := r.cfg.Table.Open(reg.Process.PID, reg.Process.Start)
	if handle == nil || err != nil {
		return nil, err
	}
	e := &entry{Registration: reg, handle: handle, committed: true}
	if !e.alive() {
		e.drop() // a zombie
		return nil, nil
	}
	return e, nil
}

func (e *entry) drop() {
	if e.handle != nil {
		e.handle.Close()
	}
}
