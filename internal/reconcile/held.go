package reconcile

import (
	"errors"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// maxReason is how many bytes are kept of the reason why a step waits.
const maxReason = 512

// held says why a step of a target did not run in its turn, and when it is tried again. One step of a target has its
// turn at a time, so one held is enough.
type held struct {
	step op.StepID
	why  string
	next time.Time
}

// heldBack remembers why and when a step is tried again. The caller holds r.mu.
func (m *target) heldBack(id op.StepID, err error, next time.Time) {
	why := err.Error()
	var r *refusal.Refusal
	if errors.As(err, &r) {
		why = r.Detail
		if r.Hint != "" {
			why += "; " + r.Hint
		}
	}
	if len(why) > maxReason {
		why = why[:maxReason] + "…"
	}
	m.held = &held{step: id, why: op.Shown(why), next: next}
}

// HeldBack says why a step that may run does not, and when it is tried again. It returns "" if this process knows no
// reason: after a restart, it knows none before the first try.
func (r *Reconciler) HeldBack(s op.Step) (why string, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.targets[s.Target]
	if m == nil || m.held == nil || m.held.step != s.ID {
		return "", time.Time{}
	}
	return m.held.why, m.held.next
}
