package service

import (
	"context"
	"maps"
	"slices"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/command/catalogue"
	"gated/internal/wire/api"
)

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
