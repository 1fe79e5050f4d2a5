package reserve

import (
	"slices"

	"gated/internal/audit"
	"gated/internal/op"
	"gated/internal/store"
)

// theGate is who ends what nobody releases.
var theGate = op.Requester{Source: op.SourceGate}

// The bounds of what an entry repeats of a reservation's patterns, and names.
const (
	briefPatterns = 8
	briefBytes    = 512
	maxNamed      = 32 // of those that wait
)

// Brief returns what entries of the audit log repeat of the patterns that the
// one of kind reserved has all of: the first few, and, if they are not all, how
// many there are. Else who renews what has long patterns would fill the disk.
func Brief(patterns []string) (few []string, of int) {
	bytes := 0
	for i, p := range patterns {
		if bytes += len(p); i == briefPatterns || bytes > briefBytes {
			return patterns[:i], len(patterns)
		}
	}
	return patterns, 0
}

// entry is what the audit log says of a reservation.
func entry(k audit.Kind, by op.Requester, r Reservation, others ...string) audit.Entry {
	e := audit.Entry{Kind: k, By: by.String(), PID: by.PID, Target: r.Scope.Target().String(), Incarnation: r.Scope.Incarnation(),
		Reason: r.Reason, Reservation: r.ID.String(), Patterns: r.Patterns, Mode: string(r.Mode), Holder: r.Holder.String(), Until: r.ExpiresAt}
	if k != audit.Reserved {
		e.Patterns, e.Of = Brief(r.Patterns)
	}
	if r.Holder.Name != "" {
		e.For = append(e.For, r.Holder.Name)
	}
	for _, name := range others {
		if name != "" && !slices.Contains(e.For, name) {
			e.For = append(e.For, name)
		}
	}
	return e
}

// entryCost is what an entry and the rows that it is about take, in bytes, beyond
// the patterns and the words that it has.
const entryCost = 2 << 10

// spend counts what a claim or a change of it writes, with its patterns where the
// entry has all of them.
func (b *Book) spend(tx *store.Tx, by op.Requester, r Reservation, patterns ...string) error {
	if b.cfg.Spend == nil {
		return nil
	}
	n := entryCost + len(r.Reason) + len(r.Scope.Path)
	for _, p := range patterns {
		n += 3 * (len(p) + 32) // in two tables, and in the log
	}
	return b.cfg.Spend(tx, by, int64(n))
}

func (b *Book) append(tx *store.Tx, e audit.Entry) error { return b.cfg.Append(tx, e) }
