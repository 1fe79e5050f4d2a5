package reconcile

import (
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/desired"
)

// stop is a wish that ended in a way that another try would not change. It is not asked for again until the wish or the
// target changes.
type stop struct {
	wish, ask   string
	incarnation op.Incarnation
	fingerprint op.Fingerprint
	op          string
	code        refusal.Code
	detail      string
}

// wishKey identifies all that a document wishes of a guest.
func wishKey(g *desired.Guest) string { return g.State + " " + string(g.Fields.Canonical()) }

// askKey identifies a step to ask for.
func askKey(a op.Ask) string { return a.Op + " " + string(a.Params.Canonical()) }

func (m *target) isStopped(g *desired.Guest, a op.Ask, o op.Observed) bool {
	for i := range m.stopped {
		s := &m.stopped[i]
		if s.incarnation == o.Incarnation && sameFingerprint(s.fingerprint, o) && s.ask == askKey(a) && s.wish == wishKey(g) {
			return true
		}
	}
	return false
}

// sameFingerprint compares with what was seen when the step was planned. An absent target always matches: it has no
// state that could differ, whatever digest the gate or driver gives to nothing.
func sameFingerprint(f op.Fingerprint, o op.Observed) bool { return !o.Present || f == o.Fingerprint }

// stopAt remembers that an ask ended. It replaces what it remembered of the same ask.
func (m *target) stopAt(s stop) {
	for i := range m.stopped {
		if m.stopped[i].ask == s.ask {
			m.stopped[i] = s
			return
		}
	}
	m.stopped = append(m.stopped, s)
}

// converged forgets the stops of a target that is as wished. The back-off stays for a while, because a guest whose
// process ends at once looks converged right after each start.
func (m *target) converged(now time.Time) {
	m.stopped = nil
	if m.retry != nil && now.Sub(m.retry.until) > calm {
		m.retry = nil
	}
}
