// Package metrics counts what the gate decides, and writes it for Prometheus. No label has a word of a caller or the
// name of a target, agent or person: each value is of a closed set, so a scrape is as long after a year as on the first
// day, and tells a monitor nothing that it should not know.
package metrics

import (
	"slices"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// other stands for each value of a label that is in no closed set.
const other = "other"

// kinds are the entries that count as decisions.
var kinds = []audit.Kind{audit.Planned, audit.Requested, audit.Joined, audit.Reissued, audit.Signed, audit.Approved, audit.Rejected,
	audit.Withdrawn, audit.Cancelled, audit.Superseded, audit.Expired, audit.Refused}

// outcomes are the entries that end a step, or a try of it.
var outcomes = []audit.Kind{audit.Succeeded, audit.Failed, audit.Interrupted, audit.Retried}

// Metrics counts since the start of the daemon. It is safe for concurrent use.
type Metrics struct {
	codes map[refusal.Code]bool // the codes that a label may have

	mu        sync.Mutex
	decisions map[decision]int64
	steps     map[audit.Kind]int64
	approval  *spread // seconds
	commit    *spread // seconds
	proof     time.Time
}

// decision is what is counted in one line.
type decision struct {
	kind audit.Kind
	code refusal.Code
}

// New returns metrics that know these codes.
func New(codes []refusal.Code) *Metrics {
	m := &Metrics{codes: map[refusal.Code]bool{"": true}, decisions: map[decision]int64{}, steps: map[audit.Kind]int64{},
		approval: newSpread(10, 30, 60, 300, 900, 3600, 4*3600, 24*3600),
		commit:   newSpread(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5)}
	for _, c := range codes {
		m.codes[c] = true
	}
	for _, k := range kinds {
		m.decisions[decision{kind: k}] = 0 // rates need a first value
	}
	for _, k := range outcomes {
		m.steps[k] = 0
	}
	return m
}

// Entry counts an entry of the audit log that is on disk. tx reads the journal.
func (m *Metrics) Entry(tx *store.Tx, e audit.Entry) {
	waited := time.Duration(-1)
	if e.Kind == audit.Approved {
		waited = waitedFor(tx, e)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(kinds, e.Kind) {
		code := e.Code
		if !m.codes[code] {
			code = other
		}
		m.decisions[decision{e.Kind, code}] += int64(max(e.Count, 1))
	}
	if slices.Contains(outcomes, e.Kind) {
		m.steps[e.Kind]++
	}
	if waited >= 0 {
		m.approval.add(waited.Seconds())
	}
}

// waitedFor returns how long an approved request waited, -1 if that is not known.
func waitedFor(tx *store.Tx, e audit.Entry) time.Duration {
	id, err := op.ParseStepID(e.Step)
	if err != nil {
		return -1
	}
	at, err := journal.RequestedAt(tx, id)
	if err != nil || at.IsZero() {
		return -1
	}
	return max(e.Time.Sub(at), 0)
}

// Committed counts a COMMIT by how long it took.
func (m *Metrics) Committed(took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commit.add(took.Seconds())
}

// Proved remembers that a caller was given a proof that the log goes on from what the caller knew.
func (m *Metrics) Proved(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.proof = at
}
