package op_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
)

var configured = op.Observed{Present: true, Protected: true, Labels: map[string]string{"legal-hold": "yes", "tier": "prod", "same": "s"},
	Spec:  op.Params{"memory": int64(512), "command": "a", "labels": map[string]any{"legal-hold": "yes", "tier": "prod", "same": "s"}, "protected": true},
	Disks: []op.Disk{{Name: "vda", Size: 10 << 30}, {Name: "vdb", Size: 1<<20 + 1}, {Name: "vdc"}},
	Facts: []op.Fact{{Name: "files", Text: "3"}}}

func TestChanged(t *testing.T) {
	files := op.Fact{Name: "files", Text: "3"}
	require.Equal(t, []op.Fact{
		{Name: "changes protection", Text: "from on to off"},
		{Name: "changes label legal-hold", Text: `from "yes" to none`},
		{Name: "changes label new", Text: `from none to ""`},
		{Name: "changes label tier", Text: `from "prod" to "none"`},
		{Name: "changes command", Text: `from "a" to none`},
		{Name: "changes memory", Text: "from 512 to 1024 MiB"},
		{Name: "changes cpus", Text: "from no limit to 2 CPUs"},
		files,
	}, configured.Changed("guest.set-config", op.Params{"protected": false, "command": "", "memory": int64(1024), "cpus": int64(2),
		"labels": map[string]any{"tier": "none", "same": "s", "new": ""}}))
	require.Equal(t, []op.Fact{files}, configured.Changed("guest.set-config", op.Params{"memory": int64(512), "command": "a", "protected": true}),
		"what stays is no change")
	for disk, from := range map[string]string{"vda": "10240", "vdb": "1 MiB and 1 bytes", "vdc": "an unknown size", "vdd": "an unknown size"} {
		require.Equal(t, op.Fact{Name: "changes disk " + disk, Text: "from " + from + " to 5120 MiB"},
			configured.Changed("guest.disk-resize", op.Params{"disk": disk, "size": int64(5120)})[0])
	}
	for _, name := range []string{"", "guest.destroy", "guest.create", "no.such"} {
		require.Equal(t, []op.Fact{files}, configured.Changed(name, nil))
	}
	require.Empty(t, op.Observed{}.Changed("guest.set-config", op.Params{"memory": int64(1)}), "there is nothing yet")
	require.True(t, op.Fact{Name: "changes memory"}.IsChange())
	require.False(t, files.IsChange())
}

// TestEachLabelHasItsChange: each removed, changed or added label has one fact with
// both values. No two ways to change labels look the same.
func TestEachLabelHasItsChange(t *testing.T) {
	value := rapid.SampledFrom([]string{"", "x", "none", `x" to "y`, "\u05d0"})
	labels := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value, 0, 3)
	show := func(old, wished map[string]string) string {
		p := op.Params{"labels": map[string]any{}}
		for k, v := range wished {
			p["labels"].(map[string]any)[k] = v
		}
		return fmt.Sprint(op.Observed{Present: true, Labels: old}.Changed("guest.set-config", p))
	}
	rapid.Check(t, func(t *rapid.T) {
		old, wished, other := labels.Draw(t, "old"), labels.Draw(t, "wished"), labels.Draw(t, "other")
		text := show(old, wished)
		for k, v := range old {
			is, has := wished[k]
			require.Equal(t, !has || is != v, strings.Contains(text, "changes label "+k+" "), text)
		}
		if fmt.Sprint(wished) != fmt.Sprint(other) || len(wished) != len(other) {
			require.NotEqual(t, text, show(old, other))
		}
	})
}
