package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/op"
)

func TestAsked(t *testing.T) {
	require.Equal(t, "guest/web-1", Asked("guest/web-1", nil))
	require.Equal(t, "guest/web-1", Asked("guest/web-1", op.Params{}))
	require.Equal(t, `command/drop-db {"database":"shop","mode":"soft"}`,
		Asked("command/drop-db", op.Params{"mode": "soft", "database": "shop"}))
	require.Equal(t, `command/x {"a":"`+strings.Repeat("é", 54)+"...", Asked("command/x", op.Params{"a": strings.Repeat("é", 90)}))
	for _, odd := range []string{"a  b", "x\u202ey", "\u3164", "e\u0301\u0301\u0301"} {
		shown := Asked("command/x", op.Params{"a": odd})
		require.NotContains(t, shown, odd)
		require.Equal(t, shown, Inline(shown), "it can stand in a row")
	}
}
