package reserve

import (
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/audit"
)

// theGate is the requester of ends that no holder asked for.
var theGate = op.Requester{Source: op.SourceGate}

// The bounds of what an entry repeats of a reservation's patterns, and of the names in it.
const (
	briefPatterns = 8
	briefBytes    = 512
	maxNamed      = 32 // of agents that wait
)

// Brief returns the patterns for an entry: the first few and, if there are more, how many there are in all. The entry
// of kind reserved alone has all of them. Otherwise an agent could fill the disk by renewing a reservation with long
// patterns.
func Brief(patterns []string) (few []string, of int) {
	bytes := 0
	for i, p := range patterns {
		if bytes += len(p); i == briefPatterns || bytes > briefBytes {
			return patterns[:i], len(patterns)
		}
	}
	return patterns, 0
}

// entry is the audit log's entry about a reservation.
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

// entryCost is the size in bytes of an entry and its rows, without its patterns and words.
const entryCost = 2 << 10

// spend counts what a claim or a change of it writes, with its patterns if the entry has all of them.
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
