package life

import (
	"context"
	"errors"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
)

// TrustVersion is one version of the list of signers.
type TrustVersion struct {
	Epoch  int64
	Digest string // SHA-256 of Text, lower-case hex
	How    string // what made it: init, a step, an adoption
	At     time.Time
	Text   []byte

	// Listed are its lines; nil if this version of gated cannot read them.
	Listed []authz.Listed
}

// TrustHistory returns every version of the list of signers in a state
// directory, oldest first; at least one. It only reads, and works beside a
// running daemon.
func TrustHistory(ctx context.Context, stateDir string) (out []TrustVersion, err error) {
	o, err := look(ctx, stateDir)
	if err != nil {
		return nil, err
	}
	var all []journal.TrustVersion
	err = o.Store.View(ctx, func(tx *store.Tx) error {
		all, err = journal.Trusts(tx)
		return err
	})
	if err = errors.Join(err, o.Close()); err != nil {
		return nil, err
	}
	for _, v := range all {
		t := TrustVersion{Epoch: v.Epoch, Digest: op.SHA256(v.Text), How: v.How, At: v.At, Text: v.Text}
		if loaded, err := authz.LoadTrust(v.Text); err == nil {
			t.Listed = loaded.Signers()
		}
		out = append(out, t)
	}
	if out == nil {
		return nil, refusal.New(refusal.Unavailable, "the gate in %s has not recorded its signers yet", o.Dir.Path()).
			WithHint("gated serve does so when it starts")
	}
	return out, nil
}
