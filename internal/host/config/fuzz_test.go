package config_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/host/config"
	"gated/internal/people/policy"
	"gated/internal/test/must"
)

// FuzzParse: gated.yaml is read whole or refused with the place, and what it
// says of policy is never looser than the built-in rules.
func FuzzParse(f *testing.F) {
	full := must.Get(config.Render(config.Initial{Host: "pve1", SingleUser: true, State: "/var/lib/gated"}))(f)
	f.Add(string(full))
	var uncommented strings.Builder
	for line := range strings.Lines(string(full)) {
		uncommented.WriteString(strings.TrimPrefix(line, "# "))
	}
	f.Add(uncommented.String())
	f.Add("host: a\npolicy: {max_validity: 48h}\n")
	f.Add("host: a\npolicy: {open_per_source: 100000}\nlimits: {workers: 0}\n")
	f.Add("host: a\nlocal: {root: /srv/../guests, commands: {web: {argv: [/bin/sh], env: {A: b}}}}\n")
	f.Add("host: a\noperators: [4294967296]\n")
	f.Add("host: a\ncanary: {decisions: 100, days: 14, minimum: 50, floor: 15}\n")
	f.Add("host: &a x\nsocket: *a\n")
	built := policy.Default()
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("gated.yaml", []byte(text))
		if err != nil {
			require.Contains(t, []refusal.Code{refusal.Malformed, refusal.Oversized}, refusal.CodeOf(err), "%v", err)
			require.Contains(t, err.Error(), "gated.yaml")
			return
		}
		require.NotEmpty(t, c.Host)
		for _, path := range []string{c.Socket, c.Local.Root, c.Local.Cgroup, c.Desired.Dir, c.RevocationFile} {
			require.True(t, path == "" || filepath.IsAbs(path) && filepath.Clean(path) == path, "%q", path)
		}
		require.True(t, c.Workers >= 1 && c.Workers <= 256)
		require.True(t, c.Desired.Interval >= time.Second && c.Local.TrashKeep >= time.Second && c.Local.StopGrace >= time.Second)
		require.NoError(t, c.Policy.Validate())
		require.LessOrEqual(t, c.Policy.MaxValidity, built.MaxValidity)
		require.LessOrEqual(t, c.Policy.OpenPerSource, built.OpenPerSource)
		require.LessOrEqual(t, c.Policy.RejectHolds, policy.MaxRejectHolds)
		require.LessOrEqual(t, c.Policy.ScratchMaxAge, built.ScratchMaxAge)
		for _, cmd := range c.Local.Commands {
			require.True(t, len(cmd.Argv) > 0 && filepath.IsAbs(cmd.Argv[0]), "%q", cmd.Argv)
		}
		require.Equal(t, c, must.Get(config.Parse("gated.yaml", []byte(text)))(t))
	})
}
