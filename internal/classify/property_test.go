package classify_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/classify"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// situation is everything that no requester controls: the target, its provenance,
// time.
func situation() *rapid.Generator[classify.Input] {
	return rapid.Custom(func(t *rapid.T) classify.Input {
		flip := func(name string) bool { return rapid.Bool().Draw(t, name) }
		in := classify.Input{Policy: policy.Default(), Now: now, Doubt: rapid.IntRange(0, 9).Draw(t, "doubt") == 0}
		in.Policy.Commands = []string{"web"}
		in.Step = op.Step{ID: op.StepID{Job: op.JobID(rapid.IntRange(7, 8).Draw(t, "job")), Index: 1}, Target: web, Incarnation: "i1",
			Op: rapid.SampledFrom(op.Catalogue()).Draw(t, "op").Name, Params: op.Params{}, Undoes: rapid.IntRange(0, 1).Draw(t, "undoes")}
		in.Observed = op.Observed{Target: web, Present: true, Incarnation: "i1", Protected: flip("protected"), Volatile: flip("volatile"),
			Labels: map[string]string{"tier": "prod"}, Storage: []op.StorageID{"data:1"}}
		if flip("dependent") {
			in.Observed.Dependent = []op.Target{{Kind: "guest", Name: "db"}}
		}
		if flip("known") {
			made := now.Add(-time.Duration(rapid.IntRange(0, 30).Draw(t, "age")) * time.Hour)
			in.Provenance = &op.Provenance{Incarnation: "i1", Target: web, Agent: rapid.SampledFrom([]string{"", "builder"}).Draw(t, "agent"),
				Job: 7, Scratch: flip("scratch"), CreatedAt: made, ScratchUntil: made.Add(policy.ScratchMaxAge),
				Storage: []op.StorageOrigin{{ID: "data:1", Job: 7}}}
			if flip("ended") {
				in.Provenance.ScratchEnded = "adopted"
			}
		}
		in.Requester = op.Requester{Source: rapid.SampledFrom([]op.Source{op.SourceAPI, op.SourceDesired, op.SourceOffline, op.SourceGate}).
			Draw(t, "source"), Agent: rapid.SampledFrom([]string{"", "builder", "other"}).Draw(t, "asks")}
		return in
	})
}

// words are what a compromised hub could say about itself and its wishes.
var words = []string{"scratch", "benign", "gate", "builder", "agent:builder", "uid:0", "undo-own-work"}

// TestNoWordLowersAClass: parameters that the rules do not read, and a requester's
// words about itself, change nothing.
func TestNoWordLowersAClass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := situation().Draw(t, "situation")
		before := must.Get(classify.Classify(in))(t)
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"scratch", "provenance", "created_by", "class", "benign",
			"undoes", "job", "agent", "creator", "memory", "snapshot", "incarnation"}), rapid.ID).Draw(t, "names") {
			in.Step.Params[name] = rapid.SampledFrom([]any{true, "true", "benign", int64(7), "builder"}).Draw(t, "value")
		}
		in.Requester.UID = rapid.Uint32().Draw(t, "uid")
		in.Requester.PID = rapid.Int32().Draw(t, "pid")
		in.Requester.Set = rapid.SampledFrom(words).Draw(t, "set")
		in.Step.Verdict = op.Verdict{Class: op.Benign, Rule: rapid.SampledFrom(words).Draw(t, "rule")}
		in.Step.Detail = rapid.SampledFrom(words).Draw(t, "detail")
		in.Step.Birth = rapid.SampledFrom(words).Draw(t, "birth")
		in.Observed.Labels = map[string]string{"tier": "prod", "scratch": "true"}
		in.Observed.Birth = rapid.SampledFrom(words).Draw(t, "reported birth")
		after := must.Get(classify.Classify(in))(t)
		if before.Class == op.Destructive && after.Class == op.Benign {
			t.Fatalf("%s became %s", before.Rule, after.Rule)
		}
		require.Equal(t, before.Rule, after.Rule)
	})
}

// taking has the operations that take data, whatever else is said.
var taking = []string{"guest.destroy", "guest.wipe", "guest.restore", "guest.snapshot-delete"}

