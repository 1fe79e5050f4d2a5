package loss

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/memory"
)

// memoryBed is the memory driver with bytes in its storage objects, and programs
// that run at once. It is the fast one.
type memoryBed struct {
	*memory.Driver
	now func() time.Time

	mu   sync.Mutex
	data map[op.StorageID]map[mark]bool
	gone map[op.Incarnation]thrown // what was destroyed, and is in the trash
	runs int
}

type thrown struct {
	name    string
	storage []op.StorageID
	parts   []string
}

func newMemoryBed() bed {
	b := &memoryBed{data: map[op.StorageID]map[mark]bool{}, gone: map[op.Incarnation]thrown{}}
	b.Driver = memory.New(func() time.Time { return b.now() })
	return b
}

func (b *memoryBed) open(now func() time.Time) (driver.Driver, func() error, error) {
	b.now = now
	return b, func() error { return nil }, nil
}

func (*memoryBed) at(string, asked)    {}
func (*memoryBed) sweep() error        { return nil } // its trash is never emptied
func (*memoryBed) settle() error       { return nil } // its programs run at once
func (*memoryBed) close()              {}
func (*memoryBed) kind() string        { return "guest" }
func (*memoryBed) targets() []string   { return nil }
func (*memoryBed) templates() []string { return nil }
func (*memoryBed) newDisk() string     { return "d0" }
func (*memoryBed) making() op.Params   { return op.Params{} }
func (*memoryBed) commands() []string  { return append([]string{""}, programs...) }

func (*memoryBed) free(string, [5]uint8) op.Params { return op.Params{} }

// parts names the storage objects of a guest.
func parts(o op.Observed) []string {
	out := make([]string, len(o.Storage))
	for i, id := range o.Storage {
		out[i] = "data"
		if rest, ok := strings.CutPrefix(string(id), "snapshot:"); ok {
			name, _, _ := strings.Cut(rest, ":")
			out[i] = "snapshot " + name
		}
	}
	return out
}

func (b *memoryBed) find(name string) (op.Observed, bool) {
	o, err := b.Driver.Observe(context.Background(), op.At(op.Target{Kind: "guest", Name: name}))
	return o, err == nil && o.Present
}

// Prepare has the memory driver prepare the step, and moves the bytes after it as
// a back end would.
func (b *memoryBed) Prepare(ctx context.Context, step op.Step, cleanup func(func())) (op.Observed, driver.Action, error) {
	now, act, err := b.Driver.Prepare(ctx, step, cleanup)
	return now, driver.Around(act, func(ctx context.Context, do driver.Work) (driver.Result, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		before, _ := b.find(step.Target.Name)
		did, err := do(ctx)
		if err == nil {
			b.move(step, before)
		}
		return did, err
	}), err
}

// move moves the bytes of a step that was done.
func (b *memoryBed) move(s op.Step, before op.Observed) {
	after, _ := b.find(s.Target.Name)
	switch s.Op {
	case "guest.destroy":
		b.gone[before.Incarnation] = thrown{s.Target.Name, before.Storage, parts(before)}
	case "guest.undelete":
		delete(b.gone, after.Incarnation)
	case "guest.snapshot", "guest.restore":
		from := before.Storage[0]
		if s.Op == "guest.restore" {
			from = before.Storage[slices.Index(parts(before), "snapshot "+s.Params.Str("snapshot"))]
		}
		for _, id := range after.Storage {
			if !slices.Contains(before.Storage, id) {
				b.data[id] = maps.Clone(b.data[from])
			}
		}
	}
	for _, id := range before.Storage {
		if s.Op != "guest.destroy" && !slices.Contains(after.Storage, id) {
			delete(b.data, id)
		}
	}
	if after.Running == "running" && (s.Op == "guest.create" || s.Op == "guest.restart" || s.Op == "guest.start" && before.Running != "running") {
		b.run(after)
	}
}

// run is a guest's program when it starts.
func (b *memoryBed) run(o op.Observed) {
	id := o.Storage[0]
	switch o.Spec.Str("command") {
	case purges:
		delete(b.data, id)
	case fills:
		b.runs++
		b.put(id, mark(fmt.Sprintf("program-%d", b.runs)))
	}
}

func (b *memoryBed) put(id op.StorageID, m mark) {
	if b.data[id] == nil {
		b.data[id] = map[mark]bool{}
	}
	b.data[id][m] = true
}

func (b *memoryBed) write(name string, m mark) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.find(name)
	if ok {
		b.put(o.Storage[0], m)
		b.Driver.Write(name)
	}
	return ok
}

func (b *memoryBed) erase(name string, m mark) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	o, ok := b.find(name)
	if ok = ok && b.data[o.Storage[0]][m]; ok {
		delete(b.data[o.Storage[0]], m)
	}
	return ok
}

// rename changes nothing here: a mark has no place beside its storage object.
func (b *memoryBed) rename(string, mark) bool { return true }

func (b *memoryBed) holder(name string) string {
	o, _ := b.find(name)
	return string(o.Incarnation)
}

func (b *memoryBed) holdings() (map[item]where, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[item]where{}
	add := func(holder op.Incarnation, ids []op.StorageID, parts []string, w where) {
		for i, id := range ids {
			for m := range b.data[id] {
				out[item{string(holder), parts[i], m}] = w
			}
		}
	}
	live, err := b.Driver.List(context.Background())
	for _, o := range live {
		add(o.Incarnation, o.Storage, parts(o), where{name: o.Target.Name})
	}
	for inc, x := range b.gone {
		o, _ := b.find(x.name)
		if o.Target.Name == "" {
			o, err = b.Driver.Observe(context.Background(), op.At(op.Target{Kind: "guest", Name: x.name}))
		}
		for _, t := range o.Trash {
			if t.Incarnation == inc {
				add(inc, x.storage, x.parts, where{name: x.name, trash: true, until: t.Until})
			}
		}
	}
	return out, err
}
