package service

import (
	"context"
	"time"

	"gated/internal/agent"
	"gated/internal/audit"
	"gated/internal/crashpoint"
	"gated/internal/op"
	"gated/internal/reserve"
	"gated/internal/store"
)

// How long a failure to write that an agent ended is waited for: the first
// time, and the longest, for the time doubles.
const (
	endRetry    = 50 * time.Millisecond
	endRetryMax = 10 * time.Second
)

// byGate is who decides what nobody asked for.
var byGate = op.Requester{Source: op.SourceGate}

const processEnded = "its process ended"

// end lets go of what is bound to registrations, in as many transactions as it
// takes, for everybody's writes wait while one goes on, and then forgets them, in
// one, with what is left. Where it fails in between, or the daemon with it, the
// caller or the next start does the rest. A registration that is forgotten
// already is no error, and not counted.
func (a *Agents) end(ctx context.Context, by op.Requester, why string, list ...agent.Registration) (ended int, err error) {
	return a.endIf(ctx, nil, by, why, list...)
}

// endIf is end, or, where check is not nil, forgets registrations with all that is
// bound to them in the one transaction in which that has nothing against it.
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
				continue // with all that it held
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
	for _, then := range after {
		then()
	}
	return len(after), nil
}

// letGo ends most of what is bound to registrations, so that the transaction that
// forgets them is no long one. What one of them holds ends with it, all at one
// moment, where it is not very much: nobody sees it with half of that.
func (a *Agents) letGo(ctx context.Context, list []agent.Registration) error {
	for _, r := range list {
		if err := a.Book.EndMost(ctx, holderOf(r), reserve.Batch/len(list)); err != nil {
			return err
		}
	}
	return nil
}

// ended is agent.Config.Ended: it returns when what belonged to a process that
// ended is free, or the daemon stops. The next start finds what is left.
func (a *Agents) ended(r agent.Registration) {
	for wait := endRetry; ; wait = min(2*wait, endRetryMax) {
		_, err := a.end(a.ctx, byGate, processEnded, r)
		if err == nil || a.ctx.Err() != nil {
			return
		}
		a.log.Error("what an agent held that ended is not free yet", "agent", r.Who(), "again_in", wait, "error", err)
		again := time.NewTimer(wait)
		select {
		case <-a.ctx.Done():
			again.Stop()
			return
		case <-again.C:
		}
	}
}

// Restore takes up who was registered when the daemon stopped. Who ended
// meanwhile, and whose time was up, holds nothing when it returns.
func (a *Agents) Restore(ctx context.Context) error {
	var list []agent.Registration
	err := a.store.View(ctx, func(tx *store.Tx) (err error) {
		list, err = agent.All(tx)
		return err
	})
	if err != nil {
		return err
	}
	alive, ended, err := a.Registry.Restore(list)
	if err != nil {
		return op.Refuse(op.Unavailable, "whether agents that were registered are alive cannot be told: %v", err).
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
