package question

import (
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Answered refuses to ask for a signature that no gate would take: the request
// is decided. The codes are those with which the gate would refuse.
func Answered(r api.Request) error {
	code := refusal.Replayed
	switch r.State {
	case op.StatePending:
		return nil
	case op.StateRejected:
		code = refusal.Rejected
	case op.StateCancelled:
		code = refusal.Cancelled
	case op.StateSuperseded:
		code = refusal.Superseded
	case op.StateExpired:
		code = refusal.Expired
	}
	return decided(code, r)
}

func decided(code refusal.Code, r api.Request) error {
	return refusal.New(code, "%s is %s: there is nothing to sign any more", r.ID, r.State).
		WithHint("opsign show %s says what became of it, opsign list what waits now", r.ID)
}

// rejectionValidity is how long a rejection may take to reach the gate.
const rejectionValidity = 15 * time.Minute

// Rejection makes the bytes of a rejection of what was shown. The reason is for the requester; op.Rejection says what it
// may be.
func (q Question) Rejection(reason string, now time.Time) ([]byte, error) {
	id, err := op.ParseStepID(q.Request.ID)
	if err != nil {
		return nil, err
	}
	now = now.UTC().Truncate(time.Second)
	return op.Rejection{Gate: q.Payload.Gate, Host: q.Payload.Host, Request: id, PayloadSHA256: op.SHA256(q.Bytes),
		Nonce: op.NewNonce(now), IssuedAt: now, ExpiresAt: now.Add(rejectionValidity), Reason: reason}.Encode()
}
