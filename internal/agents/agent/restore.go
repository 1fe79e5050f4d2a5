package agent

import (
	"gated/internal/base/proc"
)

// Restore enters the registrations from before the daemon's restart, and returns them in two parts: those that live,
// and those that ended meanwhile. It does not enter the ended ones, nor call Config.Ended for them. A process is the
// same if its pid, start time and boot id are the same. Tokens live.
//
// It is called once, before any registration. An error means that Restore could not tell whether a process lives; then
// it enters nothing.
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
			found = found[i:] // the earlier ones are entered, and Close ends them
			return nil, nil, err
		}
	}
	return alive, ended, nil
}

// find returns an entry for a registration whose process still lives, or nil.
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
