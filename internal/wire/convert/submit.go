package convert

import (
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// AskOf puts an ask on the wire.
func AskOf(a op.Ask) api.Ask { return api.Ask{Op: a.Op, Target: a.Target.String(), Params: a.Params} }

// Ask returns the gate's form of the ask. Its refusals are Malformed. The gate checks the operation and its parameters.
func Ask(a api.Ask) (op.Ask, error) {
	if a.Op == "" {
		return op.Ask{}, refusal.New(refusal.Malformed, "the member op is missing")
	}
	if err := op.CheckText("op", a.Op); err != nil {
		return op.Ask{}, err
	}
	t, err := op.ParseTarget(a.Target)
	if err != nil {
		return op.Ask{}, err
	}
	p := a.Params
	if p == nil {
		p = op.Params{}
	}
	return op.Ask{Op: a.Op, Target: t, Params: p}, nil
}

// SubmitOf is api.SubmitOf for the gate's form of the asks.
func SubmitOf(reason string, asks ...op.Ask) api.Submit {
	steps := make([]api.Ask, 0, len(asks))
	for _, a := range asks {
		steps = append(steps, AskOf(a))
	}
	return api.SubmitOf(reason, steps...)
}

// Asks returns the steps of a submission in order. Neither form, or both, is Malformed; more than op.MaxSteps are
// TooComplex; a too long reason is Oversized.
func Asks(s api.Submit) ([]op.Ask, error) {
	if err := op.CheckText("reason", s.Reason); err != nil {
		return nil, err
	}
	if len(s.Reason) > op.MaxReason {
		return nil, refusal.New(refusal.Oversized, "the reason has %d bytes, more than %d", len(s.Reason), op.MaxReason)
	}
	plain := s.Op != nil || s.Target != nil || s.Params != nil
	switch {
	case plain && s.Steps != nil:
		return nil, refusal.New(refusal.Malformed, "the body has both op, target or params and steps").
			WithHint("give one of the two")
	case plain:
		if s.Op == nil || s.Target == nil {
			return nil, refusal.New(refusal.Malformed, "the body needs both op and target")
		}
		a, err := Ask(api.Ask{Op: *s.Op, Target: *s.Target, Params: s.Params})
		return []op.Ask{a}, err
	case len(s.Steps) == 0:
		return nil, refusal.New(refusal.Malformed, "the body has no step").WithHint("give op and target, or steps")
	case len(s.Steps) > op.MaxSteps:
		return nil, refusal.New(refusal.TooComplex, "the job has %d steps, more than %d", len(s.Steps), op.MaxSteps).
			WithHint("submit several jobs")
	}
	asks := make([]op.Ask, 0, len(s.Steps))
	for _, step := range s.Steps {
		a, err := Ask(step)
		if err != nil {
			return nil, err
		}
		asks = append(asks, a)
	}
	return asks, nil
}

// ExplanationOf puts an explained step on the wire.
func ExplanationOf(s op.Step, facts []op.Fact) api.Explanation {
	return api.Explanation{Op: s.Op, Target: s.Target.String(), Incarnation: s.Incarnation,
		StateFingerprint: s.Fingerprint, Params: params(s.Params), Class: s.Verdict.Class, Rule: s.Verdict.Rule, Why: s.Verdict.Why, Facts: facts}
}
