package pvetest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

const vm = "/nodes/pve1/qemu/100"

func TestLifeOfAVirtualMachine(t *testing.T) {
	c := New(t)
	require.Equal(t, "100", does(t, c, "GET", "/cluster/nextid"))
	upid := does(t, c, "POST", "/nodes/pve1/qemu", "vmid=100", "name=web1", "memory=2048", "cores=2",
		"scsi0=local-lvm:4,ssd=1", "net0=virtio,bridge=vmbr0", "protection=1")
	require.Regexp(t, `^UPID:pve1:[0-9A-F]{8}:[0-9A-F]{8}:[0-9A-F]{8}:qmcreate:100:gated@pve!gate:$`, upid)

	conf := config(t, c, vm)
	require.Equal(t, "2048", conf["memory"], "a property string")
	require.Equal(t, float64(2), conf["cores"])
	require.Equal(t, "local-lvm:vm-100-disk-0,size=4G,ssd=1", conf["scsi0"])
	require.Regexp(t, `^virtio=BC:24:11(:[0-9A-F]{2}){3},bridge=vmbr0$`, conf["net0"])
	require.Regexp(t, `^uuid=[0-9a-f-]{36}$`, conf["smbios1"])
	require.Regexp(t, `^creation-qemu=[0-9.]+,ctime=[0-9]+$`, conf["meta"])

	does(t, c, "POST", vm+"/status/start")
	row := does(t, c, "GET", "/cluster/resources", "type=vm").([]any)[0].(map[string]any)
	require.Equal(t, "running", row["status"])
	require.Equal(t, float64(2048<<20), row["maxmem"], "bytes")
	require.Equal(t, float64(4<<30), row["maxdisk"], "bytes")

	refuses(t, c, 500, "can't remove VM 100 - protection mode enabled", "DELETE", vm)
	does(t, c, "PUT", vm+"/config", "protection=0", "digest="+conf["digest"].(string))
	refuses(t, c, 500, "VM 100 is running - destroy failed", "DELETE", vm)
	does(t, c, "POST", vm+"/status/stop")
	does(t, c, "DELETE", vm, "purge=1", "destroy-unreferenced-disks=0")
	require.False(t, c.Exists(100))
	require.Empty(t, c.Volumes(100))
	refuses(t, c, 500, "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist", "GET", vm+"/config")
}

func TestAStaleDigestIsRefused(t *testing.T) {
	c := New(t)
	c.Make(Spec{Name: "web1"})
	old := config(t, c, vm)["digest"].(string)
	does(t, c, "PUT", vm+"/config", "memory=1024", "digest="+old)
	refuses(t, c, 500, "checksum mismatch", "PUT", vm+"/config", "protection=0", "digest="+old)
	refuses(t, c, 500, "checksum mismatch", "POST", vm+"/config", "protection=0", "digest="+old)
}

func TestWhatCouldNotBeMadeIsNotThere(t *testing.T) {
	c := New(t)
	ends(t, c, "unable to create VM 100 - storage 'none' does not exist", "POST", "/nodes/pve1/qemu", "vmid=100",
		"scsi0=local-lvm:1", "scsi1=none:1")
	require.False(t, c.Exists(100))
	require.Empty(t, c.Volumes(100), "not even the disk that could be made")
	c.Break(Rule{Path: "qmcreate", Fault: Lie, Times: 1})
	does(t, c, "POST", "/nodes/pve1/qemu", "vmid=100", "scsi0=local-lvm:1")
	require.False(t, c.Exists(100), "a task that lies")
	h := c.Hold("qmcreate")
	ask(t, c, "POST", "/nodes/pve1/qemu", "vmid=100")
	require.Equal(t, map[string]string{"lock": "create"}, c.Guest(100).Config)
	refuses(t, c, 500, "VM 100 already exists on node 'pve1'", "POST", "/nodes/pve1/lxc", "vmid=100",
		"ostemplate="+Template, "rootfs=local-lvm:1")
	h.Fail("interrupted by signal")
	require.False(t, c.Exists(100))
}

// A guest with a replication job is destroyed with purge alone, which ends the job.
func TestADestroyOfAReplicatedGuest(t *testing.T) {
	for _, kind := range []string{"qemu", "lxc"} {
		c := New(t, "pve1", "pve2")
		vmid := c.Make(Spec{Kind: kind})
		job := c.Replicate(vmid, "pve2")
		at := fmt.Sprintf("/nodes/pve1/%s/%d", kind, vmid)
		require.Len(t, does(t, c, "GET", "/cluster/replication"), 1)
		r := ask(t, c, "DELETE", at)
		require.Equal(t, 500, r.status)
		require.Contains(t, r.reason, "There is a replication job '"+job+"' for guest '100' - Please remove that first.")
		c.Hide(vmid, true)
		require.Empty(t, does(t, c, "GET", "/cluster/replication"))
		c.Hide(vmid, false)
		does(t, c, "DELETE", at, "purge=1")
		require.False(t, c.Exists(vmid))
		require.Empty(t, does(t, c, "GET", "/cluster/replication"))
		c.Make(Spec{Kind: kind, VMID: vmid})
		c.Replicate(vmid, "pve2")
		c.EndReplication()
		does(t, c, "DELETE", at)
	}
}
