package pvetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestADiskIsDetachedAndThenDestroyed(t *testing.T) {
	c := New(t)
	c.Make(Spec{Disks: map[string]string{"scsi0": "local-lvm:4", "scsi1": "dir:2,format=qcow2"},
		Data: map[string][]byte{"scsi1": []byte("precious")}})
	require.Equal(t, "dir:100/vm-100-disk-0.qcow2,size=2G", config(t, c, vm)["scsi1"])

	does(t, c, "PUT", vm+"/config", "delete=scsi1")
	conf := config(t, c, vm)
	require.NotContains(t, conf, "scsi1")
	require.Equal(t, "dir:100/vm-100-disk-0.qcow2", conf["unused0"])
	data, there := c.Data("dir:100/vm-100-disk-0.qcow2")
	require.True(t, there, "detached, and not destroyed")
	require.Equal(t, "precious", string(data))

	c.SetProtection(100, true)
	refuses(t, c, 500, "can't remove unused disk 'dir:100/vm-100-disk-0.qcow2' - protection mode enabled",
		"PUT", vm+"/config", "delete=unused0")
	refuses(t, c, 500, "can't remove drive 'scsi0' - protection mode enabled", "PUT", vm+"/config", "delete=scsi0")
	refuses(t, c, 500, "protection mode enabled", "PUT", vm+"/config", "delete=unused0", "protection=0")
	c.SetProtection(100, false)

	does(t, c, "PUT", vm+"/config", "scsi2=dir:100/vm-100-disk-0.qcow2")
	require.NotContains(t, config(t, c, vm), "unused0", "attached again")
	does(t, c, "PUT", vm+"/unlink", "idlist=scsi2")
	does(t, c, "PUT", vm+"/config", "delete=unused0")
	_, there = c.Data("dir:100/vm-100-disk-0.qcow2")
	require.False(t, there, "destroyed")
	require.NotContains(t, config(t, c, vm), "unused0")
}

func TestForceDestroysADiskAtOnce(t *testing.T) {
	c := New(t)
	c.Make(Spec{})
	does(t, c, "PUT", vm+"/config", "delete=scsi0", "force=1")
	require.Empty(t, c.Volumes(100))
	require.NotContains(t, config(t, c, vm), "unused0")
}

func TestAnotherDiskInTheSamePlaceMakesTheOldOneUnused(t *testing.T) {
	c := New(t)
	c.Make(Spec{})
	does(t, c, "POST", vm+"/config", "scsi0=local-lvm:1", "background_delay=5")
	conf := config(t, c, vm)
	require.Equal(t, "local-lvm:vm-100-disk-1,size=1G", conf["scsi0"])
	require.Equal(t, "local-lvm:vm-100-disk-0", conf["unused0"])
}

func TestResizeOnlyGrows(t *testing.T) {
	c := New(t)
	c.Make(Spec{})
	does(t, c, "PUT", vm+"/resize", "disk=scsi0", "size=+1G")
	does(t, c, "PUT", vm+"/resize", "disk=scsi0", "size=6G")
	require.Equal(t, "local-lvm:vm-100-disk-0,size=6G", config(t, c, vm)["scsi0"])
	require.Equal(t, int64(6<<30), c.Volumes(100)["local-lvm:vm-100-disk-0"].Size)
	refuses(t, c, 500, "shrinking disks is not supported", "PUT", vm+"/resize", "disk=scsi0", "size=5G")
	refuses(t, c, 500, "disk 'scsi5' does not exist", "PUT", vm+"/resize", "disk=scsi5", "size=5G")
	refuses(t, c, 500, "file changed by other user", "PUT", vm+"/resize", "disk=scsi0", "size=7G", "digest=00")
}

func TestMoveLeavesTheOldDiskUnused(t *testing.T) {
	c := New(t)
	c.Make(Spec{Data: map[string][]byte{"scsi0": []byte("moved")}})
	does(t, c, "POST", vm+"/move_disk", "disk=scsi0", "storage=dir")
	conf := config(t, c, vm)
	require.Equal(t, "dir:100/vm-100-disk-0.raw,size=4G", conf["scsi0"])
	require.Equal(t, "local-lvm:vm-100-disk-0", conf["unused0"])
	data, _ := c.Data("dir:100/vm-100-disk-0.raw")
	require.Equal(t, "moved", string(data))
	refuses(t, c, 500, "same storage", "POST", vm+"/move_disk", "disk=scsi0", "storage=dir")
	does(t, c, "POST", vm+"/move_disk", "disk=scsi0", "storage=local-lvm", "delete=1")
	require.NotContains(t, c.Volumes(100), "dir:100/vm-100-disk-0.raw")
}

func TestDestroyTakesWhatTheConfigurationNames(t *testing.T) {
	stray := Volume{ID: "local-lvm:vm-100-disk-9", VMID: 100, Content: "images", Format: "raw", Size: 1 << 30}
	for unreferenced, left := range map[string]int{"0": 1, "1": 0} {
		c := New(t)
		c.Make(Spec{})
		c.AddVolume(stray)
		does(t, c, "PUT", vm+"/config", "delete=scsi0")
		does(t, c, "DELETE", vm, "destroy-unreferenced-disks="+unreferenced)
		require.Len(t, c.Volumes(100), left)
	}
}

func TestARunningGuestTakesSomeChangesAtItsNextStart(t *testing.T) {
	c := New(t)
	c.Make(Spec{Running: true, Config: map[string]string{"memory": "1024", "cores": "1"}})
	does(t, c, "PUT", vm+"/config", "memory=2048", "cores=2", "description=hello")
	require.Equal(t, "2048", config(t, c, vm)["memory"], "with what is pending")
	now := does(t, c, "GET", vm+"/config", "current=1").(map[string]any)
	require.Equal(t, "1024", now["memory"])
	require.Equal(t, "hello", now["description"])
	row := does(t, c, "GET", vm+"/status/current").(map[string]any)
	require.Equal(t, float64(1024<<20), row["maxmem"])
	pending := does(t, c, "GET", vm+"/pending").([]any)
	require.Contains(t, pending, map[string]any{"key": "memory", "value": "1024", "pending": "2048"})
	does(t, c, "PUT", vm+"/config", "revert=cores")
	does(t, c, "POST", vm+"/status/reboot")
	require.Equal(t, "2048", c.Guest(100).Config["memory"])
	require.Equal(t, "1", c.Guest(100).Config["cores"])
	require.Empty(t, c.Guest(100).Pending)
}
