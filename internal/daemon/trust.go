package daemon

import (
	"context"
	"errors"
	"time"

	"gated/internal/authz"
	"gated/internal/driver/trust"
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/store"
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
	err = o.store.View(ctx, func(tx *store.Tx) error {
		all, err = journal.Trusts(tx)
		return err
	})
	if err = errors.Join(err, o.close()); err != nil {
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
		return nil, op.Refuse(op.Unavailable, "the gate in %s has not recorded its signers yet", o.dir.Path()).
			WithHint("gated serve does so when it starts")
	}
	return out, nil
}

// Describe says of a line what people have to know, without its key.
func Describe(l authz.Listed) string { return trust.Describe(l) }

// NewSigner is a line for a rotation to add.
type NewSigner struct {
	Line string // of allowed_signers, without an end of line
	Key  string // SHA256 fingerprint
	Role op.Role
	Path string // of the public key
}

// SignerOf returns the line that lists a public key for a role.
func SignerOf(k KeyArg, role op.Role) (NewSigner, error) {
	line, listed, err := checkedLine(k, role)
	if err != nil {
		return NewSigner{}, err
	}
	return NewSigner{Line: line[:len(line)-1], Key: listed.Key, Role: role, Path: k.Path}, nil
}
