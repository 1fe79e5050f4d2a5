// Package question has a request as a person decides on it: fetched together with the bytes to sign, in words, and
// compared with a second look.
package question

import (
	"context"
	"strings"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Question is a request together with what its payload's bytes say. What is bound by a signature is only ever taken from
// Payload.
type Question struct {
	Request api.Request
	Bytes   []byte     // what an approval signs
	Payload op.Payload // decoded once, from Bytes
	// Moving says that the operator was told that counts, sizes and times go on changing: other ones are no change.
	Moving bool
}

// looks is how often a request and its payload are asked for that do not go
// together: the gate may issue the request anew between the two answers.
const looks = 2

// Fetch asks a gate for a request and decodes the bytes that an approval of it signs. status is what the gate said of
// itself, after the caller found that it is the gate that it should be. Fetch refuses, as TargetMismatch, bytes that are
// for another gate and, as BindingMismatch, a request that is not the one that was asked for, or whose bytes are
// another's: its state, its facts and who is needed would be shown beside what they have nothing to do with. In the place
// of a request's id it refuses a job's, as Malformed, and names the requests of that job.
func Fetch(ctx context.Context, cl *client.Client, status api.Status, id string) (q Question, err error) {
	if _, err := op.ParseJobID(id); err == nil {
		return Question{}, jobGiven(ctx, cl, id)
	}
	for range looks {
		if q, err = once(ctx, cl, id); err != nil {
			return Question{}, err
		}
		if q.Payload.Gate != status.Gate || q.Payload.Host != status.Host {
			return Question{}, notThisGate(q.Payload, status)
		}
		if err = q.together(id); err == nil {
			return q, nil
		}
	}
	return Question{}, err
}

// jobGiven refuses a job's id in the place of a request's, and says which requests
// the job has.
func jobGiven(ctx context.Context, cl *client.Client, id string) error {
	j, err := cl.Job(ctx, id)
	if err != nil {
		return err
	}
	var has []string
	for _, s := range j.Steps {
		if s.Request != nil {
			has = append(has, *s.Request+" ("+string(s.State)+")")
		}
	}
	refused := refusal.New(refusal.Malformed, "%s is a job, and operators decide on its requests", id)
	if len(has) == 0 {
		return refused.WithHint("it has none, as none of its steps needs a signature: gated jobs %s", id)
	}
	return refused.WithHint("name one of its requests: %s", strings.Join(has, ", "))
}

func once(ctx context.Context, cl *client.Client, id string) (q Question, err error) {
	if q.Request, err = cl.Request(ctx, id); err != nil {
		return q, err
	}
	if q.Bytes, err = cl.Payload(ctx, id); err != nil {
		return q, err
	}
	q.Payload, err = op.DecodePayload(q.Bytes)
	return q, err
}

// together refuses, as BindingMismatch, a request and bytes that differ in
// anything that both of them say.
func (q Question) together(id string) error {
	r, p := q.Request, q.Payload
	// What was done to a target changes what its step says of it; nothing is
	// signed then.
	undone := r.State == op.StatePending || r.State == op.StateAuthorized
	for _, m := range []struct {
		name string
		same bool
	}{
		{"id", r.ID == id},
		{"op", r.Op == p.Op},
		{"target", r.Target == p.Target.String()},
		{"params", r.Params.Equal(p.Params)},
		{"host", r.Host == p.Host},
		{"gate", r.Gate == p.Gate},
		{"reason", r.Reason == p.Reason},
		{"incarnation", !undone || r.Incarnation == p.Incarnation},
		{"state", !undone || r.StateFingerprint == p.State},
		{"digest", r.PayloadSHA256 == op.SHA256(q.Bytes)},
	} {
		if !m.same {
			return notTogether(id, m.name)
		}
	}
	return nil
}

func notThisGate(p op.Payload, s api.Status) error {
	return refusal.New(refusal.TargetMismatch, "the payload is for gate %s on %q, but gate %q on %q answers", p.Gate,
		p.Host, s.Gate, s.Host).WithHint("do not sign it")
}

func notTogether(id, what string) error {
	return refusal.New(refusal.BindingMismatch,
		"the gate's answer for %s and the bytes to sign differ in %s: nothing was signed", id, what).
		WithHint("try again; if it stays, sign nothing of this gate, and tell its administrator")
}
