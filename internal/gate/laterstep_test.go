package gate_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// looking is a back end that counts looks. It would refuse every step with the disk x, and has no other operations than ops.
type looking struct {
	*backend
	looks int
	code  refusal.Code // of the disk x
	never bool         // of the disk x: whatever the guest's state is
	away  string       // the back end of a guest that is not there; empty for that of all others
	ops   []string

	opsOfCopies []string // of the back end in which copies are made; nil for ops
}

func (l *looking) Observe(ctx context.Context, at op.Look) (op.Observed, error) {
	l.looks++
	if at.Target.Kind == op.KindCommand {
		return (&probing{}).Observe(ctx, at)
	}
	o, err := l.backend.Observe(ctx, at)
	o.Ops = l.ops
	if at.Op == "guest.clone" && l.opsOfCopies != nil {
		o.Ops = l.opsOfCopies
	}
	if !o.Present && at.Op == "guest.disk-create" {
		o.Backend = l.away
	}
	if no := refusal.New(l.code, "not so"); at.Params.Str("disk") == "x" && l.never {
		o.Unfit(no)
	} else if at.Params.Str("disk") == "x" {
		o.Foresee(no)
	}
	return o, err
}

// newLooking is a world with the guests db and web.
func newLooking(t *testing.T) (*world, *looking) {
	t.Parallel()
	l := &looking{backend: newBackend()}
	w := newWorldOn(t, l)
	w.back = l.backend
	l.put("db")
	l.put("web")
	return w, l
}

// TestWrongParametersOfAnyStepRefuseTheJob: wherever the wrong step stands, no step is kept, nothing is looked at, and the
// refusal says which step it is.
func TestWrongParametersOfAnyStepRefuseTheJob(t *testing.T) {
	w, l := newLooking(t)
	right := []op.Ask{ask("guest.stop", "web"), ask("guest.snapshot", "web", "snapshot", "s"), ask("guest.destroy", "web")}
	for name, c := range map[string]struct {
		ask  op.Ask
		want refusal.Code
	}{
		"unknown operation":   {ask("guest.nonsense", "db"), refusal.UnknownOp},
		"unknown parameter":   {ask("guest.stop", "db", "now", true), refusal.BadParams},
		"missing parameter":   {ask("guest.restore", "db"), refusal.BadParams},
		"wrong type":          {ask("guest.set-config", "db", "memory", "much"), refusal.BadParams},
		"out of range":        {ask("guest.set-config", "db", "memory", int64(0)), refusal.BadParams},
		"no name":             {ask("guest.disk-delete", "db", "disk", "../sda"), refusal.BadParams},
		"operators' own":      {ask("guest.create", "new", "mounts", "/"), refusal.NotAllowed},
		"no name of a target": {ask("guest.stop", "../db"), refusal.Malformed},
		"another kind":        {op.Ask{Op: "guest.stop", Target: op.Signers}, refusal.BadParams},
	} {
		for at := range len(right) + 1 {
			_, err := w.submit(slices.Insert(slices.Clone(right), at, c.ask)...)
			require.ErrorIs(t, err, c.want, name)
			require.Regexp(t, fmt.Sprintf("^step %d: .", at+1), refusal.As(err).Detail, name)
		}
		must.Fail(w.submit(c.ask))(t, c.want, name)
	}
	require.Zero(t, l.looks)
	require.Empty(t, must.Get(w.gate.OpenTargets(w.ctx))(t))
}

// TestALookTellsWrongParametersOfALaterStep: no earlier step makes parameters right or allows a program, unless it changes the fields
// or the disks of their target. A command can change the owner of a program. What is in the way, an earlier step may clear.
func TestALookTellsWrongParametersOfALaterStep(t *testing.T) {
	w, l := newLooking(t)
	last := ask("guest.disk-create", "db", "disk", "x", "size", int64(1))
	for name, c := range map[string]struct {
		first op.Ask
		kept  bool
	}{
		"another target":        {ask("guest.set-config", "web", "memory", int64(5)), false},
		"another is made":       {ask("guest.create", "new"), false},
		"it runs or not":        {ask("guest.stop", "db"), false},
		"a copy is added":       {ask("guest.snapshot", "db", "snapshot", "s"), false},
		"its fields change":     {ask("guest.set-config", "db", "memory", int64(5)), true},
		"its disks change":      {ask("guest.disk-create", "db", "disk", "y", "size", int64(1)), true},
		"the size of one does":  {ask("guest.disk-resize", "db", "disk", "y", "size", int64(1)), true},
		"another one back then": {ask("guest.restore", "db", "snapshot", "s"), true},
	} {
		for _, code := range []refusal.Code{refusal.BadParams, refusal.NotAllowed} {
			l.code = code
			if _, err := w.submit(c.first, last); c.kept {
				require.NotErrorIs(t, err, code, name)
			} else {
				require.ErrorIs(t, err, code, name)
				require.Equal(t, "step 2: not so", refusal.As(err).Detail, name)
			}
		}
		l.code = refusal.Conflict
		if _, err := w.submit(c.first, last); err != nil {
			require.NotContains(t, refusal.As(err).Detail, "not so", name)
		}
	}
}

