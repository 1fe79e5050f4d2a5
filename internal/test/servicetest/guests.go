package servicetest

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/memory"
)

// Guests is the driver in memory, with what a test makes of its looks.
type Guests struct {
	*memory.Driver
	hold  atomic.Pointer[Hold]
	odd   atomic.Pointer[string]
	fails atomic.Pointer[refusal.Refusal]
	looks atomic.Int64
}

// NewGuests returns a driver without guests.
func NewGuests() *Guests { return &Guests{Driver: memory.New(func() time.Time { return noon })} }

// Hold stops looks until a test lets them go on.
type Hold struct {
	Held  chan struct{} // gets one for each look that waits
	end   chan struct{}
	names []string // of guests
}

// NewHold returns a hold for any number of looks below 100.
func NewHold() *Hold { return &Hold{Held: make(chan struct{}, 100), end: make(chan struct{})} }

// End lets every look go on.
func (h *Hold) End() { close(h.end) }

// Wait is a look that waits.
func (h *Hold) Wait(ctx context.Context) error {
	h.Held <- struct{}{}
	select {
	case <-h.end:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Hold makes looks at guests of those names wait from now on, and lists if a name is "". End of the result ends that.
func (g *Guests) Hold(names ...string) *Hold {
	h := NewHold()
	h.names = names
	g.hold.Store(h)
	return h
}

// Looks is how often guests were looked at or listed.
func (g *Guests) Looks() int64 { return g.looks.Load() }

// Fail makes looks at one guest refuse, until it is called with nil.
func (g *Guests) Fail(r *refusal.Refusal) { g.fails.Store(r) }

func (g *Guests) look(ctx context.Context, name string) error {
	g.looks.Add(1)
	if h := g.hold.Load(); h != nil && slices.Contains(h.names, name) {
		return h.Wait(ctx)
	}
	return nil
}

// Odd puts a text into the facts and labels of every guest, as a guest's own files may.
func (g *Guests) Odd(text string) { g.odd.Store(&text) }

func (g *Guests) seen(o op.Observed) op.Observed {
	if text := g.odd.Load(); text != nil {
		o.Facts, o.Labels = []op.Fact{{Name: *text, Text: *text}}, map[string]string{"l": *text}
	}
	return o
}

// Observe looks at one guest.
func (g *Guests) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	if err := g.look(ctx, l.Target.Name); err != nil {
		return op.Observed{}, err
	}
	if r := g.fails.Load(); r != nil {
		return op.Observed{}, r
	}
	o, err := g.Driver.Observe(ctx, l)
	return g.seen(o), err
}

// List looks at every guest.
func (g *Guests) List(ctx context.Context) ([]op.Observed, error) {
	if err := g.look(ctx, ""); err != nil {
		return nil, err
	}
	list, err := g.Driver.List(ctx)
	list = slices.Clone(list)
	for i, o := range list {
		list[i] = g.seen(o)
	}
	return list, err
}
