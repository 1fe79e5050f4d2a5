package service

import (
	"context"
	"slices"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// concern names the holder that a caller asks events for: an agent's name, or uid:1000 or uid:1000@node2 for callers of
// that uid without one.
type concern string

// is reports whether the concern is the actor in the log's words: "agent:builder#7", "uid:1000@node2". The gate itself is no
// concern's actor.
func (c concern) is(by string) bool {
	if agent, ok := strings.CutPrefix(by, "agent:"); ok {
		return op.AgentName(agent) == string(c)
	}
	return by == string(c) && strings.HasPrefix(by, "uid:")
}

// wants reports whether the concern is among a job's present requesters.
func (c concern) wants(tx *store.Tx, job op.JobID) (bool, error) {
	list, err := journal.Requesters(tx, job)
	return slices.ContainsFunc(list, func(r op.Requester) bool { return c.is(r.String()) }), err
}

// concerning returns those of up to limit entries above after that concern a holder: by its acts, by the entry's words,
// or because the entry is about a job that it wants. next is the number of the last entry that was read; after if there
// was none. One snapshot answers all of it.
func (l *Log) concerning(ctx context.Context, after int64, limit, bytes int, c concern) (out []api.Entry, next int64, err error) {
	next = after
	err = l.store.View(ctx, func(tx *store.Tx) error {
		bodies, err := audit.BodiesOf(tx, after, limit, bytes)
		if err != nil {
			return err
		}
		jobs := map[string]bool{} // for these entries alone: a job's requesters change
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

// remember is concern.wants, with one look for each job.
func remember(tx *store.Tx, jobs map[string]bool, text string, c concern) (bool, error) {
	mine, known := jobs[text]
	if known {
		return mine, nil
	}
	id, err := op.ParseJobID(text)
	if err != nil {
		return false, nil // the log was altered; gated audit verify finds that
	}
	mine, err = c.wants(tx, id)
	jobs[text] = mine
	return mine, err
}
