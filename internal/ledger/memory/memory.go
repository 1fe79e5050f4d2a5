// Package memory is a ledger in memory, for tests: it keeps its groups as long as the process lives, and has the faults
// of a real one on order.
package memory

import (
	"context"
	"slices"
	"sync"

	"gated/internal/ledger"
)

// Fault is what happens to one call.
type Fault int

// The faults. To Settle, each but None is as Away.
const (
	None        Fault = iota
	Lost              // the call never arrives, and its caller knows
	InDoubt           // the call never arrives, and its caller does not know
	InDoubtKept       // the answer is lost on the way back
	LateKept          // the answer is lost, and the group appears only when Settle waits for it
	Away              // the ledger answers nothing
)

// Ledger is the ledger of one gate. Its members each have a Member of it.
type Ledger struct {
	mu     sync.Mutex
	era    uint64
	beat   uint64
	base   ledger.Base
	body   []byte         // of the base
	groups []ledger.Group // after the base
	late   []ledger.Group // will appear
}

// New returns an empty ledger.
func New() *Ledger { return &Ledger{} }

// Member returns the engine of one daemon.
func (l *Ledger) Member() *Member { return &Member{of: l} }

// Groups returns all groups that are kept, after the base.
func (l *Ledger) Groups() []ledger.Group {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.groups)
}

// Change lets a test play the owner of the database: fn may return any groups and any era.
func (l *Ledger) Change(fn func(groups []ledger.Group, era uint64) ([]ledger.Group, uint64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups, l.era = fn(slices.Clone(l.groups), l.era)
}

// ChangeBase is Change for the base and its rows.
func (l *Ledger) ChangeBase(fn func(b ledger.Base, body []byte) (ledger.Base, []byte)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base, l.body = fn(l.base, slices.Clone(l.body))
}

// Member is one daemon's way to a ledger. It implements ledger.Engine.
type Member struct {
	of *Ledger

	mu     sync.Mutex
	away   bool
	orders []Fault
	closed bool
}

// Partition cuts the way, or mends it. While it is cut, every call is Away.
func (m *Member) Partition(cut bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = cut
}

// Order gives faults to the next calls of Append, Settle, PutBase and Mend, one each. A base that is InDoubt is not kept.
func (m *Member) Order(faults ...Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.orders = append(m.orders, faults...)
}

// fault takes the next order, if ordered is true.
func (m *Member) fault(ordered bool) Fault {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away || m.closed {
		return Away
	}
	if !ordered || len(m.orders) == 0 {
		return None
	}
	f := m.orders[0]
	m.orders = m.orders[1:]
	return f
}

// Position implements ledger.Engine.
func (m *Member) Position(ctx context.Context) (ledger.Position, error) {
	if m.fault(false) != None || ctx.Err() != nil {
		return ledger.Position{}, ledger.ErrUnavailable
	}
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	return m.of.position(), nil
}

func (l *Ledger) position() ledger.Position {
	return ledger.Position{Era: l.era, Beat: l.beat, Last: l.last()}
}

func (l *Ledger) last() uint64 { return l.base.Number + uint64(len(l.groups)) }

// arrive keeps what is still under way, as a call does that waits for the row lock in PostgreSQL.
func (l *Ledger) arrive() { l.groups, l.late = append(l.groups, l.late...), nil }

// Take implements ledger.Engine.
func (m *Member) Take(ctx context.Context, from uint64) (ledger.Position, error) {
	if m.fault(false) != None || ctx.Err() != nil {
		return ledger.Position{}, ledger.ErrUnavailable
	}
	l := m.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.era != from {
		return ledger.Position{}, ledger.ErrFenced
	}
	l.arrive()
	l.era++
	return l.position(), nil
}

// Append implements ledger.Engine.
func (m *Member) Append(g ledger.Group) error {
	f := m.fault(true)
	switch f {
	case Lost, Away:
		return ledger.ErrUnavailable
	case InDoubt:
		return ledger.ErrInDoubt
	}
	l := m.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.era != g.Era {
		return ledger.ErrFenced
	}
	if g.Number != l.last()+1 {
		return ledger.ErrUnavailable
	}
	g.Body, g.Signature = slices.Clone(g.Body), slices.Clone(g.Signature)
	if f == LateKept {
		l.late = append(l.late, g)
		return ledger.ErrInDoubt
	}
	l.groups = append(l.groups, g)
	if f == InDoubtKept {
		return ledger.ErrInDoubt
	}
	return nil
}

// Settle implements ledger.Engine. An answer is for good: what it says was not kept never appears.
func (m *Member) Settle(era, number uint64) (kept bool, err error) {
	f := m.fault(true)
	l := m.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if f != None {
		return false, ledger.ErrUnavailable
	}
	l.arrive()
	if l.base.Number > number {
		return false, ledger.ErrFenced // another daemon appended after it
	}
	if l.base.Number == number {
		return l.base.Era == era, nil
	}
	return slices.ContainsFunc(l.groups, func(g ledger.Group) bool { return g.Number == number && g.Era == era }), nil
}

// Read implements ledger.Engine.
func (m *Member) Read(ctx context.Context, after uint64, most int) ([]ledger.Group, error) {
	if m.fault(false) != None || ctx.Err() != nil {
		return nil, ledger.ErrUnavailable
	}
	l := m.of
	l.mu.Lock()
	defer l.mu.Unlock()
	rest := l.groups[min(max(after, l.base.Number)-l.base.Number, uint64(len(l.groups))):]
	return slices.Clone(rest[:min(most, len(rest))]), nil
}

// Beat implements ledger.Engine.
func (m *Member) Beat(era uint64) error {
	if m.fault(false) != None {
		return ledger.ErrUnavailable
	}
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	if m.of.era != era {
		return ledger.ErrFenced
	}
	m.of.beat++
	return nil
}

// End implements ledger.Engine.
func (m *Member) End(ctx context.Context, from uint64) error {
	if m.fault(false) != None || ctx.Err() != nil {
		return ledger.ErrUnavailable
	}
	l := m.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.era != from {
		return ledger.ErrFenced
	}
	l.arrive()
	l.era, l.beat = ledger.Ended, from
	return nil
}

// Close implements ledger.Engine.
func (m *Member) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}

var _ ledger.Engine = (*Member)(nil)
