package local

import (
	"testing"

	"gated/internal/driver"

	"github.com/stretchr/testify/require"
)

// TestStatusSaysWhichLayersStand: the status of each layer is true. TestEachLayerStands tests
// the layers themselves.
func TestStatusSaysWhichLayersStand(t *testing.T) {
	needLayers(t)
	web := Command{Argv: []string{"/bin/sleep", "1000"}}
	db := Command{Argv: []string{"/bin/sleep", "1000"}, User: "nobody"}
	for _, c := range []struct {
		name     string
		commands map[string]Command
		change   func(*Config)
		layer    string
		stands   bool
		says     string
	}{
		{"no commands", nil, func(c *Config) { c.GuestUIDs = UIDRange{} }, LayerUID, true, "no command can run"},
		{"a range", map[string]Command{"web": web}, func(c *Config) {}, LayerUID, true, "each guest has one of "},
		{"users", map[string]Command{"db": db}, func(c *Config) { c.GuestUIDs = UIDRange{} }, LayerUID, true, "which their guests share: db"},
		{"both", map[string]Command{"web": web, "db": db}, func(c *Config) {}, LayerUID, true, "share: db; each other guest"},
		{"neither", map[string]Command{"web": web, "db": db}, func(c *Config) { c.GuestUIDs, c.SingleUser = UIDRange{}, false }, LayerUID, false, "are refused: web"},
		{"landlock", nil, func(c *Config) {}, LayerLandlock, true, "version "},
		{"an older landlock", nil, func(c *Config) { c.landlock = 2 }, LayerLandlock, true, "version 2"},
		{"no landlock", nil, func(c *Config) { c.without.landlock = true }, LayerLandlock, false, "the kernel has none"},
		{"seccomp", nil, func(c *Config) {}, LayerSeccomp, true, "a filter"},
		{"no seccomp", nil, func(c *Config) { c.without.seccomp = true }, LayerSeccomp, false, "none"},
	} {
		w := newWorld(t, func(cfg *Config) { cfg.Commands = c.commands; c.change(cfg) })
		s := w.d.Status()
		require.Equal(t, []string{LayerUID, LayerLandlock, LayerSeccomp}, []string{s.Layers[0].Name, s.Layers[1].Name, s.Layers[2].Name})
		require.Equal(t, c.stands, s.Stands(c.layer), c.name)
		for _, f := range w.d.Check(t.Context()) {
			if f.What == "guests' "+c.layer {
				require.Contains(t, f.Detail, c.says, c.name)
				require.Equal(t, c.stands, f.State == driver.OK, c.name)
				require.Equal(t, c.stands, f.Hint == "", "doctor says what to do, if there is something")
			}
		}
	}
}
