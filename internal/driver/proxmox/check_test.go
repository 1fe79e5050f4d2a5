package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/driver"
	"gated/internal/driver/proxmox"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/driver/proxmox/pveworld"
	"gated/internal/test/must"
)

// check returns the bad findings by their subject.
func check(t *testing.T, d *proxmox.Driver) map[string]driver.Finding {
	t.Helper()
	bad := map[string]driver.Finding{}
	for _, f := range d.Check(t.Context()) {
		require.NotEmpty(t, f.Detail, f.What)
		if f.State != driver.OK {
			bad[f.What] = f
		}
	}
	return bad
}

// Check finds each fault, by name, and says what to type.
func TestCheck(t *testing.T) {
	c := pvetest.New(t)
	cfg := pveworld.Config(t, c, "qemu")
	open := func(change func(*proxmox.Config)) *proxmox.Driver {
		t.Helper()
		changed := cfg
		if change != nil {
			change(&changed)
		}
		return must.Get(proxmox.New(changed))(t)
	}
	require.Empty(t, check(t, open(nil)))
	c.Revoke("VM.Snapshot", "Datastore.AllocateSpace")
	bad := check(t, open(nil))
	require.Len(t, bad, 2)
	require.Contains(t, bad["permission VM.Snapshot"].Hint, "pveum role modify Gated --append 1 --privs VM.Snapshot")
	require.Contains(t, bad["permission Datastore.AllocateSpace"].Hint, "/storage/local-lvm")
	c.SetVersion("8.4.1")
	require.Equal(t, driver.Note, check(t, open(nil))["version"].State)
	c.SetVersion("9.1.3")
	for what, change := range map[string]func(*proxmox.Config){
		"storage none":      func(c *proxmox.Config) { c.Storage = "none" },
		"storage local-lvm": func(c *proxmox.Config) { c.BackupStorage = "local-lvm" },
		"node pve7":         func(c *proxmox.Config) { c.Node = "pve7" },
		"template default": func(c *proxmox.Config) {
			c.Templates = map[string]proxmox.Template{"default": {Kind: "qemu", Clone: 4711}}
		},
		"certificate": func(c *proxmox.Config) { c.Fingerprint = "00" + c.Fingerprint[2:] },
		"reachable":   func(c *proxmox.Config) { c.URL = "https://127.0.0.1:1" },
	} {
		bad := check(t, open(change))
		require.Equal(t, driver.Bad, bad[what].State, "%s: %v", what, bad)
		require.NotEmpty(t, bad[what].Hint)
	}
	c.Make(pvetest.Spec{Name: "9-fine"})
	c.Make(pvetest.Spec{VMID: 500, Config: map[string]string{}})
	bad = check(t, open(func(c *proxmox.Config) { c.First, c.Last = 500, 500 }))
	require.Equal(t, driver.Bad, bad["vmids"].State)
	require.Equal(t, driver.Note, bad["names"].State)
}
