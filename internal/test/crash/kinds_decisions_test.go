package crash

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

func decisionKinds() []kind {
	return []kind{
		{name: "approve one of two", prepare: twoWait, do: approveFirst, check: firstStands},
		{name: "reject", prepare: waits, do: reject, check: endsAs(op.StateRejected)},
		{name: "cancel", prepare: waits, do: cancel, check: endsAs(op.StateCancelled)},
		{name: "sign before asking", prepare: running, do: signOffline},
		{name: "job that is taken back", prepare: stopped, do: takenBack, check: nothingMade},
		{name: "desired state put", do: putSet, check: wished},
		{name: "desired state withdrawn", prepare: putWaiting, do: putEmpty},
	}
}

// waits makes a guest with a request to destroy it.
func waits(ctx context.Context, b *bench, c *cell) error {
	if err := running(ctx, b, c); err != nil {
		return err
	}
	return b.ask(ctx, c, false, guestAsk("guest.destroy", c, op.Params{}))
}

// twoWait makes two guests and one job that destroys both.
func twoWait(ctx context.Context, b *bench, c *cell) error {
	if err := running(ctx, b, c); err != nil {
		return err
	}
	other := api.Ask{Op: "guest.create", Target: "guest/" + c.name + "b", Params: op.Params{}}
	if err := b.ask(ctx, c, true, other); err != nil {
		return err
	}
	c.done = false
	other.Op = "guest.destroy"
	return b.ask(ctx, c, false, guestAsk("guest.destroy", c, op.Params{}), other)
}

func approveFirst(ctx context.Context, b *bench, c *cell) error {
	err := b.approve(ctx, c.job+".1")
	c.done = err == nil
	return err
}

// firstStands says that an approval that was acknowledged is lost, or that a
// step ran while the other one of its job waits.
func firstStands(ctx context.Context, b *bench, c *cell) []string {
	j, err := b.client().Job(ctx, c.job)
	if err != nil {
		return []string{err.Error()}
	}
	first := j.Steps[0].State
	if c.done && first != op.StateAuthorized || first != op.StateAuthorized && first != op.StatePending {
		return []string{fmt.Sprintf("%s is %s", j.Steps[0].ID, first)}
	}
	return nil
}

func reject(ctx context.Context, b *bench, c *cell) error {
	payload, err := b.client().Payload(ctx, c.job+".1")
	if err = b.answered(err); err != nil {
		return err
	}
	p, err := op.DecodePayload(payload)
	if err != nil {
		return err
	}
	id, err := op.ParseStepID(c.job + ".1")
	if err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	text, err := op.Rejection{Gate: p.Gate, Host: p.Host, Request: id, PayloadSHA256: op.SHA256(payload), Nonce: freshNonce(), IssuedAt: now,
		ExpiresAt: now.Add(5 * time.Minute), Reason: "crash"}.Encode()
	if err != nil {
		return err
	}
	armor, err := b.m().signer.Sign(ctx, op.Operational, text)
	if err != nil {
		return err
	}
	_, err = b.client().Reject(ctx, c.job+".1", api.EnvelopeOf(text, armor))
	err = b.answered(err)
	c.done = err == nil
	return err
}

func freshNonce() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

func cancel(ctx context.Context, b *bench, c *cell) error {
	_, err := b.client().Cancel(ctx, c.job)
	err = b.answered(err)
	c.done = err == nil
	return err
}

// endsAs says that what was acknowledged did not stay, or that a step is in a
// state that it never was asked for.
func endsAs(want op.State) func(context.Context, *bench, *cell) []string {
	return func(ctx context.Context, b *bench, c *cell) []string {
		if state := b.state(ctx, c); state != want && (c.done || state != op.StatePending) {
			return []string{fmt.Sprintf("%s is %s", c.job, state)}
		}
		return nil
	}
}

