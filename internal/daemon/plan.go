package daemon

import (
	"context"

	"gated/internal/api"
	"gated/internal/desired"
	"gated/internal/driver"
	"gated/internal/op"
	"gated/internal/reconcile"
)

// planLooks is how many guests of one plan are looked at for their facts, which
// is a walk through each one's files.
const planLooks = 100

// verdicts says what class a step has; the gate does.
type verdicts interface {
	Verdict(ctx context.Context, by op.Requester, s op.Step, o op.Observed) (op.Verdict, error)
}

// planner plans one document against one look at all guests.
type planner struct {
	gate   verdicts
	driver driver.Driver
	have   map[string]op.Observed
	away   error // why a guest that have has not may exist all the same, nil where it does not
	looks  int   // how many more guests may be looked at
}

// Plan says what a document would change, guest by guest, if it were put: it is
// desired state that asks then, whoever asks for the plan.
func (d *desiredState) Plan(ctx context.Context, _ op.Requester, document []byte) (api.Plan, error) {
	doc, err := d.parse("the document", document)
	if err != nil {
		return api.Plan{}, err
	}
	p := planner{gate: d.gate, driver: d.driver, looks: planLooks}
	return p.plan(ctx, doc)
}

// plan ends early, with the context's error, when the caller left.
func (p *planner) plan(ctx context.Context, doc desired.Document) (api.Plan, error) {
	all, err := p.driver.List(ctx)
	if err != nil && driver.Missing(err) == "" {
		return api.Plan{}, err
	}
	p.away = err
	p.have = make(map[string]op.Observed, len(all))
	for _, o := range all {
		p.have[o.Target.Name] = o
	}
	out := api.Plan{Host: doc.Host, Guests: make([]api.PlannedGuest, 0, len(doc.Guests))}
	for _, want := range doc.Guests {
		if err := ctx.Err(); err != nil {
			return api.Plan{}, op.Refuse(op.Unavailable, "the plan was not ready in time").WithHint("split the document")
		}
		out.Guests = append(out.Guests, p.guest(ctx, want))
	}
	return out, nil
}

func (p *planner) guest(ctx context.Context, want desired.Guest) api.PlannedGuest {
	out := api.PlannedGuest{Name: want.Name, Action: api.ActionNone, Steps: []api.PlannedStep{}}
	failed := func(err error) api.PlannedGuest {
		r := op.AsRefusal(err)
		out.Action, out.Error = api.ActionError, &api.Error{Code: r.Code, Detail: r.Detail}
		return out
	}
	have, asks, err := p.asks(ctx, want)
	if err != nil {
		return failed(err)
	}
	for _, ask := range asks {
		s := op.Step{Op: ask.Op, Target: ask.Target, Params: ask.Params, Incarnation: have.Incarnation}
		v, err := p.gate.Verdict(ctx, op.Requester{Source: op.SourceDesired}, s, have)
		if err != nil {
			return failed(err)
		}
		out.Steps = append(out.Steps, api.PlannedStep{Op: ask.Op, Params: ask.Params, Class: v.Class, Rule: v.Rule, Why: v.Why,
			Facts: have.Facts})
		out.Action = worse(out.Action, actionOf(ask, v))
	}
	return out
}

// asks returns what is to be done for a guest. One that would change, or of
// which the list knows nothing, is looked at by itself while looks are left.
func (p *planner) asks(ctx context.Context, want desired.Guest) (op.Observed, []op.Ask, error) {
	have, there := p.have[want.Name]
	if !there {
		if p.away != nil {
			return have, nil, op.Refuse(op.Unavailable, "%s is unknown: %s", want.Target(), driver.Missing(p.away))
		}
		have = op.Observed{Target: want.Target(), Running: "absent"}
	}
	known := !there || have.Running == "running" || have.Running == "stopped"
	asks := reconcile.Plan(want, have)
	switch {
	case known && (!there || len(asks) == 0):
		return have, asks, nil
	case p.looks > 0:
		p.looks--
		have, err := p.driver.Observe(ctx, op.At(want.Target()))
		return have, reconcile.Plan(want, have), err
	case !known:
		return have, nil, op.Refuse(op.StaleTarget, "%s cannot be looked at: gated guests %s says why", want.Target(), want.Name)
	}
	have.Facts = []op.Fact{{Name: "facts", Text: "left out of a plan with this many changes"}}
	return have, asks, nil
}

func actionOf(ask op.Ask, v op.Verdict) string {
	switch {
	case v.Class == op.Destructive:
		return api.ActionWaits
	case ask.Op == "guest.create":
		return api.ActionCreate
	default:
		return api.ActionChange
	}
}

// worse returns the action that a reader has to know of first.
func worse(a, b string) string {
	order := map[string]int{api.ActionNone: 0, api.ActionChange: 1, api.ActionCreate: 2, api.ActionWaits: 3}
	if order[b] > order[a] {
		return b
	}
	return a
}
