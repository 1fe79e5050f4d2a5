package gate

import (
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// checkDrills refuses, as OverLimit, a second open drill. A caller with the same drill
// joins the open one.
func checkDrills(tx *store.Tx) error {
	open, err := journal.OpenSteps(tx, op.Drilled)
	if err != nil || len(open) == 0 {
		return err
	}
	return refusal.New(refusal.OverLimit, "the drill %s is open, and one is the most", open[0].ID).
		WithHint("wait for its end, or withdraw it: gated cancel %s", open[0].ID.Job)
}

// unanswered says why a drill ends whose payload is out of time. Its request is not issued
// anew, because a drill tells how long people take.
const unanswered = "too few people signed in time"
