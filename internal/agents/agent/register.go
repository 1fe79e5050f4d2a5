package agent

import (
	"context"

	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/base/refusal"
)

// Wish is what a caller of Register asks for.
type Wish struct {
	Name   string
	PID    int // the caller itself or an ancestor of it
	Reaper int // the process that gets the caller's orphans, as Reaper measured it
}

// Hints that several refusals share.
const (
	withToken    = "bind the name to a token instead: gated agent register NAME --token-file FILE"
	nameTheAgent = "name the agent's own process, and call from a process that it started"
	giveUp       = "gated agent list shows them; gated agent unregister NAME gives one up"
)

// Register binds a name to a process. commit stores the registration; the name counts only after commit returned nil.
// If the process has the same name already, Register returns that registration.
//
// Refusals: Malformed for an invalid name or wish; NotAllowed for a process that the caller may not register; Conflict
// for a name or process that is taken; OverLimit; Unavailable if no process can be seen.
func (r *Registry) Register(ctx context.Context, by *Peer, w Wish, commit Commit) (Registration, error) {
	if err := op.CheckName(w.Name); err != nil {
		return Registration{}, err
	}
	if r.blind != "" {
		return Registration{}, refusal.New(refusal.Unavailable, "processes cannot be recognised: %s", r.blind).
			WithHint(withToken)
	}
	e, err := r.admit(by, w)
	if err != nil || e.committed {
		return e.registration(), err
	}
	return r.keep(ctx, e, commit)
}

// keep stores an entry with commit, and then makes it name callers.
func (r *Registry) keep(ctx context.Context, e *entry, commit Commit) (Registration, error) {
	reg := e.Registration
	id, err := commit(ctx, reg)
	if err != nil {
		r.leave(e)
		return Registration{}, err
	}
	r.commit(e, id)
	reg.ID = id
	return reg, nil
}

func (e *entry) registration() Registration {
	if e == nil {
		return Registration{}
	}
	return e.Registration
}

// admit checks a wish and enters it. If the wish was granted before, it returns the committed entry.
//
// The lineage is read twice. The first reading only finds the process. Its pid and start tick do not identify it for
// good, because another process can get the pid within one tick. So admit opens a handle and reads the lineage again.
// If the handle's process still lives then, the second reading was of that process.
func (r *Registry) admit(by *Peer, w Wish) (*entry, error) {
	r.admission.Lock()
	defer r.admission.Unlock()
	chain, at, err := r.wished(by, w)
	if err != nil {
		return nil, err
	}
	p := chain[at]
	if e, err := r.taken(w.Name, p, by.UID); e != nil || err != nil {
		return e, err
	}
	handle, err := r.cfg.Table.Open(p.PID, p.Start)
	if err != nil {
		return nil, err
	}
	if handle == nil {
		return nil, errNotThere(p.PID)
	}
	if err := r.confirm(by, w, p.Start, handle); err != nil {
		handle.Close()
		return nil, err
	}
	e := &entry{Registration: Registration{Name: w.Name, UID: by.UID, Member: r.cfg.Member, At: r.cfg.Now().UTC(),
		Process: proc.ID{PID: p.PID, Start: p.Start, Boot: r.cfg.Boot}}, handle: handle}
	if err := r.enter(e); err != nil {
		handle.Close()
		return nil, err
	}
	return e, nil
}

// wished returns the caller's chain, and the place in it of the process that a wish names.
func (r *Registry) wished(by *Peer, w Wish) (chain []proc.Process, at int, err error) {
	if chain, err = r.ancestry(by); err != nil {
		return nil, 0, err
	}
	at, err = mayRegister(chain, by.UID, w.PID)
	return chain, at, err
}

// confirm checks a wish with a handle open on the process that it names.
func (r *Registry) confirm(by *Peer, w Wish, start uint64, handle Handle) error {
	chain, at, err := r.wished(by, w)
	if err != nil {
		return err
	}
	if chain[at].Start != start {
		return errNotThere(w.PID)
	}
	if err := r.notAbove(chain[at]); err != nil {
		return err
	}
	if err := r.noSubreaper(chain, at, w.Reaper); err != nil {
		return err
	}
	// This check is last: while both processes live, the pids that were read were theirs.
	if handle.Ended() {
		return errNotThere(w.PID)
	}
	if !by.Alive() {
		return errEnded()
	}
	return nil
}

