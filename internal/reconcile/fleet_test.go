package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/wire/desired"
)

// lines is a source whose documents a test puts.
type lines struct {
	mu   sync.Mutex
	docs map[string]string
	err  error
}

func (l *lines) put(set, doc string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.docs == nil {
		l.docs = map[string]string{}
	}
	l.docs[set] = doc
}

func (*lines) Name() string { return "test" }

func (l *lines) Read(context.Context) ([]*SetDoc, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return nil, l.err
	}
	var out []*SetDoc
	for _, set := range slices.Sorted(maps.Keys(l.docs)) {
		doc, err := desired.Parse(set, []byte(l.docs[set]))
		if err != nil {
			return nil, err
		}
		out = append(out, &SetDoc{Set: set, Doc: doc, Digest: op.SHA256([]byte(l.docs[set]))})
	}
	return out, nil
}

// fleet is guests in memory. Its hooks are asked at the points where back ends
// fail.
type fleet struct {
	mu      sync.Mutex
	guests  map[string]op.Observed
	count   int
	done    []string // "op name" of everything that was carried out
	looks   int
	before  func(op.Step) error           // before the permit is used
	after   func(op.Step) error           // after it, in place of the work
	tell    func(op.Step) (string, error) // after the work: the task, or the error that the caller gets
	blind   func(op.Target) error         // looking fails
	cannot  error                         // why no step can be done now
	never   bool                          // nor in any other state of its target
	wavers  bool                          // every other look for a step sees nothing in the way
	probed  int                           // looks for a step
	listing error
	hang    bool // the work never ends by itself
	tasks   map[string]driver.Progress
	asked   []string // the tasks that were asked about
}

func newFleet() *fleet {
	return &fleet{guests: map[string]op.Observed{}, tasks: map[string]driver.Progress{}}
}

func (*fleet) Kind() string { return "guest" }

func (f *fleet) List(context.Context) ([]op.Observed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.listing != nil && driver.Missing(f.listing) == "" {
		return nil, f.listing
	}
	out := make([]op.Observed, 0, len(f.guests))
	for _, o := range f.guests {
		out = append(out, o)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Target.Name < out[j].Target.Name })
	return out, f.listing
}

func (f *fleet) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	if f.blind != nil {
		if err := f.blind(t); err != nil {
			return op.Observed{}, err
		}
	}
	o, ok := f.guests[t.Name]
	if !ok {
		o = nothing(t.Name)
	}
	if l.Op == "" {
		return o, nil
	}
	if f.probed++; !f.wavers || f.probed%2 == 0 {
		if f.never {
			o.Unfit(f.cannot)
		}
		o.Foresee(f.cannot)
	}
	return o, nil
}

func (f *fleet) Task(_ context.Context, task string) (driver.Progress, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, task)
	p, ok := f.tasks[task]
	if !ok {
		return p, refusal.New(refusal.UnknownTarget, "there is no task %s", task)
	}
	return p, nil
}

func (f *fleet) Prepare(ctx context.Context, s op.Step, _ func(func())) (op.Observed, driver.Action, error) {
	if f.before != nil {
		if err := f.before(s); err != nil {
			return op.Observed{}, driver.Action{}, err
		}
	}
	now, err := f.Observe(ctx, s.Look())
	return now, driver.Does(func(ctx context.Context) (driver.Result, error) { return f.do(ctx, s) }), err
}

func (f *fleet) do(ctx context.Context, s op.Step) (driver.Result, error) {
	if f.after != nil {
		if err := f.after(s); err != nil {
			return driver.Result{}, err
		}
	}
	if f.hang {
		<-ctx.Done()
		return driver.Result{}, fmt.Errorf("no answer: %w", ctx.Err())
	}
	f.mu.Lock()
	f.carryOut(s)
	f.mu.Unlock()
	if f.tell != nil {
		task, err := f.tell(s)
		return driver.Result{Task: task}, err
	}
	return driver.Result{}, nil
}

// carryOut does a step; f.mu is held.
func (f *fleet) carryOut(s op.Step) {
	name := s.Target.Name
	f.done = append(f.done, s.Op+" "+name)
	o := apply(f.look(name), op.Ask{Op: s.Op, Target: s.Target, Params: s.Params})
	if s.Op == "guest.create" {
		f.count++
		o.Incarnation, o.Birth = op.Incarnation(name+strings.Repeat("'", f.count)), s.Birth
		o.Storage = []op.StorageID{op.StorageID("data of " + string(o.Incarnation))}
	} else if o.Present {
		before := f.look(name)
		o.Incarnation, o.Birth, o.Storage = before.Incarnation, before.Birth, before.Storage
	}
	if !o.Present {
		delete(f.guests, name)
		return
	}
	f.set(o)
}

func (f *fleet) look(name string) op.Observed {
	if o, ok := f.guests[name]; ok {
		return o
	}
	return nothing(name)
}

func (f *fleet) set(o op.Observed) {
	o.Fingerprint = op.FingerprintOf(append(o.Spec.Canonical(), strings.Join(o.Snapshots, ",")...))
	f.guests[o.Target.Name] = o
}

// make puts a guest there by other hands than the gate's.
func (f *fleet) make(name, state string, spec op.Params) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	o := observed(name, state, spec)
	o.Incarnation = op.Incarnation(name + strings.Repeat("'", f.count))
	o.Storage = []op.StorageID{op.StorageID("data of " + string(o.Incarnation))}
	f.set(o)
}

func (f *fleet) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.guests, name)
}

func (f *fleet) change(name string, fn func(*op.Observed)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := f.guests[name]
	fn(&o)
	f.set(o)
}

func (f *fleet) has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.guests[name]
	return ok
}

// took returns what was carried out since the last call.
func (f *fleet) took() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.done
	f.done = nil
	if out == nil {
		out = []string{}
	}
	return out
}

var errBackend = errors.New("the back end hiccuped")
