package classify_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/classify"
	"gated/internal/people/policy"
)

// swap is a set-config that gives a guest another program. It is benign, because its
// creator asks and no byte was written into the guest.
func swap() classify.Input {
	in := scratch()
	in.Provenance.Scratch = false
	in.Policy.Commands = []string{"web", "fill", "empty"}
	in.Observed.Spec = op.Params{"command": "fill"}
	in.Step.Op, in.Step.Params = "guest.set-config", op.Params{"command": "empty"}
	return in
}

// TestAProgramIsSwappedAndItsNeighbours: the next start runs the program on all
// data of the guest.
func TestAProgramIsSwappedAndItsNeighbours(t *testing.T) {
	for name, r := range map[string]row{
		"its creator, while it is empty": {swap(), nil, "config-no-loss", op.Benign},
		"another agent":                  {swap(), func(in *classify.Input) { in.Requester.Agent = "other" }, "program-swapped", op.Destructive},
		"a bare uid":                     {swap(), func(in *classify.Input) { in.Requester.Agent = "" }, "program-swapped", op.Destructive},
		"desired state": {swap(), func(in *classify.Input) { in.Requester = op.Requester{Source: op.SourceDesired, Set: "web"} },
			"program-swapped", op.Destructive},
		"desired state that made it": {swap(), func(in *classify.Input) {
			in.Requester = op.Requester{Source: op.SourceDesired, Set: "web"}
			in.Provenance.Creator = "desired:web"
		}, "config-no-loss", op.Benign},
		"it holds data":        {swap(), func(in *classify.Input) { in.Observed.Content = "other" }, "program-swapped", op.Destructive},
		"it runs":              {swap(), func(in *classify.Input) { in.Observed.Content = "" }, "program-swapped", op.Destructive},
		"made by other hands":  {swap(), func(in *classify.Input) { in.Provenance = nil }, "program-swapped", op.Destructive},
		"used by another":      {swap(), func(in *classify.Input) { in.Provenance.ScratchEnded = "uid:7 used it" }, "program-swapped", op.Destructive},
		"the same program":     {swap(), func(in *classify.Input) { in.Step.Params["command"], in.Provenance = "fill", nil }, "config-no-loss", op.Benign},
		"taken away":           {swap(), func(in *classify.Input) { in.Step.Params["command"], in.Provenance = "", nil }, "program-swapped", op.Destructive},
		"the first one":        {swap(), func(in *classify.Input) { in.Observed.Spec, in.Provenance = op.Params{"command": ""}, nil }, "program-swapped", op.Destructive},
		"the old one unknown":  {swap(), func(in *classify.Input) { in.Observed.Spec, in.Provenance = nil, nil }, "program-swapped", op.Destructive},
		"its own live scratch": {swap(), func(in *classify.Input) { in.Provenance.Scratch, in.Observed.Content = true, "" }, "config-no-loss", op.Benign},
		"another's scratch": {swap(), func(in *classify.Input) {
			in.Provenance.Scratch, in.Observed.Content, in.Requester.Agent = true, "", "other"
		}, "program-swapped", op.Destructive},
		"its scratch that ended": {swap(), func(in *classify.Input) {
			in.Provenance.Scratch, in.Observed.Content, in.Provenance.ScratchEnded = true, "", "adopted"
		}, "program-swapped", op.Destructive},
		"beside memory": {swap(), func(in *classify.Input) { in.Step.Params["memory"], in.Provenance = int64(1), nil }, "program-swapped", op.Destructive},
		"taken back by its job": {swap(), func(in *classify.Input) {
			in.Requester, in.Step.Undoes, in.Step.ID.Job = theGate, 1, in.Provenance.Job
		}, "config-no-loss", op.Benign},
		"taken back by another job": {swap(), func(in *classify.Input) { in.Requester, in.Step.Undoes = theGate, 1 }, "program-swapped", op.Destructive},
	} {
		t.Run(name, r.check)
	}
}

// TestAProgramIsForGuests: a command of the configuration may name its guests, and
// no signature gives it to another guest.
func TestAProgramIsForGuests(t *testing.T) {
	in := swap()
	in.Policy.CommandGuests = map[string][]string{"empty": {"tmp-*", "scratch"}}
	for name, ok := range map[string]bool{"tmp-1": true, "scratch": true, "web": false, "tmp": false, "scratch2": false} {
		in.Step.Target.Name = name
		_, err := classify.Classify(in)
		if ok {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorIs(t, err, refusal.NotAllowed, name)
	}
	p := policy.Default()
	p.Commands = []string{"a"}
	require.True(t, p.MayCommand("a", "any"))
	require.False(t, p.MayCommand("b", "any"))
}
