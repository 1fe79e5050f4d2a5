package main

import (
	"context"

	"gated/internal/api"
	"gated/internal/client"
	"gated/internal/op"
)

// question is a request together with what its payload's bytes say. What is
// bound by a signature is only ever taken from payload.
type question struct {
	request api.Request
	bytes   []byte
	payload op.Payload // decoded once, from bytes
}

// question asks the daemon for a request and decodes the bytes that an approval
// of it signs. It refuses, as TargetMismatch, bytes that are for another gate
// than the one that answers.
func (t *tool) question(ctx context.Context, cl *client.Client, id string) (question, error) {
	status, err := t.knownGate(ctx, cl)
	if err != nil {
		return question{}, err
	}
	q := question{}
	if q.request, err = cl.Request(ctx, id); err != nil {
		return question{}, err
	}
	if q.bytes, err = cl.Payload(ctx, id); err != nil {
		return question{}, err
	}
	if q.payload, err = op.DecodePayload(q.bytes); err != nil {
		return question{}, err
	}
	if q.payload.Gate != status.Gate || q.payload.Host != status.Host {
		return question{}, notThisGate(q.payload, status)
	}
	return q, nil
}
