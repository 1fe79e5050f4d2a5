package pvetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A linked clone's volume names its base. Proxmox VE destroys no base volume, whatever asks for it.
func TestALinkedClone(t *testing.T) {
	for storage, want := range map[string][2]string{
		"zfs":       {"zfs:base-100-disk-0", "zfs:base-100-disk-0/vm-101-disk-0"},
		"dir":       {"dir:100/base-100-disk-0.raw", "dir:100/base-100-disk-0.raw/101/vm-101-disk-0.raw"},
		"local-lvm": {"local-lvm:base-100-disk-0", "local-lvm:vm-101-disk-0"},
	} {
		t.Run(storage, func(t *testing.T) {
			c := New(t)
			c.AddStorage(Storage{Name: "zfs", Type: "zfspool", Content: "images,rootdir"})
			c.Make(Spec{Name: "base", Disks: map[string]string{"scsi0": storage + ":1", "scsi1": storage + ":1"}, Data: map[string][]byte{"scsi0": []byte("of the base")}})
			require.Equal(t, 101, c.LinkedClone(100, "clone"))
			require.Equal(t, want[0], volumeID(c.Guest(100).Config["scsi0"]))
			require.Equal(t, want[1], volumeID(c.Guest(101).Config["scsi0"]))
			require.Equal(t, "clone", c.Guest(101).Name)
			require.Empty(t, c.Guest(101).Config["template"])
			data, there := c.Data(want[1])
			require.True(t, there)
			require.Equal(t, "of the base", string(data))
			require.Equal(t, 102, c.LinkedClone(100, "second"))
			ends(t, c, "you can't start a vm if it's a template", "POST", vm+"/status/start")
			if storage == "local-lvm" {
				c.SetProtection(100, false)
				does(t, c, "DELETE", vm)
				_, there := c.Data(want[1])
				require.True(t, there, "it needs no base")
				return
			}
			refuses(t, c, 500, "base volume", "DELETE", vm)
			c.Set(100, map[string]string{"template": ""})
			does(t, c, "PUT", vm+"/config", "delete=scsi0")
			refuses(t, c, 500, "is still in use by linked clones", "PUT", vm+"/config", "delete=unused0")
			does(t, c, "DELETE", vm)
			_, there = c.Data(want[0])
			require.True(t, there, "the guest is gone, and the volume stays")
			ends(t, c, "is still in use by linked clones", "DELETE", "/nodes/pve1/storage/"+storage+"/content/"+want[0])
		})
	}
}

// The API makes templates and linked clones alike.
func TestALinkedCloneByTheAPI(t *testing.T) {
	c := New(t)
	c.Make(Spec{Disks: map[string]string{"scsi0": "dir:1"}})
	refuses(t, c, 500, "Linked clone feature", "POST", vm+"/clone", "newid=200", "full=0")
	does(t, c, "POST", vm+"/template")
	does(t, c, "POST", vm+"/clone", "newid=200")
	require.Equal(t, "dir:100/base-100-disk-0.raw/200/vm-200-disk-0.raw", volumeID(c.Guest(200).Config["scsi0"]))
	does(t, c, "POST", vm+"/clone", "newid=201", "full=1")
	require.Equal(t, "dir:201/vm-201-disk-0.raw", volumeID(c.Guest(201).Config["scsi0"]))
}
