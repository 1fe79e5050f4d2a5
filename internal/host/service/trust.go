package service

import (
	"context"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// Trust returns the list of signers in force, and which of them a revocation refuses.
func (l *Log) Trust(ctx context.Context) (out api.Trust, err error) {
	var v journal.TrustVersion
	err = l.view(ctx, func(tx *store.Tx) (err error) {
		v, err = journal.ReadTrust(tx)
		return err
	})
	if err != nil {
		return out, err
	}
	t := l.gate.Trust()
	if t.Digest() != op.SHA256(v.Text) {
		return out, refusal.New(refusal.Unavailable, "the list of signers changes at this moment").WithHint("ask again")
	}
	out = api.Trust{Epoch: v.Epoch, SHA256: t.Digest(), How: v.How, At: v.At.UTC(), Text: string(v.Text), Signers: []api.Signer{},
		Revoked: []string{}, Blocked: t.Blocked() != nil}
	for _, s := range t.Signers() {
		out.Signers = append(out.Signers, api.Signer{Line: s.Line, Principal: s.Principal, Fingerprint: s.Key, KeyType: s.KeyType,
			Roles: append([]op.Role{}, s.Roles...), Batches: append([]op.Role{}, s.Batches...), CA: s.CA, Passkey: s.Passkey, Software: s.Software,
			ValidAfter: setTime(s.ValidAfter), ValidBefore: setTime(s.ValidBefore)})
		if t.IsRevoked(s.Key) {
			out.Revoked = append(out.Revoked, s.Key)
		}
	}
	return out, nil
}

// setTime returns nil for no time.
func setTime(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}
