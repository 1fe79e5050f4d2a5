package drivertest_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
)

// toy is a small driver. It is right, unless it has the named fault.
type toy struct {
	fault string
	mu    sync.Mutex
	made  int
	has   map[string]guest
}

type guest struct {
	number   int
	birth    string
	running  bool
	memory   int64
	labels   map[string]any
	content  string
	observed int
	shares   int // the number of another guest whose data it has, too
}

func (d *toy) is(fault string) bool { return d.fault == fault }

func (d *toy) Kind() string { return "guest" }

func (d *toy) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.look(l.Target)
}

func (d *toy) look(t op.Target) (op.Observed, error) {
	name := t.Name
	if d.is("knows other names") {
		name = strings.ToLower(name)
	}
	if t.Kind != d.Kind() {
		return op.Observed{}, refusal.New(refusal.UnknownTarget, "%s is no guest", t)
	}
	o := op.Observed{Target: t, Running: "absent", Ops: []string{"guest.create", "guest.destroy", "guest.set-config", "guest.start", "guest.stop"},
		Fingerprint: op.FingerprintOf([]byte(t.Name))}
	g, ok := d.has[name]
	if !ok {
		return o, nil
	}
	if d.is("looks change something") {
		g.observed++
		g.content += "."
		d.has[name] = g
	}
	o.Present, o.Birth, o.Running = true, g.birth, "stopped"
	o.Incarnation = op.Incarnation(fmt.Sprintf("toy:%d", g.number))
	o.Storage = []op.StorageID{op.StorageID(fmt.Sprintf("toy:data:%d", g.number))}
	o.Spec = op.Params{"memory": g.memory, "labels": maps.Clone(g.labels)}
	o.Labels = o.Spec.Labels("labels")
	o.Facts = []op.Fact{{Name: "bytes", Text: fmt.Sprint(len(g.content))}}
	for other, x := range d.has {
		if x.shares == g.number && !d.is("asks nobody who else has it") {
			o.Dependent = append(o.Dependent, op.Target{Kind: "guest", Name: other})
		}
	}
	covered := fmt.Sprint(g.number, op.Guarded(o.Spec).Canonical())
	o.Content = fmt.Sprint("bytes ", g.content)
	if g.running {
		o.Running, o.Content = "running", ""
	}
	switch d.fault {
	case "sees no writes":
		o.Content = "untouched"
	case "follows names":
		o.Incarnation, covered = op.Incarnation("toy:"+name), fmt.Sprint(o.Spec.Canonical())
	case "covers whether it runs":
		covered += o.Running
	case "covers no state":
		covered = "x"
	case "covers limits":
		covered += fmt.Sprint(g.memory)
	case "covers data":
		covered += g.content
	case "says no facts":
		o.Facts = nil
	case "says no numbers":
		o.Facts[0].Text = "some"
	case "names no storage":
		o.Storage = nil
	case "forgets births":
		o.Birth = ""
	case "rounds":
		o.Spec["memory"] = g.memory / 2 * 2
	}
	o.Fingerprint = op.FingerprintOf([]byte(covered))
	return o, nil
}

func (d *toy) List(context.Context) (all []op.Observed, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range d.has {
		o, err := d.look(op.Target{Kind: "guest", Name: name})
		if err != nil {
			return nil, err
		}
		if d.is("lists in another unit") {
			o.Spec["memory"] = d.has[name].memory << 10
		}
		all = append(all, o)
	}
	return all, nil
}

func (d *toy) Prepare(ctx context.Context, s op.Step, _ func(func())) (op.Observed, driver.Action, error) {
	now, err := d.Observe(ctx, s.Look())
	if err != nil {
		return now, driver.Action{}, err
	}
	switch s.Op {
	case "guest.create", "guest.destroy", "guest.set-config", "guest.start", "guest.stop":
	default:
		if !d.is("does what it does not list") {
			return now, driver.Action{}, refusal.New(refusal.UnknownOp, "no %s here", s.Op)
		}
	}
	if s.Params.Has("template") {
		return now, driver.Action{}, refusal.New(refusal.BadParams, "no templates here")
	}
	if d.is("acts while it prepares") {
		return now, driver.Action{}, d.do(s, now)
	}
	return now, driver.Does(func(context.Context) (driver.Result, error) { return driver.Result{}, d.do(s, now) }), nil
}

