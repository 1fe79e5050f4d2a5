package faults

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// judge holds what is on disk against what was told. With a doubt, one decision
// may be there that somebody was told was not made: see docs/design/store.md,
// "When even the outcome cannot be read".
func (h *host) judge(s *store.Store, g *gate.Gate, doubt bool) {
	h.t.Helper()
	lost, twice := h.compare(g)
	if doubt && len(twice) == 1 {
		twice = nil
	}
	h.count(lost, twice)
	var r fsck.Report
	require.NoError(h.t, s.View(context.Background(), func(tx *store.Tx) error {
		_, err := audit.Verify(tx, nil)
		if err == nil {
			r, err = fsck.Run(tx)
		}
		return err
	}))
	require.Empty(h.t, r.Problems, "%+v", h.fault)
}

func (h *host) count(lost, twice []string) {
	for _, what := range append(lost, twice...) {
		h.t.Errorf("%+v: %s", h.fault, what)
	}
	h.lost += len(lost)
	h.twice += len(twice)
}

// compare returns what is not there that was told, and what is there, or was
// done, that was not.
func (h *host) compare(g *gate.Gate) (lost, twice []string) {
	jobs := must.Get(g.Jobs(context.Background(), gate.JobFilter{Limit: 1000}))(h.t)
	for range len(jobs) - h.jobs {
		twice = append(twice, "a job that nobody was told of")
	}
	found := map[op.StepID]op.State{}
	for _, j := range jobs {
		for _, step := range j.Steps {
			found[step.ID] = step.State
		}
	}
	for id, told := range h.told {
		got, there := found[id]
		what := fmt.Sprintf("%s is %q, %q was told", id, got, told)
		switch {
		case there && got == told:
		case !there || progress(got) < progress(told):
			lost = append(lost, what)
		default:
			twice = append(twice, what)
		}
	}
	for id, n := range h.acted {
		if n > 1 {
			twice = append(twice, fmt.Sprintf("%s ran %d times", id, n))
		}
	}
	return lost, twice
}

// progress orders states by how far a step has got.
func progress(s op.State) int {
	switch s {
	case op.StatePlanned, op.StatePending:
		return 1
	case op.StateAuthorized:
		return 2
	case op.StateDispatched:
		return 3
	default:
		return 4
	}
}