// signOffline signs a payload that the gate has not seen, and hands it in.
func signOffline(ctx context.Context, b *bench, c *cell) error {
	status, err := b.client().Status(ctx)
	if err = b.answered(err); err != nil {
		return err
	}
	g, err := b.client().Guest(ctx, c.name)
	if err = b.answered(err); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	payload, err := op.Payload{Gate: status.Gate, Host: status.Host, Op: "guest.destroy", Target: op.Target{Kind: "guest", Name: c.name},
		Incarnation: g.Incarnation, State: g.Fingerprint, Params: op.Params{}, Nonce: freshNonce(), IssuedAt: now,
		ExpiresAt: now.Add(10 * time.Minute), Reason: "crash"}.Encode()
	if err != nil {
		return err
	}
	armor, err := b.m().signer.Sign(ctx, op.Operational, payload)
	if err != nil {
		return err
	}
	e := api.EnvelopeOf(payload, armor)
	sent := b.checked.ledger.sending("", e)
	r, err := b.client().SubmitSigned(ctx, e)
	if err = b.answered(err); err != nil {
		return err
	}
	sent.request = r.ID
	b.checked.ledger.accepted(sent)
	j, err := b.settled(ctx, r.Job)
	if err == nil && j.State != op.StateSucceeded {
		return fmt.Errorf("%s is %s", j.ID, j.State)
	}
	return err
}

// takenBack makes a guest in a job whose second step cannot work, so that the
// gate takes the first one back.
func takenBack(ctx context.Context, b *bench, c *cell) error {
	name := "guest/" + c.name + "b"
	j, err := b.client().Submit(ctx, api.Submit{Steps: []api.Ask{{Op: "guest.create", Target: name, Params: op.Params{}},
		{Op: "guest.start", Target: name, Params: op.Params{}}}, Reason: "crash"}, "")
	if err = b.answered(err); err != nil {
		return err
	}
	b.checked.ledger.job(j)
	c.job = j.ID
	_, err = b.settled(ctx, j.ID)
	return err
}

// nothingMade says that what was to be taken back is there, though the job is
// over.
func nothingMade(ctx context.Context, b *bench, c *cell) []string {
	state := b.state(ctx, c)
	if state == "" {
		return nil
	}
	_, err := os.Stat(b.path(c) + "b")
	if err == nil || state.Open() {
		return []string{fmt.Sprintf("%s is %s, and the guest that it made: %v", c.job, state, err)}
	}
	return nil
}

func setOf(c *cell, guests string) []byte {
	return []byte("apiVersion: gated/v1\nhost: pve1\nguests:" + guests + "\n")
}

func (b *bench) put(ctx context.Context, c *cell, doc []byte) error {
	b.checked.ledger.putting(c.name, op.SHA256(doc))
	_, err := b.client().PutSet(ctx, c.name, "", doc)
	if err = b.answered(err); err == nil {
		b.checked.ledger.put(c.name, op.SHA256(doc))
	}
	return err
}

// putSet wishes for a guest that runs, and waits until it does.
func putSet(ctx context.Context, b *bench, c *cell) error {
	if err := b.put(ctx, c, setOf(c, fmt.Sprintf("\n  - {name: %s, state: running, memory: 64MiB, command: sleep}", c.name))); err != nil {
		return err
	}
	c.done = true
	for {
		g, err := b.client().Guest(ctx, c.name)
		if err = b.answered(err); err != nil && !errors.Is(err, refusal.UnknownTarget) {
			return err
		}
		if g.State == "running" {
			return nil
		}
	}
}

// wished says that a set that was acknowledged does not come true.
func wished(ctx context.Context, b *bench, c *cell) []string {
	for c.done {
		g, err := b.client().Guest(ctx, c.name)
		if err != nil && !errors.Is(err, refusal.UnknownTarget) {
			return []string{"what was wished for does not come: " + err.Error()}
		}
		if g.State == "running" {
			return b.settle(ctx)
		}
	}
	return nil
}

// putWaiting has a set wish a guest away, which waits for a signature.
func putWaiting(ctx context.Context, b *bench, c *cell) error {
	if err := running(ctx, b, c); err != nil {
		return err
	}
	if err := b.put(ctx, c, setOf(c, fmt.Sprintf("\n  - {name: %s, state: absent}", c.name))); err != nil {
		return err
	}
	return b.waiting(ctx, c, 1)
}

// waiting waits until so many requests about the cell's guest wait.
func (b *bench) waiting(ctx context.Context, c *cell, want int) error {
	for {
		all, err := b.client().Requests(ctx, op.StatePending)
		if err = b.answered(err); err != nil {
			return err
		}
		n := 0
		for _, r := range all {
			if r.Target == "guest/"+c.name {
				n++
			}
		}
		if n == want {
			return nil
		}
	}
}

// putEmpty takes the wish back, and waits until its request is gone.
func putEmpty(ctx context.Context, b *bench, c *cell) error {
	if err := b.put(ctx, c, setOf(c, " []")); err != nil {
		return err
	}
	return b.waiting(ctx, c, 0)
}
