package service

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
	"gated/internal/wire/desired"
)

// crowd is a driver with guests that all run, and counts how it is asked.
type crowd struct {
	driver.Driver
	guests       []op.Observed
	trash        map[string][]op.Trashed // by name
	hindered     map[string]error        // creates by name, and why the driver foresees that it refuses them
	lists, looks int
}

func (c *crowd) List(context.Context) ([]op.Observed, error) { c.lists++; return c.guests, nil }

func (c *crowd) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	c.looks++
	if t.Name == "odd" {
		return op.Observed{}, refusal.New(refusal.StaleTarget, "two guests have one uuid")
	}
	if !slices.ContainsFunc(c.guests, func(o op.Observed) bool { return o.Target == t }) {
		o := op.Observed{Target: t, Running: "absent", Trash: c.trash[t.Name]}
		if l.Op == "guest.create" {
			o.Foresee(c.hindered[t.Name])
		}
		return o, nil
	}
	return op.Observed{Target: t, Present: true, Running: "running", Facts: []op.Fact{{Name: "files", Text: "3"}}}, nil
}

// deadly is a gate to which every step is destructive. It calls after, if that
// is not nil, for each.
type deadly struct{ after func() }

func (d deadly) Verdict(context.Context, op.Requester, op.Step, op.Observed) (op.Verdict, error) {
	if d.after != nil {
		d.after()
	}
	return op.Verdict{Class: op.Destructive}, nil
}

func crowded(n int, state string) (*crowd, desired.Document) {
	c, doc := &crowd{}, desired.Document{Host: "h"}
	for i := range n {
		name := fmt.Sprintf("g%d", i)
		c.guests = append(c.guests, op.Observed{Target: op.Target{Kind: "guest", Name: name}, Present: true, Running: "running"})
		doc.Guests = append(doc.Guests, desired.Guest{Name: name, State: state})
	}
	return c, doc
}

func TestPlanLooksOnlyAtWhatWouldChange(t *testing.T) {
	c, doc := crowded(5_000, desired.Running)
	doc.Guests[7].State = desired.Absent
	doc.Guests = append(doc.Guests, desired.Guest{Name: "new", State: desired.Running})
	p := planner{gate: deadly{}, driver: c, looks: planLooks, names: planNames}
	out := must.Get(p.plan(t.Context(), doc))(t)
	require.Len(t, out.Guests, 5_001)
	require.Equal(t, []int{1, 2}, []int{c.lists, c.looks}, "at the one that goes, and at the new name")
	require.Equal(t, api.ActionNone, out.Guests[6].Action)
	require.Equal(t, "files", out.Guests[7].Steps[0].Facts[0].Name)
	require.Equal(t, "guest.create", out.Guests[5_000].Steps[0].Op)
}

func TestPlanBoundsItsLooks(t *testing.T) {
	c, doc := crowded(planLooks+1, desired.Absent)
	odd := op.Observed{Target: op.Target{Kind: "guest", Name: "odd"}, Present: true, Running: "unknown"}
	c.guests = append(c.guests, odd)
	doc.Guests = append(doc.Guests, desired.Guest{Name: "odd"})
	p := planner{gate: deadly{}, driver: c, looks: planLooks, names: planNames}
	out := must.Get(p.plan(t.Context(), doc))(t)
	require.Equal(t, planLooks, c.looks)
	require.Equal(t, "files", out.Guests[planLooks-1].Steps[0].Facts[0].Name)
	require.Equal(t, api.ActionWaits, out.Guests[planLooks].Action)
	require.Contains(t, out.Guests[planLooks].Steps[0].Facts[0].Text, "left out")
	require.Equal(t, refusal.StaleTarget, out.Guests[planLooks+1].Error.Code)
	require.Empty(t, out.Guests[planLooks+1].Steps)

	p = planner{gate: deadly{}, driver: c, looks: 1}
	out = must.Get(p.plan(t.Context(), desired.Document{Guests: []desired.Guest{{Name: "odd"}}}))(t)
	require.Equal(t, "two guests have one uuid", out.Guests[0].Error.Detail)
}

// wary is a gate to which a step is destructive where the trash has the name.
type wary struct{ by op.Requester }

func (w *wary) Verdict(_ context.Context, by op.Requester, _ op.Step, o op.Observed) (op.Verdict, error) {
	w.by = by
	if len(o.Trash) > 0 {
		return op.Verdict{Class: op.Destructive, Rule: "name-in-trash"}, nil
	}
	return op.Verdict{Class: op.Benign}, nil
}

