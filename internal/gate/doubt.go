package gate

import (
	"errors"

	"gated/internal/nonce"
	"gated/internal/op"
)

// ClockRemedy is what helps against a clock that is not believed.
const ClockRemedy = "set the clock right, and the gate goes on by itself; or, if it is right now, stop the daemon and run gated time accept"

// clockDoubted refuses signed work while the clock is not believed.
func clockDoubted(m nonce.Moment) *op.Refusal {
	return op.Refuse(op.Unavailable, "signed work waits: %s", m.Why).At(op.StageTime).WithHint("%s", ClockRemedy)
}

// inDoubt is a refusal of a payload for its times as it is while the clock is not
// believed: who signed it did nothing wrong, and to sign again does not help.
// What had expired by a clock that was believed stays so.
func inDoubt(m nonce.Moment, err error) error {
	var r *op.Refusal
	if m.Trusted || !errors.As(err, &r) || r.Stage != op.StageTime || errors.Is(err, op.ValidityTooLong) {
		return err
	}
	if errors.Is(err, op.Expired) {
		return op.Refuse(op.Expired, "%s, and signed work waits: %s", r.Detail, m.Why).At(op.StageTime).WithHint("%s", ClockRemedy)
	}
	return clockDoubted(m)
}
