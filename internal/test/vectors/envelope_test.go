package vectors

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/test/must"
	"gated/internal/wire/convert"
)

// envelopeCase is an envelope that comes to a gate at a time.
type envelopeCase struct {
	Name     `json:"name"`
	As       string       `json:"as"` // approval or rejection
	Now      time.Time    `json:"now"`
	Gate     gate         `json:"gate"`
	Envelope api.Envelope `json:"envelope"`
	Outcome
}

// gate is what a gate knows.
type gate struct {
	ID             op.GateID `json:"id"`
	Host           string    `json:"host"`
	AllowedSigners string    `json:"allowed_signers"`
	Revoked        *string   `json:"revoked,omitzero"` // the revocation file; absent: there is none
	Roles          []op.Role `json:"roles,omitzero"`   // beside the built-in ones
	MaxValidity    int64     `json:"max_validity"`     // seconds
	Origins        []string  `json:"origins,omitzero"` // of pages that may ask passkeys
	Synced         bool      `json:"synced,omitzero"`  // whether passkeys count that a vault may copy
}

// said is what a gate learns from an envelope.
type said struct {
	Signers []signer `json:"signers,omitzero"`
	Proofs  []signer `json:"proofs,omitzero"` // signatures that prove possession of a key and count for nothing else
}

// signer is who made a signature, and how.
type signer struct {
	Principal string  `json:"principal"`
	Role      op.Role `json:"role"`
	Key       string  `json:"key"`
	CA        string  `json:"ca,omitzero"`
	Serial    *uint64 `json:"serial,omitzero"`
	Flags     *byte   `json:"flags,omitzero"` // of security keys and passkeys, as Counter
	Counter   *uint32 `json:"counter,omitzero"`
	Origin    string  `json:"origin,omitzero"` // of passkeys
}

func (c *envelopeCase) read(t *testing.T) (any, error) {
	t.Helper()
	trust := must.Get(authz.LoadTrust([]byte(c.Gate.AllowedSigners)))(t)
	if c.Gate.Revoked != nil {
		list, err := authz.LoadRevoked([]byte(*c.Gate.Revoked))
		if err != nil {
			list = authz.UnreadableRevoked(err)
		}
		trust = trust.WithRevoked(list)
	}
	v := authz.Verifier{Gate: c.Gate.ID, Host: c.Gate.Host, Trust: trust, Roles: c.Gate.Roles, Skew: time.Minute,
		MaxValidity: time.Duration(c.Gate.MaxValidity) * time.Second, Passkeys: op.Passkeys{Origins: c.Gate.Origins, Synced: c.Gate.Synced}}
	payload, batch, err := convert.Envelope(c.Envelope)
	if err != nil {
		return nil, err
	}
	e := authz.Envelope{Payload: payload, Signatures: c.Envelope.Signatures, Batch: batch}
	if c.As == "rejection" {
		r, err := v.Rejection(e, c.Now)
		return said{Signers: signersOf(r.Signers)}, err
	}
	require.Equal(t, "approval", c.As)
	a, err := v.Approval(e, c.Now)
	return said{Signers: signersOf(a.Signers), Proofs: signersOf(a.Proofs)}, err
}

func signersOf(in []authz.Signer) (out []signer) {
	for _, s := range in {
		o := signer{Principal: s.Principal, Role: s.Role, Key: s.Key, CA: s.CA}
		if s.CA != "" {
			o.Serial = &s.Serial
		}
		if a := s.Attested; a != nil {
			o.Flags, o.Counter, o.Origin = &a.Flags, &a.Counter, a.Origin
		}
		out = append(out, o)
	}
	return out
}
