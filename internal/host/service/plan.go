package service

import (
	"cmp"
	"context"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/reconcile"
	"gated/internal/wire/desired"
)

const (
	// planLooks is how many guests of one plan are looked at for their facts. Each look walks through the guest's
	// files.
	planLooks = 100
	// planNames is how many names without a guest are looked up in the trash for one plan; planTime bounds these looks
	// together. With libvirt, each of them reads every domain.
	planNames = 500
	planTime  = 10 * time.Second
)

// verdicts says which class a step has; the gate does.
type verdicts interface {
	Verdict(ctx context.Context, by op.Requester, s op.Step, o op.Observed) (op.Verdict, error)
}

// planner plans one document against one look at all guests.
type planner struct {
	gate   verdicts
	driver driver.Driver
	set    string // the set that asks; empty for a set that does not exist yet
	have   map[string]op.Observed
	away   error           // why the list of guests is incomplete; nil if it is complete
	looks  int             // how many more guests may be looked at
	names  int             // how many more names without a guest may be looked up
	made   []op.Observed   // of these, the guests that would be made
	spent  <-chan struct{} // closed when these looks have used their time
}

// Plan says, guest by guest, what a document would change if it were put as that set. The set is the requester then,
// not the caller of Plan. Without a name, it is a set that has asked for nothing yet.
func (d *Desired) Plan(ctx context.Context, set string, document []byte) (api.Plan, error) {
	doc, err := d.parse("the document", document)
	if err != nil {
		return api.Plan{}, err
	}
	p := planner{gate: d.gate, driver: d.driver, set: set, looks: planLooks, names: planNames}
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
	brief, cancel := context.WithTimeout(ctx, planTime)
	defer cancel()
	p.spent = brief.Done()
	out := api.Plan{Host: doc.Host, Guests: make([]api.PlannedGuest, 0, len(doc.Guests))}
	for _, want := range doc.Guests {
		if err := ctx.Err(); err != nil {
			return api.Plan{}, refusal.New(refusal.Unavailable, "the plan was not ready in time").WithHint("split the document")
		}
		out.Guests = append(out.Guests, p.guest(ctx, want))
	}
	return out, nil
}

func (p *planner) guest(ctx context.Context, want desired.Guest) api.PlannedGuest {
	out := api.PlannedGuest{Name: want.Name, Action: api.ActionNone, Steps: []api.PlannedStep{}}
	failed := func(err error) api.PlannedGuest {
		r := refusal.As(err)
		out.Action, out.Error = api.ActionError, &api.Error{Code: r.Code, Detail: r.Detail, Hint: r.Hint}
		return out
	}
	have, asks, err := p.asks(ctx, want)
	if err != nil {
		return failed(err)
	}
	for _, ask := range asks {
		s := op.Step{Op: ask.Op, Target: ask.Target, Params: ask.Params, Incarnation: have.Incarnation}
		v, err := p.gate.Verdict(ctx, op.Requester{Source: op.SourceDesired, Set: p.set}, s, have)
		if err != nil {
			return failed(err)
		}
		out.Steps = append(out.Steps, api.PlannedStep{Op: ask.Op, Params: ask.Params, Class: v.Class, Rule: v.Rule, Why: v.Why,
			Facts: have.Changed(ask.Op, ask.Params)})
		out.Action = worse(out.Action, actionOf(ask, v))
	}
	return out
}

// asks returns the steps for a guest. If the guest would change, or the list does not have it, asks looks at it while
// looks are left.
func (p *planner) asks(ctx context.Context, want desired.Guest) (op.Observed, []op.Ask, error) {
	have, there := p.have[want.Name]
	if !there {
		return p.absent(ctx, want)
	}
	known := have.Running == "running" || have.Running == "stopped"
	asks := reconcile.Plan(want, have)
	switch {
	case known && len(asks) == 0:
		return have, asks, nil
	case p.looks > 0:
		p.looks--
		return p.look(ctx, want)
	case !known:
		return have, nil, refusal.New(refusal.StaleTarget, "%s cannot be looked at: gated guests %s says why",
			want.Target(), want.Name)
	}
	have.Facts = []op.Fact{{Name: "facts", Text: "left out of a plan with this many changes"}}
	return have, asks, nil
}

// absent is asks for a name that is not in the list. No list has what the trash keeps of the name, but the class of a
// create depends on it.
func (p *planner) absent(ctx context.Context, want desired.Guest) (op.Observed, []op.Ask, error) {
	have := op.Observed{Target: want.Target(), Running: "absent"}
	if p.away != nil {
		return have, nil, refusal.New(refusal.Unavailable, "%s is unknown: %s", want.Target(), driver.Missing(p.away))
	}
	asks := reconcile.Plan(want, have)
	switch {
	case len(asks) == 0:
		return have, asks, nil
	case p.names > 0 && !p.late():
		p.names--
		return p.create(ctx, want, asks[0])
	}
	have.Facts = []op.Fact{{Name: "trash", Text: "was not looked at in a plan with this many new guests: a create waits if " +
		"the trash keeps a guest of that name, and is refused if another name differs from it only in case"}}
	return have, asks, nil
}

// create is look for a guest that would be made. It refuses what a look at the step foresees, and a name that differs
// only in case from one that the plan makes before.
func (p *planner) create(ctx context.Context, want desired.Guest, ask op.Ask) (op.Observed, []op.Ask, error) {
	have, err := p.driver.Observe(ctx, op.Step{Op: ask.Op, Target: ask.Target, Params: ask.Params}.Look())
	if err == nil && !have.Present {
		if err = cmp.Or(have.Hindrance(), driver.Alike(ask.Target, p.made)); err == nil {
			p.made = append(p.made, have)
		}
	}
	return have, reconcile.Plan(want, have), err
}

func (p *planner) late() bool {
	select {
	case <-p.spent:
		return true
	default:
		return false
	}
}

// look looks at one guest, and returns its steps.
func (p *planner) look(ctx context.Context, want desired.Guest) (op.Observed, []op.Ask, error) {
	have, err := p.driver.Observe(ctx, op.At(want.Target()))
	return have, reconcile.Plan(want, have), err
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

// worse returns the action that matters more to a reader.
func worse(a, b string) string {
	order := map[string]int{api.ActionNone: 0, api.ActionChange: 1, api.ActionCreate: 2, api.ActionWaits: 3}
	if order[b] > order[a] {
		return b
	}
	return a
}