func (d *toy) do(s op.Step, seen op.Observed) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	again, _ := d.look(s.Target)
	if again.Incarnation != seen.Incarnation && !d.is("acts on the name") {
		return refusal.New(refusal.StaleTarget, "it became another one")
	}
	if seen.Present && !again.Spec.Equal(seen.Spec) && !d.is("overwrites what changed") {
		return refusal.New(refusal.StaleTarget, "it was changed")
	}
	if len(again.Dependent) > len(seen.Dependent) && !d.is("asks once who else has it") {
		return refusal.New(refusal.StaleTarget, "another one has its data")
	}
	d.act(s)
	return nil
}

func (d *toy) act(s op.Step) {
	g, name := d.has[s.Target.Name], s.Target.Name
	switch s.Op {
	case "guest.create":
		d.made++
		g = guest{number: d.made, birth: s.Birth, content: "new", running: s.Params.Str("state") == "running", labels: map[string]any{}}
	case "guest.destroy":
		delete(d.has, name)
		for other, x := range d.has {
			if d.is("takes others with it") && other == drivertest.Bystander || d.is("takes what others have") && x.number == g.shares {
				delete(d.has, other)
			}
		}
		return
	case "guest.start", "guest.stop":
		g.running = s.Op == "guest.start"
	}
	if s.Params.Has("memory") {
		g.memory = s.Params.Int("memory")
	}
	if s.Params.Has("labels") {
		labels := maps.Clone(s.Params["labels"].(map[string]any))
		if d.is("keeps labels") {
			maps.Copy(labels, g.labels)
		}
		g.labels = labels
	}
	d.has[name] = g
}

func (d *toy) Task(context.Context, string) (driver.Progress, error) {
	if d.is("knows every task") {
		return driver.Progress{Done: true}, nil
	}
	return driver.Progress{}, refusal.New(refusal.UnknownTarget, "no such task")
}

// world has the functions that change a toy without the driver.
func (d *toy) world() drivertest.World {
	plant := func(name string) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.made++
		d.has[name] = guest{number: d.made, memory: 3, content: "precious", labels: map[string]any{}}
	}
	change := func(fn func(*guest)) func(string) {
		return func(name string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			g := d.has[name]
			fn(&g)
			d.has[name] = g
		}
	}
	none := "a toy has nothing of the kind"
	return drivertest.World{Driver: d, Restart: func() driver.Driver { return d }, Make: plant, Remake: plant,
		Change: change(func(g *guest) { g.labels = map[string]any{"a": "b"} }),
		Fill:   change(func(g *guest) { g.content += " more" }),
		Content: func(name string) string {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.has[name].content
		},
		Wishes:  []op.Params{{"memory": int64(7)}},
		Changes: []op.Params{{"memory": int64(9)}, {"labels": map[string]any{"c": "d"}}},
		Abilities: drivertest.Abilities{
			Share: func(from, to string) func() {
				change(func(g *guest) { g.shares = d.has[from].number })(to)
				return func() { change(func(g *guest) { g.shares = 0 })(to) }
			},
			SetMemory: func(name string, mib int64) { change(func(g *guest) { g.memory = mib })(name) },
			Runs:      true, NewIDs: true, Sizes: true,
			Objects: func() (ids []op.StorageID) {
				d.mu.Lock()
				defer d.mu.Unlock()
				for _, g := range d.has {
					ids = append(ids, op.StorageID(fmt.Sprintf("toy:data:%d", g.number)))
				}
				return ids
			},
			Lacks: map[string]string{"Protect": none, "Volatile": none, "MoveDisk": none, "Leftover": none, "NewDisk": none,
				"Hang": none, "Lie": none, "LoseAnswer": none, "Twice": none}}}
}
