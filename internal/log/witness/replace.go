package witness

import (
	"context"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Replace changes the key of a gate's stored head. An operator uses it if the first
// head was false, after reading the right key on the gate's host. The new stored
// head is the largest refused head with that key. The false one becomes a
// contradiction. Replace returns both. If no head is stored, or no head with that
// key was refused, it is UnknownTarget. If the stored head has that key already, it
// is Conflict. Other errors: *NotKept, those of Remembered and of waiting for the
// gate's file.
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
		return was, is, refusal.New(refusal.UnknownTarget, "nothing is remembered of gate %s", gate).
			WithHint("opsign witness lists what is")
	case m.Head.Key == key:
		return was, is, refusal.New(refusal.Conflict, "gate %s is held to that key already", gate)
	case cannot != nil:
		return was, is, &NotKept{cannot}
	}
	was = m.Head
	at := m.largest(key)
	if at < 0 {
		return was, is, refusal.New(refusal.UnknownTarget, "gate %s was never shown with that key", gate).
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

// largest returns the contradiction with the most entries among those that a key
// signed, or -1. From the largest one, the gate must account for everything that it
// showed.
func (m Memory) largest(key string) int {
	at, most := -1, int64(-1)
	for i, r := range m.Contradictions {
		if size := r.Head().Size; r.Key == key && size > most {
			at, most = i, size
		}
	}
	return at
}
