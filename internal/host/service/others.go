package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"gated/client/api"
	"gated/internal/agents/agent"
	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
)

// others are the registrations of other members' hosts, on the member that decides. Their processes cannot be seen from here.
type others struct {
	mu     sync.RWMutex
	byName map[string]agent.Registration
}

func (o *others) named(name string) (agent.Registration, bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	r, ok := o.byName[name]
	return r, ok
}

func (o *others) put(list ...agent.Registration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byName == nil {
		o.byName = map[string]agent.Registration{}
	}
	for _, r := range list {
		o.byName[r.Name] = r
	}
}

// remove forgets registrations, but no later ones of their names.
func (o *others) remove(list []agent.Registration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.byName, func(name string, r agent.Registration) bool {
		return slices.ContainsFunc(list, func(gone agent.Registration) bool { return gone.ID == r.ID })
	})
}

// Count returns how many agents are registered, as far as this daemon keeps them: a standby those of its host.
func (a *Agents) Count() int {
	a.others.mu.RLock()
	defer a.others.mu.RUnlock()
	return len(a.Registry.All()) + len(a.others.byName)
}

// mayEnd refuses, as NotHolder, a caller that is neither the agent nor an operator.
func (o *others) mayEnd(r agent.Registration, by op.Requester, operator bool) error {
	if operator || r.Who() == by.Agent {
		return nil
	}
	return refusal.New(refusal.NotHolder, "the caller is not %q", r.Name).WithHint("an agent gives up its own name alone")
}

// Of reports whether another member's caller is an agent of that member: its registration, under its uid.
func (a *Agents) Of(by op.Account, who string) bool {
	r, ok := a.others.named(op.AgentName(who))
	return ok && r.Who() == who && r.Account() == by
}

// sorted splits registrations into those of this host, and those of hosts that are no members. It keeps those of the other
// members.
func (a *Agents) sorted(all []agent.Registration) (own, strangers []agent.Registration) {
	for _, r := range all {
		switch {
		case r.Member == a.members.Self:
			own = append(own, r)
		case slices.Contains(a.members.Names, r.Member):
			a.others.put(r)
		default:
			strangers = append(strangers, r)
		}
	}
	return own, strangers
}

// Enrol stores a registration of another member's host, for a caller there. The member checked the process. A member that did
// not hear the answer gets the same number again.
func (a *Agents) Enrol(ctx context.Context, by op.Requester, name string, to Bound) (id int64, err error) {
	r := agent.Registration{Name: name, UID: by.UID, Member: by.Account().Member, Process: proc.ID{PID: to.PID, Start: to.Start, Boot: to.Boot},
		Token: to.Token, At: a.gate.Moment().Now.UTC()}
	if err = cmp.Or(op.CheckName(r.Name), r.Check()); err == nil {
		err = a.store.Update(ctx, func(tx *store.Tx) error {
			old, there, err := agent.Find(tx, r.Name)
			switch {
			case err != nil:
				return err
			case there && old.Same(r):
				r = old
				return nil
			case there:
				return refusal.New(refusal.Conflict, "the name %q is taken", r.Name).WithHint("gated agent list shows by whom")
			}
			if err := agent.Room(tx, r); err != nil {
				return err
			}
			r.ID, err = a.add(tx, by, r)
			return err
		})
	}
	if err != nil {
		return 0, noteRefused(ctx, a.gate, by, "POST /v1/agents", err)
	}
	a.others.put(r)
	return r.ID, nil
}

// MemberEnded ends a registration whose process ended, by the word of the member on whose host it was. A member is believed
// about its own agents alone.
func (a *Agents) MemberEnded(ctx context.Context, member, who string) error {
	r, ok := a.others.named(op.AgentName(who))
	switch {
	case !ok || r.Who() != who:
		return refusal.New(refusal.UnknownTarget, "no agent %q is registered", who)
	case r.Member != member:
		return refusal.New(refusal.NotAllowed, "%q is no agent of member %s", who, member)
	}
	_, err := a.end(ctx, byGate, processEnded, r)
	return a.gate.Answer(err)
}

// giveUpThere has the active member take a name away, and this host forget it then.
func (a *Agents) giveUpThere(ctx context.Context, by op.Requester, name string) (api.Agent, error) {
	if op.AgentName(by.Agent) != name {
		return a.members.Active.GiveUp(ctx, by, name)
	}
	r, err := a.Registry.Unregister(ctx, name, by.Agent, false, func(ctx context.Context, _ agent.Registration) error {
		_, err := a.members.Active.GiveUp(ctx, by, name)
		return err
	})
	return agentOf(r, false), err
}

// Settling is for how long a standby keeps a registration that its copy of the database does not have.
const Settling = time.Minute

// Follow brings a standby's agents in line with its copy of the database, and tells the active member of processes that ended
// unheard: while this daemon or that one was away, or because the answer to a registration was lost.
func (a *Agents) Follow(ctx context.Context) error {
	ended, err := a.Adopt(ctx)
	for _, r := range ended {
		if told := a.members.Active.Ended(ctx, r.UID, r.Who()); told != nil {
			return errors.Join(err, fmt.Errorf("the end of %s: %w", r.Who(), told))
		}
	}
	return err
}

// Adopt is Follow without a call to the active member. It returns the registrations whose processes ended.
func (a *Agents) Adopt(ctx context.Context) (ended []agent.Registration, err error) {
	if a.members.Active == nil {
		return nil, nil
	}
	all, err := a.rows(ctx)
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(all, func(r agent.Registration) bool { return r.Member != a.members.Self })
	return a.Registry.Agree(own, a.gate.Moment().Now.Add(-Settling))
}
