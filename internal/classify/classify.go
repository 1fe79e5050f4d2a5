// Package classify decides whether a step may lose data: its class, the rule and the
// reason. It is a pure function of this gate's own records and the driver's look. No
// word of a requester can lower a class. Package op has the rules, in the row of
// each operation.
package classify

import (
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/policy"
)

// Input is everything that a classification uses.
type Input struct {
	Step       op.Step
	Requester  op.Requester
	Observed   op.Observed
	Provenance *op.Provenance // nil: this gate did not make the incarnation
	Policy     policy.Policy
	Now        time.Time
	Doubt      bool // the gate does not trust its clock, so no age is proved
	Operator   bool // the requester is an operator on the socket, not an agent
	Trash      []op.Destroyed
}

// Classify returns the verdict of the first rule that matches in the operation's
// row. If no rule matches, the step is destructive. A benign step is destructive
// too if a rule of the policy wants it signed. Why has every reason of a destructive
// step. Classify refuses, as NotAllowed, a step that no signature could allow: a
// guest's command that the operator's configuration does not name.
func Classify(in Input) (op.Verdict, error) {
	if err := mayRun(in); err != nil {
		return op.Verdict{}, err
	}
	v := builtIn(in)
	if v.Class == op.Benign {
		v = askedFor(in, v)
	}
	return v, nil
}

// askedFor turns a benign verdict into a destructive one if a rule of the policy
// wants the step signed. It never turns a verdict the other way.
func askedFor(in Input, v op.Verdict) op.Verdict {
	spec, _ := op.Lookup(in.Step.Op) // only a row of the catalogue gives a benign verdict
	where := in.Policy.Signs(policy.Subject{Spec: spec, Target: in.Step.Target, Params: in.Step.Params, Labels: in.Observed.Labels})
	if len(where) == 0 {
		return v
	}
	by := where[0]
	if more := len(where) - 1; more > 0 {
		by += fmt.Sprintf(" and %d more", more)
	}
	return op.Verdict{Class: op.Destructive, Rule: op.SignedByRule, Why: "asked for by rule " + by + "; without it the step would run: " + v.Why}
}

// builtIn is the verdict of the built-in rules.
func builtIn(in Input) op.Verdict {
	c := op.Case{Step: in.Step, Requester: in.Requester, Observed: in.Observed, Provenance: in.Provenance, Now: in.Now, Doubt: in.Doubt, Operator: in.Operator, Trash: in.Trash,
		ScratchMaxAge: in.Policy.ScratchMaxAge, Harmless: in.Policy.Harmless(in.Step.Target.Name),
		ProbeSays: in.Policy.ProbeSays(in.Step.Target.Name)}
	if spec, err := op.Lookup(in.Step.Op); err == nil {
		for i, r := range spec.Rules {
			if r.Matches(c) {
				return op.Verdict{Class: r.Class, Rule: r.Name, Why: r.Why(c) + others(r, spec.Rules[i+1:], c)}
			}
		}
	}
	return op.Verdict{Class: op.Destructive, Rule: "anything-else", Why: "no rule says that it loses nothing"}
}

// others returns the further reasons for a destructive verdict, each after a
// semicolon. The first benign rule that matches ends them, because later rules apply
// only if it does not match.
func others(first op.Rule, rest []op.Rule, c op.Case) string {
	why := ""
	for _, r := range rest {
		switch {
		case !r.Matches(c):
		case first.Class == op.Benign || r.Class == op.Benign:
			return why
		default:
			why += "; " + r.Why(c)
		}
	}
	return why
}

// mayRun refuses a guest's program that the operator's configuration does not
// name, or names for other guests.
func mayRun(in Input) error {
	name, t := in.Step.Params.Str("command"), in.Step.Target
	if t.Kind != op.KindGuest || name == "" || in.Policy.MayCommand(name, t.Name) {
		return nil
	}
	if len(in.Policy.CommandGuests[name]) > 0 {
		return refusal.New(refusal.NotAllowed, "the configuration does not name the command %q for %s", name, t).
			WithHint("an operator adds the guest to guests of local.commands.%s in gated.yaml", name)
	}
	return refusal.New(refusal.NotAllowed, "the configuration names no command %q", name).
		WithHint("an operator adds it under local.commands in gated.yaml")
}