func errNotThere(pid int) error {
	return refusal.New(refusal.NotAllowed, "process %d has ended", pid).WithHint(nameTheAgent)
}

func errEnded() error {
	return refusal.New(refusal.NotAllowed, "the calling process has ended").
		WithHint("call again, from a process that is there until the answer")
}

// ancestry returns the caller and all its visible ancestors.
func (r *Registry) ancestry(by *Peer) ([]proc.Process, error) {
	if !by.Alive() {
		return nil, errEnded()
	}
	if by.PID <= 1 {
		return nil, refusal.New(refusal.NotAllowed, "process %d cannot be told from others", by.PID).WithHint(withToken)
	}
	chain, err := climb(r.cfg.Table, by.PID, func(proc.Process) bool { return false })
	if err != nil {
		return nil, refusal.New(refusal.NotAllowed, "the lineage of process %d cannot be told: %v", by.PID, err).
			WithHint("try again")
	}
	return chain, nil
}

// mayRegister returns the place in the caller's chain of the process, if the caller may register it.
func mayRegister(chain []proc.Process, uid uint32, pid int) (int, error) {
	if pid <= 1 {
		return 0, refusal.New(refusal.NotAllowed, "process %d cannot be registered", pid).WithHint(nameTheAgent)
	}
	if chain[0].Foreign {
		return 0, refusal.New(refusal.NotAllowed, "the caller is in another PID namespace").WithHint(withToken)
	}
	at := index(chain[:unbroken(chain, uid)], pid)
	if at < 0 {
		return 0, refusal.New(refusal.NotAllowed, "process %d is neither the caller nor an ancestor of it under uid %d",
			pid, uid).
			WithHint(nameTheAgent)
	}
	own, p := chain[0], chain[at]
	if p.Session == p.PID && own.Session != p.Session {
		return 0, refusal.New(refusal.NotAllowed, "process %d leads another session than the caller's", pid).
			WithHint("a terminal multiplexer or a login is not an agent; name a process below it")
	}
	if p.Terminal != 0 && own.Terminal != 0 && p.Terminal != own.Terminal {
		return 0, refusal.New(refusal.NotAllowed, "process %d is on another terminal than the caller", pid).
			WithHint("a terminal multiplexer is not an agent; name a process below it, or call without a terminal: setsid -w")
	}
	return at, nil
}

// taken refuses a name or process that has a registration, and more than the limits. If the same name and process are
// registered together, it returns that entry. If the process of an entry has ended, p is another process with its pid
// and start tick.
func (r *Registry) taken(name string, p proc.Process, uid uint32) (*entry, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if e := r.byPID[p.PID]; e != nil && e.Process.Start == p.Start && e.alive() {
		if e.Name == name && e.UID == uid && e.committed {
			return e, nil
		}
		return nil, refusal.New(refusal.Conflict, "process %d is registered as %q", p.PID, e.Name).
			WithHint("it goes by that name; to have another one, it gives that up first: gated agent unregister %s", e.Name)
	}
	return nil, r.room(name, uid, false)
}

// room refuses a name that is taken, and registrations beyond the limits; token says that the name is for a token. The
// caller holds mu.
func (r *Registry) room(name string, uid uint32, token bool) error {
	if e := r.byName[name]; e != nil {
		if e.alive() {
			return refusal.New(refusal.Conflict, "the name %q is taken", name).WithHint("gated agent list shows by whom")
		}
		return refusal.New(refusal.Conflict, "the process of %q has just ended, and its name is being freed", name).
			WithHint("try again")
	}
	if len(r.byName) >= MaxAgents {
		return refusal.New(refusal.OverLimit, "%d agents are registered, the most there may be", len(r.byName)).
			WithHint(giveUp)
	}
	of, tokens := 0, 0
	for _, e := range r.byName {
		if e.UID == uid {
			of++
			if e.Token != "" {
				tokens++
			}
		}
	}
	if of >= MaxAgentsOfUID {
		return refusal.New(refusal.OverLimit, "uid %d has %d registered agents, the most that one uid may have", uid, of).
			WithHint(giveUp)
	}
	if token && tokens >= MaxTokensOfUID {
		return refusal.New(refusal.OverLimit, "uid %d has %d agents with tokens, the most that one uid may have", uid,
			tokens).WithHint(giveUp)
	}
	return nil
}

