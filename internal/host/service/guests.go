package service

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/command/catalogue"
	"gated/internal/gate"
	"gated/internal/wire/convert"
)

// GuestQuery is one page of a list of guests.
type GuestQuery struct {
	After string // a name, "" for the first page
	Limit int    // at least 1
	Bytes int    // stop once the guests weigh so much (op.Observed.Weight)
}

// Guests looks at guests for the server, and classifies a destroy for the caller.
type Guests struct {
	gate   *gate.Gate
	driver driver.Driver
}

// NewGuests shows the guests of a driver, with the gate's records of them.
func NewGuests(g *gate.Gate, d driver.Driver) Guests { return Guests{g, d} }

// Guests lists one page by name, and says whether there are more. It shows what the driver sees, without the walk
// through each guest's files that a look at one guest takes.
func (g Guests) Guests(ctx context.Context, by op.Requester, q GuestQuery) (page []api.Guest, more bool, err error) {
	all, err := g.driver.List(ctx)
	if err != nil && driver.Missing(err) == "" {
		return nil, false, err // otherwise the visible guests are shown, and status names the back end that is away
	}
	all = slices.Clone(all) // the driver may keep its list
	slices.SortFunc(all, func(a, b op.Observed) int { return strings.Compare(a.Target.Name, b.Target.Name) })
	weight := 0
	page = []api.Guest{}
	for _, o := range all {
		switch {
		case o.Target.Name <= q.After:
			continue
		case len(page) == q.Limit || weight >= q.Bytes:
			return page, true, nil
		}
		p, err := g.gate.Provenance(ctx, o.Incarnation)
		if err != nil {
			return nil, false, err
		}
		if o.Facts, err = g.facts(ctx, o); err != nil {
			return nil, false, err
		}
		weight += o.Weight()
		page = append(page, convert.GuestOf(o, p, g.destroy(ctx, by, o)))
	}
	return page, false, nil
}

// Guest looks at one guest.
func (g Guests) Guest(ctx context.Context, by op.Requester, name string) (api.Guest, error) {
	t := op.Target{Kind: "guest", Name: name}
	o, err := g.driver.Observe(ctx, op.At(t))
	if err != nil {
		if r := (*refusal.Refusal)(nil); errors.As(err, &r) {
			return convert.UnknownGuest(name, err), nil
		}
		return api.Guest{}, err
	}
	if !o.Present && len(o.Trash) == 0 {
		return api.Guest{}, refusal.New(refusal.UnknownTarget, "there is no %s", t).
			WithHint("gated guests lists what there is")
	}
	p, err := g.gate.Provenance(ctx, o.Incarnation)
	if err != nil {
		return api.Guest{}, err
	}
	if o.Facts, err = g.facts(ctx, o); err != nil {
		return api.Guest{}, err
	}
	return convert.GuestOf(o, p, g.destroy(ctx, by, o)), nil
}

// facts returns what the driver saw, and which requesters may still end the guest unsigned.
func (g Guests) facts(ctx context.Context, o op.Observed) ([]op.Fact, error) {
	canGo, err := g.gate.CanGo(ctx, o)
	return append(slices.Clip(o.Facts), canGo...), err
}

// destroy returns the class of a destroy by this caller; nil if there is nothing to destroy.
func (g Guests) destroy(ctx context.Context, by op.Requester, o op.Observed) *op.Verdict {
	if !o.Present {
		return nil
	}
	v, err := g.gate.Verdict(ctx, by, op.Step{Op: "guest.destroy", Target: o.Target, Params: op.Params{}}, o)
	if err != nil {
		return nil
	}
	return &v
}

// Commands shows the operator's catalogue.
type Commands struct {
	entries map[string]catalogue.Entry
	looks   op.Observer
}

// NewCommands shows these entries, each as the driver of commands sees it.
func NewCommands(entries map[string]catalogue.Entry, looks op.Observer) *Commands {
	return &Commands{entries, looks}
}

// Commands lists the catalogue. It looks at each program. A program that fails its checks has the state unknown; the
// list has the others too.
func (c *Commands) Commands(ctx context.Context) ([]api.Command, error) {
	out := make([]api.Command, 0, len(c.entries))
	for _, name := range slices.Sorted(maps.Keys(c.entries)) {
		out = append(out, c.one(ctx, name))
	}
	return out, ctx.Err()
}

// Command shows one entry.
func (c *Commands) Command(ctx context.Context, name string) (api.Command, error) {
	if _, ok := c.entries[name]; !ok {
		return api.Command{}, refusal.New(refusal.UnknownTarget, "there is no command %q", name).
			WithHint("gated commands lists what there is")
	}
	return c.one(ctx, name), ctx.Err()
}

// one looks at one entry, without parameters.
func (c *Commands) one(ctx context.Context, name string) api.Command {
	e := c.entries[name]
	out := api.Command{Name: name, Program: first(e.Argv), Probe: first(e.Probe), User: e.User, TimeoutSeconds: int64(e.Timeout / time.Second),
		Class: op.Destructive, State: api.CommandUnknown, Params: make([]api.CommandParam, 0, len(e.Params))}
	if e.Benign {
		out.Class = op.Benign
	}
	for _, p := range slices.Sorted(maps.Keys(e.Params)) {
		is := e.Params[p]
		out.Params = append(out.Params, api.CommandParam{Name: p, Type: string(is.Type), Doc: is.String(), Pattern: is.Pattern,
			Min: is.Min, Max: is.Max, Values: is.Values, Below: is.Below})
	}
	o, err := c.looks.Observe(ctx, op.At(op.Target{Kind: op.KindCommand, Name: name}))
	switch {
	case err != nil:
		r := refusal.As(err)
		out.Error = &api.Error{Code: r.Code, Detail: r.Detail}
	case !o.Present:
		out.Error = &api.Error{Code: refusal.UnknownTarget, Detail: "it is not there"}
	default:
		out.State, out.Incarnation = api.CommandOK, o.Incarnation
	}
	return out
}

func first(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}
