package op

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// TestForesee: a look keeps what only a change of the target or of the request removes.
func TestForesee(t *testing.T) {
	for _, code := range []refusal.Code{refusal.Conflict, refusal.BadParams, refusal.TooComplex, refusal.NotAllowed} {
		var o Observed
		o.Foresee(refusal.New(code, "it has %d snapshots", 2).WithHint("delete them"))
		require.Equal(t, Observed{Cannot: "it has 2 snapshots", Clear: "delete them", CannotCode: code}, o)
	}
	for _, err := range []error{nil, errors.New("no answer"), refusal.New(refusal.Unavailable, "locked"), refusal.New(refusal.UnknownTarget, "gone")} {
		var o Observed
		o.Foresee(err)
		require.Equal(t, Observed{}, o, err)
	}
}

// TestUnfit: what is wrong with the parameters themselves is told from what the target's state is about.
func TestUnfit(t *testing.T) {
	var o Observed
	require.False(t, o.Unfit(nil))
	require.False(t, o.Unfit(refusal.New(refusal.Unavailable, "locked")))
	require.Equal(t, Observed{}, o)
	require.True(t, o.Unfit(refusal.New(refusal.BadParams, "no such name")))
	require.Equal(t, Observed{Cannot: "no such name", CannotCode: refusal.BadParams, Never: true}, o)
}
