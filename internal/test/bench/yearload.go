package bench

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
	"gated/internal/test/mint"
)

// turning is how many guests each caller starts and stops.
const turning = 10

// The uids of those who ask.
const (
	maker    = 1000
	remover  = 1001 // a guest that somebody else made is destroyed with a signature alone
	rejected = 2000 // and the 40 after it: a rejection stands for 30 days, and is compared with the asker's later requests
)

// decision is the k-th of a day. Of 100 decisions, 94 start or stop a guest, one makes a guest, one destroys it with a
// signature, one is rejected, one is cancelled, and two are refused.
func (y *year) decision(caller, k int) error {
	switch k % 100 {
	case 0:
		return y.reject(fmt.Sprintf("keep%d", k/100))
	case 1:
		return y.cancel(fmt.Sprintf("wait%d", k/100))
	case 2, 3:
		return y.refuse()
	case 4:
		return y.come(caller)
	case 5:
		return nil // the case before has two decisions
	}
	return y.turn(caller, k)
}

func (y *year) submit(uid uint32, key, name, guest string) (op.Job, error) {
	y.decided.Add(1)
	ask := op.Ask{Op: name, Target: op.Target{Kind: op.KindGuest, Name: guest}, Params: op.Params{}}
	return y.gate.Submit(y.ctx, op.Submission{Requester: op.Requester{Source: op.SourceAPI, UID: uid, PID: 4711}, Steps: []op.Ask{ask},
		Reason: "the nightly round", IdempotencyKey: key})
}

// turn starts or stops a guest. Every fiftieth prints much.
func (y *year) turn(caller, k int) error {
	id, err := y.decide(caller, k)
	if err != nil {
		return err
	}
	lines := 1
	if k%50 == 7 {
		lines = 50
	}
	return y.run(id, lines)
}

// decide has a guest's start or stop decided. Every tenth is sent with a key.
func (y *year) decide(caller, k int) (op.StepID, error) {
	guest := fmt.Sprintf("g%d", caller*turning+k%turning)
	o, err := y.driver.Observe(y.ctx, op.At(op.Target{Kind: op.KindGuest, Name: guest}))
	if err != nil {
		return op.StepID{}, err
	}
	name, key := "guest.start", ""
	if o.Running == op.Running {
		name = "guest.stop"
	}
	if k%10 == 0 {
		key = fmt.Sprintf("year-%d", y.keyed.Add(1))
	}
	j, err := y.submit(maker, key, name, guest)
	if err != nil {
		return op.StepID{}, err
	}
	return j.Steps[0].ID, nil
}

// come makes a guest and destroys it with an operator's signature.
func (y *year) come(int) error {
	guest := fmt.Sprintf("t%d", y.guests.Add(1))
	j, err := y.submit(maker, "", "guest.create", guest)
	if err != nil {
		return err
	}
	if err := y.run(j.Steps[0].ID, 0); err != nil {
		return err
	}
	if j, err = y.submit(remover, "", "guest.destroy", guest); err != nil {
		return err
	}
	r, err := y.gate.Request(y.ctx, j.Steps[0].ID)
	if err != nil {
		return err
	}
	y.signed.Add(1)
	if _, err := y.gate.Approve(y.ctx, caller, r.ID, y.seal(r.Payload)); err != nil {
		return err
	}
	return y.run(r.ID, 0)
}

// seal is an envelope with the operator's signature.
func (y *year) seal(payload []byte) authz.Envelope {
	k := y.keys.plain
	return authz.Envelope{Payload: payload, Signatures: []string{mint.Unsigned(k.names, op.Operational.Namespace()).By(must{}, k.Key, payload).Armored()}}
}

// reject has an operator reject a guest's end.
func (y *year) reject(guest string) error {
	j, err := y.submit(rejected+uint32(y.today%40), "", "guest.destroy", guest)
	if err != nil {
		return err
	}
	r, err := y.gate.Request(y.ctx, j.Steps[0].ID)
	if err != nil {
		return err
	}
	at := y.read().Wall.Truncate(time.Second)
	text, err := op.Rejection{Gate: y.id, Host: host, Request: r.ID, PayloadSHA256: op.SHA256(r.Payload), Nonce: op.NewNonce(at), IssuedAt: at,
		ExpiresAt: at.Add(time.Hour), Reason: "it is still needed"}.Encode()
	if err != nil {
		return err
	}
	y.rejected.Add(1)
	_, err = y.gate.Reject(y.ctx, caller, r.ID, y.seal(text))
	return err
}

func (y *year) cancel(guest string) error {
	j, err := y.submit(remover, "", "guest.destroy", guest)
	if err != nil {
		return err
	}
	y.cancelled.Add(1)
	_, err = y.gate.Cancel(y.ctx, op.Requester{Source: op.SourceAPI, UID: remover, PID: 4711}, j.ID)
	return err
}

// refuse asks for a guest that is not there.
func (y *year) refuse() error {
	_, err := y.submit(maker, "", "guest.start", "nobody")
	var r *refusal.Refusal
	if !errors.As(err, &r) {
		return fmt.Errorf("it should be refused: %w", err)
	}
	y.refused.Add(1)
	return nil
}

// run runs a step, which has to succeed, and records its output.
func (y *year) run(id op.StepID, lines int) error {
	p, err := y.gate.Permit(y.ctx, id)
	if err != nil {
		return err
	}
	if _, err := driver.Run(y.ctx, p, y.driver); err != nil {
		return err
	}
	after, err := y.driver.Observe(y.ctx, op.At(p.Step().Target))
	if err != nil {
		return err
	}
	s, err := y.gate.Record(y.ctx, id, gate.Outcome{After: &after, Output: strings.Repeat("guest agent answered in 12 ms, 3 services are up and 0 failed\n", lines)})
	if err == nil && s.State != op.StateSucceeded {
		err = fmt.Errorf("step %s is %s: %s", id, s.State, s.Detail)
	}
	return err
}