// A name that no guest has is classified by what the trash keeps of it, which is in
// no list; and the set asks, whose own destroy would free the name for it.
func TestPlanLooksAtTheTrash(t *testing.T) {
	c := &crowd{trash: map[string][]op.Trashed{"web": {{Incarnation: "local:1"}}}}
	doc := desired.Document{Host: "h", Guests: []desired.Guest{{Name: "web", State: desired.Stopped}, {Name: "db", State: desired.Stopped}, {Name: "gone", State: desired.Absent}}}
	g := &wary{}
	p := planner{gate: g, driver: c, set: "fleet", looks: planLooks, names: planNames}
	out := must.Get(p.plan(t.Context(), doc))(t)
	require.Equal(t, []string{api.ActionWaits, api.ActionCreate, api.ActionNone}, []string{out.Guests[0].Action, out.Guests[1].Action, out.Guests[2].Action})
	require.Equal(t, op.Requester{Source: op.SourceDesired, Set: "fleet"}, g.by)
	require.Equal(t, 2, c.looks, "of what is to be absent and is, nothing is asked")
	require.Equal(t, planLooks, p.looks, "the looks are for what would change")

	p = planner{gate: g, driver: c, names: 1}
	out = must.Get(p.plan(t.Context(), doc))(t)
	require.Equal(t, api.ActionWaits, out.Guests[0].Action)
	require.Contains(t, out.Guests[1].Steps[0].Facts[0].Text, "not looked at")
}

// A name that no create would get is planned as the refusal that its create would be: one that the driver foresees, and
// one that differs only in case from a name that the same document makes.
func TestPlanSaysWhichCreatesAreRefused(t *testing.T) {
	guest := func(name string) op.Target { return op.Target{Kind: "guest", Name: name} }
	c := &crowd{hindered: map[string]error{"Web": driver.Alike(guest("Web"), []op.Observed{{Target: guest("web")}})}}
	var doc desired.Document
	for _, name := range []string{"Web", "db", "DB", "Db", "mail"} {
		doc.Guests = append(doc.Guests, desired.Guest{Name: name, State: desired.Running})
	}
	p := planner{gate: &wary{}, driver: c, names: planNames}
	out := must.Get(p.plan(t.Context(), doc))(t)
	for i, other := range []string{"web", "", "db", "db", ""} {
		g := out.Guests[i]
		if other == "" {
			require.Equal(t, api.ActionCreate, g.Action, g.Name)
			continue
		}
		require.Equal(t, api.ActionError, g.Action, g.Name)
		require.Empty(t, g.Steps)
		require.Equal(t, &api.Error{Code: refusal.Conflict, Hint: "choose another name, or see gated guests " + other,
			Detail: "guest/" + g.Name + " differs from guest/" + other + " only in case"}, g.Error)
	}
}

func TestPlanEndsWhenItsCallerLeaves(t *testing.T) {
	c, doc := crowded(50, desired.Absent)
	ctx, leave := context.WithCancel(t.Context())
	asked := 0
	p := planner{gate: deadly{after: func() { asked++; leave() }}, driver: c, looks: planLooks, names: planNames}
	must.Fail(p.plan(ctx, doc))(t, refusal.Unavailable)
	require.Equal(t, 1, asked)
}

// away is a driver of which a back end is away.
type away struct{ crowd }

func (a *away) List(ctx context.Context) ([]op.Observed, error) {
	all, _ := a.crowd.List(ctx)
	return all, &driver.Incomplete{Why: "x is away"}
}

// What is in no list while a back end is away is planned as unknown, not as made.
func TestPlanWhileABackEndIsAway(t *testing.T) {
	c, doc := crowded(1, desired.Stopped)
	doc.Guests = append(doc.Guests, desired.Guest{Name: "new", State: desired.Running}, desired.Guest{Name: "old", State: desired.Absent})
	p := planner{gate: deadly{}, driver: &away{*c}, looks: planLooks, names: planNames}
	got := must.Get(p.plan(t.Context(), doc))(t)
	require.Equal(t, api.ActionWaits, got.Guests[0].Action, "what is seen is planned")
	for _, g := range got.Guests[1:] {
		require.Equal(t, api.ActionError, g.Action)
		require.Empty(t, g.Steps)
		require.Equal(t, &api.Error{Code: refusal.Unavailable, Detail: "guest/" + g.Name + " is unknown: x is away"}, g.Error)
	}
}
