package refusal_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

func TestRefusalIsFoundByItsCodeAnywhereInAChain(t *testing.T) {
	err := fmt.Errorf("approve j1.1: %w", refusal.New(refusal.Replayed, "the nonce was spent"))
	require.ErrorIs(t, err, refusal.Replayed)
	require.NotErrorIs(t, err, refusal.Expired)
	require.Equal(t, refusal.Replayed, refusal.CodeOf(err))
	require.Equal(t, "approve j1.1: replayed: the nonce was spent", err.Error())
}

func TestRefusalCarriesStageHintAndRequest(t *testing.T) {
	r := refusal.New(refusal.Replayed, "the nonce of %s was spent", "j12.1").At(refusal.StageNonce).
		WithHint("opsign show %s", "j12.1").About(text("j12.1"), text("succeeded"))
	require.Equal(t, refusal.StageNonce, r.Stage)
	require.Equal(t, "the nonce of j12.1 was spent", r.Detail)
	require.Equal(t, "opsign show j12.1", r.Hint)
	require.Equal(t, "j12.1", r.Request)
	require.Equal(t, "succeeded", r.State)
}

func TestAsRefusalHidesWhatWasNotMeantForPeople(t *testing.T) {
	require.Nil(t, refusal.As(nil))
	require.Equal(t, refusal.Code(""), refusal.CodeOf(nil))

	secret := errors.New("open the operator's private file")
	r := refusal.As(secret)
	require.Equal(t, refusal.Internal, r.Code)
	require.NotContains(t, r.Detail, "private")
	require.Equal(t, refusal.Internal, refusal.CodeOf(secret))

	bare := refusal.As(fmt.Errorf("open the journal: %w", refusal.Unavailable))
	require.Equal(t, refusal.Unavailable, bare.Code)
	require.Equal(t, "open the journal: unavailable", bare.Detail)

	known := refusal.New(refusal.Conflict, "the name is taken")
	require.Same(t, known, refusal.As(fmt.Errorf("create: %w", known)))
}

// text is an id or a state, as package op has them.
type text string

func (t text) String() string { return string(t) }