// TestWhatNoStateMakesRightRefusesTheJob: also if an earlier step changes the target, or makes it in the back end that says so.
func TestWhatNoStateMakesRightRefusesTheJob(t *testing.T) {
	w, l := newLooking(t)
	l.never = true
	disk := func(name string) op.Ask { return ask("guest.disk-create", name, "disk", "x", "size", int64(1)) }
	for _, code := range []refusal.Code{refusal.BadParams, refusal.NotAllowed, refusal.Conflict} {
		l.code = code
		for name, job := range map[string][]op.Ask{
			"its fields change": {ask("guest.set-config", "db", "memory", int64(5)), disk("db")},
			"its disks change":  {ask("guest.disk-create", "db", "disk", "y", "size", int64(1)), disk("db")},
			"another target":    {ask("guest.stop", "web"), disk("db")},
			"it is made":        {ask("guest.create", "new"), disk("new")},
		} {
			_, err := w.submit(job...)
			require.ErrorIs(t, err, code, name)
			require.Equal(t, "step 2: not so", refusal.As(err).Detail, name)
		}
	}
	l.away = "another"
	must.Get(w.submit(ask("guest.create", "new"), disk("new")))(t)
	require.Len(t, must.Get(w.gate.OpenTargets(w.ctx))(t), 1)
}

// TestACommandMayAllowALaterStep: it can change the owner of the program that a guest is to start. What the configuration alone
// refuses, the look marks as Never.
func TestACommandMayAllowALaterStep(t *testing.T) {
	w, l := newLooking(t)
	l.code = refusal.NotAllowed
	last := ask("guest.disk-create", "db", "disk", "x", "size", int64(1))
	must.Get(w.submit(runs(1), last))(t)
	l.code = refusal.BadParams
	must.Fail(w.submit(runs(2), last))(t, refusal.BadParams)
	l.code, l.never = refusal.NotAllowed, true
	must.Fail(w.submit(runs(3), last))(t, refusal.NotAllowed)
}

// TestWhatABackEndDoesNotHaveRefusesTheJob: also on a guest that an earlier step makes.
func TestWhatABackEndDoesNotHaveRefusesTheJob(t *testing.T) {
	w, l := newLooking(t)
	l.ops = []string{"guest.create", "guest.start"}
	_, err := w.submit(ask("guest.create", "new"), ask("guest.backup", "new"))
	require.ErrorIs(t, err, refusal.UnknownOp)
	require.Equal(t, "step 2: the back end of guest/new has no guest.backup", refusal.As(err).Detail)
	require.Empty(t, must.Get(w.gate.OpenTargets(w.ctx))(t))
	must.Get(w.submit(ask("guest.create", "new"), ask("guest.start", "new")))(t)
}

// TestAStepOnWhatIsMadeElsewhere: a copy is in the back end of its original, and not in that of new guests. A look at a later
// step on the copy sees only the name, which is free, and the operations of the back end for new guests.
func TestAStepOnWhatIsMadeElsewhere(t *testing.T) {
	w, l := newLooking(t)
	l.ops = []string{"guest.create", "guest.start"}
	l.opsOfCopies = []string{"guest.clone", "guest.backup"}
	must.Get(w.submit(ask("guest.clone", "new", "from", "db"), ask("guest.backup", "new")))(t)
	must.Fail(w.submit(ask("guest.clone", "new2", "from", "db"), ask("guest.start", "new2")))(t, refusal.UnknownOp)
	must.Fail(w.submit(ask("guest.create", "new3"), ask("guest.backup", "new3")))(t, refusal.UnknownOp)
}

// TestNoOperatorSignsForAStepOnAGuestThatTheJobMakes: nobody can be shown a guest that is not there. So a step on it that takes data
// is refused at submission, as wrong parameters are. What is left is benign, and asks nobody.
func TestNoOperatorSignsForAStepOnAGuestThatTheJobMakes(t *testing.T) {
	w, _ := newLooking(t)
	var taken []string
	for _, spec := range op.Catalogue() {
		if spec.Kind != op.KindGuest || spec.Creates {
			continue
		}
		params := op.Params{}
		for _, p := range spec.Params {
			switch {
			case p.Required && p.Type == op.TInt:
				params[p.Name] = p.Min
			case p.Required:
				params[p.Name] = "vda"
			}
		}
		last := op.Ask{Op: spec.Name, Target: op.Target{Kind: op.KindGuest, Name: "new"}, Params: params}
		if last.Op == "guest.set-config" {
			last.Params = op.Params{"memory": int64(5)}
		}
		job, err := w.submit(ask("guest.create", "new"), last)
		if err != nil {
			require.ErrorIs(t, err, refusal.Conflict, spec.Name)
			require.Contains(t, refusal.As(err).Detail, "no operator could sign for it", spec.Name)
			continue
		}
		taken = append(taken, spec.Name)
		require.Equal(t, op.StatePlanned, job.Steps[1].State, spec.Name)
		last.Params = op.Params{"nonsense": "x"}
		must.Fail(w.submit(ask("guest.create", "new"), last))(t, refusal.BadParams)
	}
	require.ElementsMatch(t, []string{"guest.start", "guest.stop", "guest.restart", "guest.set-config", "guest.snapshot", "guest.disk-create",
		"guest.backup"}, taken)
}
