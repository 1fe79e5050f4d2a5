package service

import (
	"context"
	"slices"
	"strings"

	"gated/internal/api"
	"gated/internal/audit"
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/store"
)

// concern is whose events somebody asks for: an agent's name, or uid:1000 for
// callers of that uid without one.
type concern string

// is reports whether that is who did something, as the log names it:
// "agent:builder#7", "uid:1000". The gate itself is nobody's.
func (c concern) is(by string) bool {
	if agent, ok := strings.CutPrefix(by, "agent:"); ok {
		return op.AgentName(agent) == string(c)
	}
	return by == string(c) && strings.HasPrefix(by, "uid:")
}

// wants reports whether that is among who wants a job now.
func (c concern) wants(tx *store.Tx, job op.JobID) (bool, error) {
	list, err := journal.Requesters(tx, job)
	return slices.ContainsFunc(list, func(r op.Requester) bool { return c.is(r.String()) }), err
}

// concerning returns those of up to limit entries above after that concern
// somebody: by what they did, by what the entry says, or because the entry is
// about a job that they want. next is the number of the last entry that was
// looked at, after where there was none. One snapshot answers for all of it.
func (l *Log) concerning(ctx context.Context, after int64, limit, bytes int, c concern) (out []api.Entry, next int64, err error) {
	next = after
	err = l.store.View(ctx, func(tx *store.Tx) error {
		bodies, err := audit.BodiesOf(tx, after, limit, bytes)
		if err != nil {
			return err
		}
		jobs := map[string]bool{} // of these entries alone: who wants a job changes
		for _, b := range bodies {
			e, err := api.ParseEntry(b)
			if err != nil {
				return err
			}
			next = e.Seq
			mine := c.is(e.By) || slices.Contains(e.For, string(c))
			if !mine && e.Job != "" {
				if mine, err = remember(tx, jobs, e.Job, c); err != nil {
					return err
				}
			}
			if mine {
				out = append(out, e)
			}
		}
		return nil
	})
	return out, next, l.gate.Answer(err)
}

// remember is concern.wants, asked once for each job.
func remember(tx *store.Tx, jobs map[string]bool, text string, c concern) (bool, error) {
	mine, known := jobs[text]
	if known {
		return mine, nil
	}
	id, err := op.ParseJobID(text)
	if err != nil {
		return false, nil // the log was altered; who reads it all is told so
	}
	mine, err = c.wants(tx, id)
	jobs[text] = mine
	return mine, err
}
