package vectors

import (
	"slices"
	"testing"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
)

// listCase is a file allowed_signers.
type listCase struct {
	Name `json:"name"`
	content
	Outcome
}

// listed is a line of it.
type listed struct {
	Line        int       `json:"line"`
	Principal   string    `json:"principal"` // of an authority, its patterns
	CA          bool      `json:"ca"`
	Key         string    `json:"key"`
	KeyType     string    `json:"key_type"`
	Roles       []op.Role `json:"roles"`   // sorted
	Batches     []op.Role `json:"batches"` // sorted
	ValidAfter  time.Time `json:"valid_after,omitzero"`
	ValidBefore time.Time `json:"valid_before,omitzero"`
}

func (c *listCase) read(t *testing.T) (any, error) {
	t.Helper()
	trust, err := authz.LoadTrust(c.bytes())
	if err != nil {
		return nil, err
	}
	lines := []listed{}
	for _, l := range trust.Signers() {
		lines = append(lines, listed{Line: l.Line, Principal: l.Principal, CA: l.CA, Key: l.Key, KeyType: l.KeyType, Roles: sorted(l.Roles), Batches: sorted(l.Batches),
			ValidAfter: l.ValidAfter, ValidBefore: l.ValidBefore})
	}
	return map[string]any{"lines": lines}, nil
}

func sorted(roles []op.Role) []op.Role {
	return append([]op.Role{}, slices.Sorted(slices.Values(roles))...)
}

// revokedCase is a revocation file.
type revokedCase struct {
	Name `json:"name"`
	content
	Outcome
}

func (c *revokedCase) read(t *testing.T) (any, error) {
	t.Helper()
	list, err := authz.LoadRevoked(c.bytes())
	if err != nil {
		return nil, err
	}
	var none *authz.Trust
	return map[string]any{"keys": append([]string{}, none.WithRevoked(list).RevokedKeys()...)}, nil
}
