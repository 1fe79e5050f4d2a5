package witness

import (
	"context"

	"gated/internal/op"
)

// Replace has a gate be held to another key than that of the head that is
// remembered: for an operator who saw something else first that claimed the
// gate's id, and who read the right key on the gate's host. What is remembered
// is then the largest head with that key that was refused; the false one takes
// its place among what contradicts. Both are returned. Errors: UnknownTarget
// where nothing is remembered, or no head with that key was refused; Conflict
// where it is the remembered key already; *NotKept; those of Remembered and of
// waiting for the gate's file.
func (d Dir) Replace(ctx context.Context, gate op.GateID, key string) (was, is Record, err error) {
	unlock, cannot, err := d.lock(ctx, gate)
	if err != nil {
		return was, is, err
	}
	defer unlock()
	m, err := d.Remembered(gate)
	switch {
	case err != nil:
		return was, is, err
	case m == nil:
		return was, is, op.Refuse(op.UnknownTarget, "nothing is remembered of gate %s", gate).WithHint("opsign witness lists what is")
	case m.Head.Key == key:
		return was, is, op.Refuse(op.Conflict, "gate %s is held to that key already", gate)
	case cannot != nil:
		return was, is, &NotKept{cannot}
	}
	was = m.Head
	at := m.largest(key)
	if at < 0 {
		return was, is, op.Refuse(op.UnknownTarget, "gate %s was never shown with that key", gate).
			WithHint("connect to it first (opsign list): its head is refused, and kept. The key is what gated audit head prints on the gate's host")
	}
	is = m.Contradictions[at]
	is.Why, is.Against = "", nil
	old := was
	old.Why, old.Against = OtherKey, &is.Signed
	m.Head, m.Contradictions[at] = is, old
	if err := d.write(gate, *m); err != nil {
		return was, is, &NotKept{err}
	}
	return was, is, nil
}

// largest returns which contradiction has the most entries of those signed with
// a key: a gate that goes on from the most is held to all that it showed. -1 if
// there is none.
func (m Memory) largest(key string) int {
	at, most := -1, int64(-1)
	for i, r := range m.Contradictions {
		if size := r.Head().Size; r.Key == key && size > most {
			at, most = i, size
		}
	}
	return at
}
