package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// What was tried was decided: no hint says to decide it, or that it was not.
func TestWhyEnded(t *testing.T) {
	for _, code := range []refusal.Code{refusal.Unavailable, refusal.Conflict, refusal.StaleTarget, refusal.Internal} {
		e := &api.Error{Code: code, Detail: "it was cut off"}
		require.Equal(t, string(code)+": it was cut off\n  hint: it was begun, and may have done all, a part or nothing of it: "+
			"look at what it did (gated jobs j8), then ask again if it is still wanted\n", WhyEnded(op.StateInterrupted, "j8", e))
		require.Equal(t, string(code)+": it was cut off\n  hint: it was tried, and this is how it ended; gated jobs j8 shows "+
			"what it printed, if anything: mend the cause, then ask again if it is still wanted\n", WhyEnded(op.StateFailed, "j8", e))
		if code != refusal.Conflict {
			require.Equal(t, Why("", e.Err()), WhyEnded(op.StateRefused, "j8", e), "what was refused was not tried")
		}
	}
	e := &api.Error{Code: refusal.Conflict, Detail: "there is a mount in it: unmount it first"}
	require.Equal(t, "conflict: there is a mount in it: unmount it first\n  hint: it could not be done as the target was, and nothing was changed: "+
		"clear what is named above, then ask again if it is still wanted\n", WhyEnded(op.StateRefused, "j8", e), "it is as the operator saw it")
	require.Empty(t, WhyEnded(op.StateFailed, "j8", nil))
}
