package service

import (
	"context"
	"time"

	"gated/internal/agents/agent"
	"gated/internal/agents/reserve"
	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// The pause after a failure to store that an agent ended: the first, and the longest. It doubles each time.
const (
	endRetry    = 50 * time.Millisecond
	endRetryMax = 10 * time.Second
)

// byGate is the requester of acts that no caller asked for.
var byGate = op.Requester{Source: op.SourceGate}

const processEnded = "its process ended"

// end ends what is bound to registrations, then forgets them. It takes as many transactions as it needs, because all
// other writes wait for each. The last one forgets the registrations and ends the rest. If it fails, or the daemon
// dies, the caller or the next start does the rest. A registration that is forgotten already is not an error and does
// not count.
func (a *Agents) end(ctx context.Context, by op.Requester, why string, list ...agent.Registration) (ended int, err error) {
	return a.endIf(ctx, nil, by, why, list...)
}

// endIf is end if check is nil. Otherwise it forgets registrations, with all that is bound to them, in one transaction,
// if check accepts it.
func (a *Agents) endIf(ctx context.Context, check func(*store.Tx) error, by op.Requester, why string, list ...agent.Registration) (ended int, err error) {
	if check == nil {
		if err := a.letGo(ctx, list); err != nil {
			return 0, err
		}
	}
	var after []func()
	err = a.store.Update(ctx, func(tx *store.Tx) error {
		after = nil
		if check != nil {
			if err := check(tx); err != nil {
				return err
			}
		}
		for _, r := range list {
			there, err := agent.Remove(tx, r)
			if err != nil {
				return err
			}
			if !there {
				continue // with all that it had
			}
			if err := a.gate.Append(tx, about(audit.AgentEnded, by, r, why)); err != nil {
				return err
			}
			then, err := a.Book.EndOf(tx, holderOf(r))
			if err != nil {
				return err
			}
			after = append(after, then)
		}
		crashpoint.Here(crashpoint.EndWritten)
		return nil
	})
	if err != nil {
		return 0, err
	}
	crashpoint.Here(crashpoint.EndKept)
	a.others.remove(list)
	for _, then := range after {
		then()
	}
	return len(after), nil
}

// letGo ends most of what is bound to registrations, so that the transaction that forgets them is short. If a
// registration has few reservations, they all end with it at one moment, so that no reader sees half of them.
func (a *Agents) letGo(ctx context.Context, list []agent.Registration) error {
	for _, r := range list {
		if err := a.Book.EndMost(ctx, holderOf(r), reserve.Batch/len(list)); err != nil {
			return err
		}
	}
	return nil
}

// ended is agent.Config.Ended. It returns when all that belonged to an ended process is free, or when the daemon stops.
// The next start does the rest. A standby tells the active member.
func (a *Agents) ended(r agent.Registration) {
	for wait := endRetry; ; wait = min(2*wait, endRetryMax) {
		err := a.endOne(r)
		if err == nil || a.ctx.Err() != nil {
			return
		}
		a.log.Error("what an ended agent held is not free yet", "agent", r.Who(), "again_in", wait, "error", err)
		again := time.NewTimer(wait)
		select {
		case <-a.ctx.Done():
			again.Stop()
			return
		case <-again.C:
		}
	}
}

// endOne ends what is bound to one registration of this host.
func (a *Agents) endOne(r agent.Registration) (err error) {
	if a.members.Active != nil {
		return a.members.Active.Ended(a.ctx, r.UID, r.Who())
	}
	_, err = a.end(a.ctx, byGate, processEnded, r)
	return err
}

// Restore takes over the agents that were registered when the daemon stopped. When it returns, agents that ended
// meanwhile hold nothing, and lapsed reservations are gone. Agents of other members stay: their members tell of their ends.
func (a *Agents) Restore(ctx context.Context) error {
	all, err := a.rows(ctx)
	if err != nil {
		return err
	}
	list, strangers := a.sorted(all)
	if _, err := a.end(ctx, byGate, "its host is no member of the gate's any more", strangers...); err != nil {
		return err
	}
	alive, ended, err := a.Registry.Restore(list)
	if err != nil {
		return refusal.New(refusal.Unavailable, "it cannot be told whether registered agents are alive: %v", err).
			WithHint("start gated again; each agent costs it one descriptor (ulimit -n)")
	}
	if len(ended) > 0 {
		why := processEnded + " while the daemon was away"
		if a.Registry.Blind() != "" {
			why = "processes cannot be recognised any more"
		}
		if _, err := a.end(ctx, byGate, why, ended...); err != nil {
			return err
		}
	}
	if len(list) > 0 {
		a.log.Info("agents", "alive", len(alive), "ended", len(ended))
	}
	return a.Book.Sweep(ctx)
}
