package reconcile

import (
	"time"

	"gated/internal/desired"
	"gated/internal/op"
)

// stop is a wish that ended in a way that trying again would not change. It is
// not asked for again until the wish is another or the target looks different.
type stop struct {
	wish, ask   string
	incarnation op.Incarnation
	fingerprint op.Fingerprint
	op          string
	code        op.Code
	detail      string
}

// wishKey identifies everything that is wished of a guest.
func wishKey(g *desired.Guest) string { return g.State + " " + string(g.Fields.Canonical()) }

// askKey identifies a step that is asked for.
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

// sameFingerprint compares with what was seen when the step was planned. What
// does not exist has no state that could differ, whatever digest the gate or
// the driver gives to nothing.
func sameFingerprint(f op.Fingerprint, o op.Observed) bool { return !o.Present || f == o.Fingerprint }

// stopAt remembers that an ask ended, in the place of what it remembered of the
// same ask.
func (m *target) stopAt(s stop) {
	for i := range m.stopped {
		if m.stopped[i].ask == s.ask {
			m.stopped[i] = s
			return
		}
	}
	m.stopped = append(m.stopped, s)
}

// converged forgets what stood in the way of a target that is as wished for.
// The back-off stays for a while: a guest whose process ends at once looks
// converged right after each start.
func (m *target) converged(now time.Time) {
	m.stopped = nil
	if m.retry != nil && now.Sub(m.retry.until) > calm {
		m.retry = nil
	}
}
