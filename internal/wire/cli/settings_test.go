package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// Settings are shown as -p takes them.
func TestSettingsAreAsTheyAreTyped(t *testing.T) {
	require.Empty(t, Settings(nil))
	require.Equal(t, `args=a args="b c" labels.tier=prod labels.zone="" memory=256 name="x=y" protected=true`, Settings(op.Params{
		"memory": int64(256), "protected": true, "command": "", "name": "x=y",
		"labels": map[string]any{"zone": "", "tier": "prod"}, "args": []any{"a", "b c"}}))
}
