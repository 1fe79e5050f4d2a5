package main

import (
	"context"
	"errors"

	"gated/internal/client"
	"gated/internal/op"
	"gated/internal/witness"
)

// witnesses are the heads that are remembered.
func (t *tool) witnesses() witness.Dir { return witness.DirOf(t.Getenv, t.now) }

// witness demands that a gate's audit log goes on from what is remembered of it
// (witness.Dir.Check), and returns what to say of it. A head that cannot be
// remembered is a reason to refuse a gate of another host (NotAllowed), as one
// that cannot be pinned is.
func (t *tool) witness(ctx context.Context, cl *client.Client, of witness.Gate) (*witness.Checked, string, error) {
	d := t.witnesses()
	checked, err := d.Check(ctx, of, gateLog{cl})
	at := cl.Address()
	var unsigned *witness.Unsigned
	var not *witness.NotKept
	switch {
	case errors.As(err, &unsigned):
		return nil, sprint(wordsUnsignedLog, of.ID), nil
	case errors.As(err, &not) && at.Remote():
		return nil, "", cannotRemember(at, not)
	case errors.As(err, &not):
		return &checked, sprint(wordsNotRemembered, op.Shown(string(at)), op.Shown(not.Error())), nil
	case err != nil:
		return nil, "", err
	case checked.First:
		return &checked, sprint(wordsRemembered, of.ID, checked.Head.Size, op.Shown(d.File(of.ID))), nil
	}
	return &checked, "", nil
}

// gateLog asks a gate about its log.
type gateLog struct{ client *client.Client }

// Head implements witness.Log.
func (g gateLog) Head(ctx context.Context) (witness.Shown, error) {
	h, err := g.client.AuditHead(ctx)
	return witness.Shown{Seq: h.Seq, Note: h.Note, Key: h.Key}, err
}

// Consistency implements witness.Log.
func (g gateLog) Consistency(ctx context.Context, old, size int64) ([]string, error) {
	c, err := g.client.Consistency(ctx, old, size)
	return c.Proof, err
}
