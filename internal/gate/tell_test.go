package gate_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// told checks that the gate names each job that a commit has changed. Callers that wait for a job hear of it by that alone.
func (w *world) told() {
	last, now := map[string]string{}, map[string]string{}
	w.store.OnGroup(func(tx *store.Tx) error {
		rows, err := tx.Query(`SELECT job, idx, state FROM steps ORDER BY job, idx`)
		if err != nil {
			return err
		}
		defer rows.Close()
		clear(now)
		for rows.Next() {
			var job, idx int64
			var state string
			if err := rows.Scan(&job, &idx, &state); err != nil {
				return err
			}
			now[op.JobID(job).String()] += " " + state
		}
		return rows.Err()
	})
	var named []string
	w.gate.OnJobs(func(jobs []string) { named = append(named, jobs...) })
	first := true
	w.store.OnCommit(func() {
		for job, states := range now {
			if !first && states != last[job] && !slices.Contains(named, job) {
				w.t.Errorf("%s went from%s to%s, and the gate told nothing", job, last[job], states)
			}
			last[job] = states
		}
		first, named = false, nil
	})
}

// TestAJobIsToldOnce: a later commit does not name the jobs of earlier ones again.
func TestAJobIsToldOnce(t *testing.T) {
	w := newWorld(t, "a")
	var told [][]string
	w.gate.OnJobs(func(jobs []string) { told = append(told, jobs) })
	one, two := w.mustSubmit(ask("guest.start", "a")), w.mustSubmit(ask("guest.create", "b"))
	require.NoError(t, w.gate.Log(w.ctx, audit.Entry{Kind: audit.Started}))
	require.Equal(t, [][]string{{one.ID.String()}, {two.ID.String()}}, told)
}
