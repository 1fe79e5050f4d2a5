package authz

import (
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// A batch is signed in the place of a payload. The stages are those of a payload, with
// one more: the payload has to be a leaf of the batch. The functions here are all that
// verification knows of batches; nothing here makes a signature.

// use is what a signature is for: a role, and whether it is over a batch.
type use struct {
	role  op.Role
	batch bool
}

// namespace returns the SSHSIG namespace of the use.
func (u use) namespace() string {
	if u.batch {
		return u.role.BatchNamespace()
	}
	return u.role.Namespace()
}

// useOf returns the use that a namespace names. ok is false if it names none.
func useOf(namespace string, batch bool) (use, bool) {
	role, ok := op.RoleOfNamespace(namespace)
	if batch {
		role, ok = op.RoleOfBatchNamespace(namespace)
	}
	return use{role, batch}, ok
}

// statement is the bytes that the signatures of an envelope are over, and the batch if
// they are one.
type statement struct {
	signed []byte
	batch  *op.Batch
}

// stated reads what an envelope's signatures are over: its payload, or its batch. It
// belongs to the first stage.
func stated(e Envelope) (statement, error) {
	if e.Batch == nil {
		return statement{signed: e.Payload}, nil
	}
	b, err := op.DecodeBatch(e.Batch.Batch)
	switch {
	case err != nil:
		return statement{}, err
	case e.Batch.Index < 0 || e.Batch.Index >= b.Count:
		return statement{}, refusal.New(refusal.Malformed, "the index %d is not one of a batch of %d", e.Batch.Index, b.Count)
	case len(e.Batch.Path) > op.MaxBatchPath:
		return statement{}, refusal.New(refusal.Oversized, "the path has %d hashes, more than %d", len(e.Batch.Path), op.MaxBatchPath)
	}
	return statement{e.Batch.Batch, &b}, nil
}

// checkInclusion is the stage after crypto: the payload is a leaf of the signed batch.
func (s statement) checkInclusion(e Envelope) error {
	if s.batch == nil {
		return nil
	}
	return Included(*s.batch, *e.Batch, e.Payload)
}

// checkTime is the sixth stage for the batch itself, before that of the payload.
func (s statement) checkTime(v Verifier, now time.Time) error {
	if s.batch == nil {
		return nil
	}
	v.MaxValidity = min(v.MaxValidity, op.MaxBatchValidity)
	return v.checkTime("the batch", claims{issued: s.batch.IssuedAt, expires: s.batch.ExpiresAt}, now)
}