// notAbove refuses a process with a registered descendant: the registration would give its name to all its other
// descendants too.
func (r *Registry) notAbove(p proc.Process) error {
	r.mu.RLock()
	var below []*entry
	for _, e := range r.byPID {
		below = append(below, e)
	}
	r.mu.RUnlock()
	seen := once{Table: r.cfg.Table, read: map[int]proc.Process{}}
	for _, e := range below {
		above := false
		_, err := climb(seen, e.Process.PID, func(q proc.Process) bool {
			above = q.PID == p.PID && q.Start == p.Start
			return above
		})
		if !e.alive() {
			continue // and p may have its pid now
		}
		if above {
			return refusal.New(refusal.NotAllowed, "%q, which is registered, descends from process %d", e.Name, p.PID).
				WithHint("what several agents descend from is none of them; name a process of this agent alone")
		}
		if err != nil {
			return refusal.New(refusal.NotAllowed, "whether %q descends from process %d cannot be told: %v", e.Name, p.PID, err).
				WithHint("try again")
		}
	}
	return nil
}

// once reads each ancestor only once in the first reading, for several processes. The second reading asks the kernel
// again.
type once struct {
	Table
	read map[int]proc.Process
}

func (o once) Read(pid int) (proc.Process, error) {
	if p, ok := o.read[pid]; ok {
		return p, nil
	}
	p, err := o.Table.Read(pid)
	if err == nil {
		o.read[pid] = p
	}
	return p, err
}

// noSubreaper refuses a subreaper, and a process above one: orphans of other processes would get its name. The kernel
// tells no process whether another is a subreaper, so the caller measures it. A measurement that does not fit the
// lineage is refused.
//
// The same holds for registered ancestors of the process, which would take in its orphans.
func (r *Registry) noSubreaper(chain []proc.Process, at, reaper int) error {
	if reaper <= 0 {
		return refusal.New(refusal.Malformed, "it is not said which process gets the caller's orphans").
			WithHint("make an orphan and read its parent's pid; gated agent register does")
	}
	if reaper == 1 {
		return nil
	}
	taker := index(chain, reaper)
	if taker < 0 {
		return refusal.New(refusal.NotAllowed, "process %d is no ancestor of the caller and gets no orphans of it", reaper).
			WithHint("make an orphan and read its parent's pid; gated agent register does")
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	highest := at
	for i := at; i < len(chain); i++ {
		if r.registered(chain[i]) != nil {
			highest = i
		}
	}
	if taker <= highest {
		return refusal.New(refusal.NotAllowed, "process %d is a subreaper: it takes in orphans that it did not start",
			reaper).
			WithHint("register an agent that is none and is below none that is registered")
	}
	return nil
}

// Unregister takes a name away from its process or token. commit stores that; the name counts until commit returned
// nil. Config.Ended is not called.
//
// as is Registration.Who of the registration that Who or WhoByToken found for the caller. Only that registration may be
// given up, not the next one of its name. An operator who is not an agent may also take a token's name away, if commit
// agrees, because a lost token cannot give it up. A process's name ends with the process. Refusals: NotHolder;
// UnknownTarget for a name that is not registered.
func (r *Registry) Unregister(ctx context.Context, name, as string, operator bool, commit func(context.Context, Registration) error) (Registration, error) {
	own := name == op.AgentName(as)
	if !own && !operator {
		return Registration{}, refusal.New(refusal.NotHolder, "the caller is not %q", name).
			WithHint("an agent gives up its own name alone")
	}
	r.mu.RLock()
	e := r.byName[name]
	known := e != nil && e.committed && (!own || e.Who() == as)
	r.mu.RUnlock()
	switch {
	case !known:
		return Registration{}, refusal.New(refusal.UnknownTarget, "no agent %q is registered", name).
			WithHint("gated agent list shows who is")
	case !own && e.Token == "":
		return Registration{}, refusal.New(refusal.NotHolder, "%q is bound to process %d, which alone may give the name up",
			name, e.Process.PID).
			WithHint("the name goes when that process ends")
	}
	if err := commit(ctx, e.Registration); err != nil {
		return Registration{}, err
	}
	r.leave(e)
	return e.Registration, nil
}
