package proxmox

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// settings turns a step's parameters into the API's parameters. sockets is the number of the
// machine's sockets; a container has one.
func settings(kind string, p op.Params, sockets int64) (values, error) {
	v := values{}
	if p.Str("command") != "" {
		return nil, refusal.New(refusal.BadParams, "a guest of Proxmox VE has no command").WithHint("leave command out")
	}
	if p.Has("memory") {
		if p.Int("memory") < 16 {
			return nil, refusal.New(refusal.BadParams, "memory is %d MiB, less than Proxmox VE's 16", p.Int("memory"))
		}
		v["memory"] = fmt.Sprint(p.Int("memory"))
	}
	if p.Has("cpus") {
		if p.Int("cpus")%sockets != 0 {
			return nil, refusal.New(refusal.BadParams, "%d CPUs cannot be spread over the machine's %d sockets", p.Int("cpus"),
				sockets)
		}
		v["cores"] = fmt.Sprint(p.Int("cpus") / sockets)
	}
	return v, nil
}

func (d *Driver) prepareSetConfig(_ context.Context, step op.Step, g *guest) (action, error) {
	p := step.Params
	v, err := settings(g.kind, p, g.sockets)
	if err != nil {
		return action{}, err
	}
	m := g.marker
	if p.Has("labels") || p.Has("protected") {
		m.there = true
		m.birth, m.vmid, m.protected = g.birth(), g.vmid, g.protected()
		if p.Has("labels") {
			m.labels = p.Labels("labels")
			g.untag(m.labels, v)
		}
		if p.Has("protected") {
			m.protected = p.Bool("protected")
		}
		if v["description"], err = m.in(g.text); err != nil {
			return action{}, err
		}
	}
	if m.there {
		v["protection"] = "1"
	}
	return does(func(ctx context.Context) (driver.Result, error) {
		if len(v) == 0 {
			return driver.Result{}, nil
		}
		if err := d.configure(ctx, g, v); err != nil {
			return driver.Result{}, worked("set the configuration", err)
		}
		if g.status == Running && (p.Has("memory") || p.Has("cpus")) {
			return driver.Result{Detail: "a machine that runs has it from its next start, where Proxmox VE cannot change it under way"}, nil
		}
		return driver.Result{}, nil
	}), nil
}

// untag adds to a change of the configuration that it removes each tag which is not among the
// given labels. Every tag shows as a label.
func (g *guest) untag(labels map[string]string, v values) {
	kept := slices.DeleteFunc(slices.Clone(g.tags), func(tag string) bool { _, wished := labels[tag]; return !wished })
	switch {
	case len(kept) == len(g.tags):
	case len(kept) == 0:
		v["delete"] = "tags"
	default:
		v["tags"] = strings.Join(kept, ";")
	}
}