func TestNothingUnprovenIsTakenUnsigned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := situation().Draw(t, "situation")
		in.Step.Op = rapid.SampledFrom(taking).Draw(t, "taking")
		foreign := rapid.Bool().Draw(t, "foreign disk")
		if foreign {
			in.Observed.Storage = append(in.Observed.Storage, "disk:elsewhere")
		}
		v := must.Get(classify.Classify(in))(t)
		if v.Class == op.Destructive {
			return
		}
		p := in.Provenance
		switch {
		case p == nil, foreign, in.Doubt, in.Observed.Protected, len(in.Observed.Dependent) > 0, p.ScratchEnded != "":
			t.Fatalf("%s takes what it may not by %s", in.Step.Op, v.Rule)
		case now.Sub(p.CreatedAt) >= policy.ScratchMaxAge:
			t.Fatalf("%s takes what is too old by %s", in.Step.Op, v.Rule)
		case in.Requester.Source != op.SourceGate && (in.Requester.Source != op.SourceAPI || p.Agent == "" || in.Requester.Agent != p.Agent):
			t.Fatalf("%s takes what %s did not make by %s", in.Step.Op, in.Requester, v.Rule)
		case !p.Scratch && !(in.Step.Undoes > 0 && in.Step.ID.Job == p.Job && in.Step.Op == "guest.destroy"):
			t.Fatalf("%s takes what is not scratch by %s", in.Step.Op, v.Rule)
		}
	})
}

// TestOutsideOnlyAddsProtection: protection, dependents and foreign storage in the
// look never lower a class.
func TestOutsideOnlyAddsProtection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := situation().Draw(t, "situation")
		before := must.Get(classify.Classify(in))(t)
		switch rapid.IntRange(0, 4).Draw(t, "addition") {
		case 0:
			in.Observed.Protected = true
		case 1:
			in.Observed.Dependent = append(slices.Clone(in.Observed.Dependent), op.Target{Kind: "guest", Name: "other"})
		case 2:
			in.Observed.Storage = append(slices.Clone(in.Observed.Storage), "disk:elsewhere")
		case 3:
			in.Observed.Volatile = true
		case 4:
			in.Observed.Labels = map[string]string{"tier": "prod", "more": "x"}
		}
		after := must.Get(classify.Classify(in))(t)
		if before.Class == op.Destructive && after.Class == op.Benign {
			t.Fatalf("%s became %s", before.Rule, after.Rule)
		}
	})
}

// asking draws rules of a policy, most of which want steps signed.
var asking = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) policy.Rule {
	r := policy.Rule{Where: "gated.yaml:12", Threshold: rapid.IntRange(1, 3).Draw(t, "threshold"),
		Target: rapid.SampledFrom([]string{"", "guest/*", "guest/db-*", "command/*"}).Draw(t, "target"),
		Labels: rapid.SampledFrom([]map[string]string{nil, {"tier": "prod"}, {"tier": "te*"}}).Draw(t, "labels"),
		Role:   rapid.SampledFrom([]op.Role{"", op.Operational}).Draw(t, "role")}
	if rapid.IntRange(0, 3).Draw(t, "plain") > 0 {
		r.Signed = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"*", "guest.*", "guest.stop", "guest.re*", "command.run"}), 1, 3, rapid.ID).Draw(t, "signed")
	}
	return r
}), 0, 4)

// TestARuleOnlyTightens: rules never make a step benign that was destructive, and more
// rules never do. Without signed they change no verdict. A step that the built-in
// rules call destructive keeps its verdict.
func TestARuleOnlyTightens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := situation().Draw(t, "situation")
		if rapid.Bool().Draw(t, "relabels") {
			in.Step.Params["labels"] = rapid.SampledFrom([]map[string]any{{}, {"tier": "prod"}, {"tier": "test"}}).Draw(t, "wished")
		}
		builtIn := must.Get(classify.Classify(in))(t)
		some, more := asking.Draw(t, "some"), asking.Draw(t, "more")
		in.Policy.Rules = some
		few := must.Get(classify.Classify(in))(t)
		in.Policy.Rules = append(slices.Clone(some), more...)
		many := must.Get(classify.Classify(in))(t)
		asks := slices.ContainsFunc(in.Policy.Rules, func(r policy.Rule) bool { return len(r.Signed) > 0 })
		switch {
		case builtIn.Class == op.Destructive || !asks:
			require.Equal(t, builtIn, few)
			require.Equal(t, builtIn, many)
		case few.Class == op.Destructive:
			require.Equal(t, op.Destructive, many.Class)
			require.Equal(t, op.SignedByRule, few.Rule)
			require.Contains(t, few.Why, "asked for by rule gated.yaml:12")
		case many.Class == op.Benign:
			require.Equal(t, builtIn, many)
		}
	})
}
