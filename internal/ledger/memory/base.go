package memory

import (
	"context"
	"slices"

	"gated/internal/ledger"
)

// Base implements ledger.Engine.
func (m *Member) Base(ctx context.Context) (ledger.Base, error) {
	if m.fault(false) != None || ctx.Err() != nil {
		return ledger.Base{}, ledger.ErrUnavailable
	}
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	return m.of.base, nil
}

// BaseBody implements ledger.Engine.
func (m *Member) BaseBody(ctx context.Context, b ledger.Base) ([]byte, error) {
	if m.fault(false) != None || ctx.Err() != nil {
		return nil, ledger.ErrUnavailable
	}
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	if m.of.base.Number != b.Number {
		return nil, ledger.ErrUnavailable
	}
	return slices.Clone(m.of.body), nil
}

// PutBase implements ledger.Engine.
func (m *Member) PutBase(b ledger.Base, body []byte, in uint64) error {
	return m.put(func(l *Ledger) error {
		switch {
		case l.era != in:
			return ledger.ErrFenced
		case b.Number > l.last():
			return ledger.ErrUnavailable
		case b.Number > l.base.Number:
			l.groups = l.groups[b.Number-l.base.Number:]
			l.base, l.body = b, slices.Clone(body)
		}
		return nil
	})
}

// Mend implements ledger.Engine.
func (m *Member) Mend(ctx context.Context, from ledger.Position, era uint64, b ledger.Base, body []byte) error {
	if ctx.Err() != nil {
		return ledger.ErrUnavailable
	}
	return m.put(func(l *Ledger) error {
		if l.era != from.Era || era <= from.Era {
			return ledger.ErrFenced
		}
		l.era = era
		if l.last() != from.Last {
			return ledger.ErrFenced
		}
		l.groups, l.late = nil, nil
		l.base, l.body = b, slices.Clone(body)
		return nil
	})
}

// put makes a change, if no fault is ordered for it.
func (m *Member) put(change func(*Ledger) error) error {
	f := m.fault(true)
	switch f {
	case Lost, Away:
		return ledger.ErrUnavailable
	case InDoubt, LateKept:
		return ledger.ErrInDoubt
	}
	l := m.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := change(l); err != nil {
		return err
	}
	if f == InDoubtKept {
		return ledger.ErrInDoubt
	}
	return nil
}
