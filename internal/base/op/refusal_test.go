package op_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// requireRefusal asserts that err is a refusal of exactly that code, with a
// sentence for people.
func requireRefusal(t require.TestingT, err error, code op.Code, what ...any) *op.Refusal {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	var r *op.Refusal
	require.ErrorAs(t, err, &r, what...)
	require.Equal(t, code, r.Code, "%v: %s", what, r.Detail)
	require.NotEmpty(t, r.Detail, what...)
	return r
}

func TestRefusalIsFoundByItsCodeAnywhereInAChain(t *testing.T) {
	err := fmt.Errorf("approve j1.1: %w", op.Refuse(op.Replayed, "the nonce was spent"))
	require.ErrorIs(t, err, op.Replayed)
	require.NotErrorIs(t, err, op.Expired)
	require.Equal(t, op.Replayed, op.CodeOf(err))
	require.Equal(t, "approve j1.1: replayed: the nonce was spent", err.Error())
}

func TestRefusalCarriesStageHintAndRequest(t *testing.T) {
	id := op.RequestID{Job: 12, Index: 1}
	r := op.Refuse(op.Replayed, "the nonce of %s was spent", id).At(op.StageNonce).
		WithHint("opsign show %s", id).About(id, op.StateSucceeded)
	require.Equal(t, op.StageNonce, r.Stage)
	require.Equal(t, "the nonce of j12.1 was spent", r.Detail)
	require.Equal(t, "opsign show j12.1", r.Hint)
	require.Equal(t, id, *r.Request)
	require.Equal(t, op.StateSucceeded, r.State)
}

func TestAsRefusalHidesWhatWasNotMeantForPeople(t *testing.T) {
	require.Nil(t, op.AsRefusal(nil))
	require.Equal(t, op.Code(""), op.CodeOf(nil))

	secret := errors.New("open the operator's private file")
	r := op.AsRefusal(secret)
	require.Equal(t, op.Internal, r.Code)
	require.NotContains(t, r.Detail, "private")
	require.Equal(t, op.Internal, op.CodeOf(secret))

	bare := op.AsRefusal(fmt.Errorf("open the journal: %w", op.Unavailable))
	require.Equal(t, op.Unavailable, bare.Code)
	require.Equal(t, "open the journal: unavailable", bare.Detail)

	known := op.Refuse(op.Conflict, "the name is taken")
	require.Same(t, known, op.AsRefusal(fmt.Errorf("create: %w", known)))
}

func TestRolesAreNamespacesByTheByte(t *testing.T) {
	for _, r := range op.Roles {
		got, ok := op.RoleOfNamespace(r.Namespace())
		require.True(t, ok)
		require.Equal(t, r, got)
	}
	require.Equal(t, "operational@gated", op.Operational.Namespace())
	// Matrix row S05.
	for _, ns := range []string{"", "git", "file", "operational", "@gated", "operational@gated ", " operational@gated",
		"Operational@gated", "operational@Gated", "operational@gated@gated", "operational@gated\x00"} {
		_, ok := op.RoleOfNamespace(ns)
		require.False(t, ok, "%q", ns)
	}
}
