package reconcile

import (
	"errors"
	"time"

	"gated/internal/op"
)

// maxReason is how much is kept of why a step is held back, in bytes.
const maxReason = 512

// held is why a step of a target did not run when it was its turn, and when it is
// tried again. One step of a target has its turn at a time, so one is kept.
type held struct {
	step op.StepID
	why  string
	next time.Time
}

// heldBack remembers why a step is tried again, and when; r.mu is held.
func (m *target) heldBack(id op.StepID, err error, next time.Time) {
	why := err.Error()
	var r *op.Refusal
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

// HeldBack says why a step that may run does not, and when it is tried again; ""
// for one that nothing holds back, as far as this process knows: before its first
// try after a restart nobody knows.
func (r *Reconciler) HeldBack(s op.Step) (why string, next time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.targets[s.Target]
	if m == nil || m.held == nil || m.held.step != s.ID {
		return "", time.Time{}
	}
	return m.held.why, m.held.next
}
