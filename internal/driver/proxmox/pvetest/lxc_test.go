package pvetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const ct = "/nodes/pve1/lxc/100"

func TestLifeOfAContainer(t *testing.T) {
	c := New(t)
	does(t, c, "POST", "/nodes/pve1/lxc", "vmid=100", "hostname=db1", "ostemplate="+Template, "rootfs=local-lvm:2",
		"memory=256", "swap=128", "cores=1", "net0=name=eth0,bridge=vmbr0,ip=dhcp", "description=ours", "unprivileged=1")
	conf := config(t, c, ct)
	require.Equal(t, float64(256), conf["memory"], "a number of MiB")
	require.Equal(t, float64(128), conf["swap"])
	require.Equal(t, "local-lvm:vm-100-disk-0,size=2G", conf["rootfs"])
	require.Regexp(t, `hwaddr=BC:24:11(:[0-9A-F]{2}){3}`, conf["net0"])
	require.Equal(t, "ours\n", conf["description"], "with a newline, as a container's has it")
	require.NotContains(t, conf, "smbios1")
	require.NotContains(t, conf, "vmgenid")

	does(t, c, "POST", ct+"/status/start")
	row := does(t, c, "GET", "/cluster/resources", "type=vm").([]any)[0].(map[string]any)
	require.Equal(t, "lxc", row["type"])
	require.Equal(t, "lxc/100", row["id"])
	require.Equal(t, float64(256<<20), row["maxmem"], "bytes")
	does(t, c, "PUT", ct+"/config", "memory=512")
	require.Equal(t, "512", c.Guest(100).Config["memory"], "a running container takes it at once")
	refuses(t, c, 500, "unable to destroy CT 100 - container is running", "DELETE", ct)
	does(t, c, "POST", ct+"/status/shutdown", "timeout=5")
	refuses(t, c, 500, "CT 100 not running", "POST", ct+"/status/stop")
	does(t, c, "DELETE", ct)
	require.Empty(t, c.Volumes(100))
}

func TestAProtectedContainersDisksStay(t *testing.T) {
	c := New(t)
	c.Make(Spec{Kind: "lxc", Disks: map[string]string{"rootfs": "local-lvm:1", "mp0": "local-lvm:1,mp=/data"}})
	refuses(t, c, 500, "unable to delete required option 'rootfs'", "PUT", ct+"/config", "delete=rootfs")
	c.SetProtection(100, true)
	refuses(t, c, 500, "can't remove CT 100 drive 'mp0' - protection mode enabled", "PUT", ct+"/config", "delete=mp0")
	refuses(t, c, 500, "can't update CT 100 drive 'mp1'", "PUT", ct+"/config", "mp1=local-lvm:1,mp=/more")
	refuses(t, c, 500, "can't remove CT 100 - protection mode enabled", "DELETE", ct)
	c.SetProtection(100, false)
	does(t, c, "PUT", ct+"/config", "delete=mp0")
	require.Equal(t, "local-lvm:vm-100-disk-0", config(t, c, ct)["unused0"])
	refuses(t, c, 500, "detected modified configuration", "PUT", ct+"/config", "delete=unused0", "digest=00")
	does(t, c, "PUT", ct+"/config", "delete=unused0")
	require.Len(t, c.Volumes(100), 1)
}

func TestRestoreOfAContainerDestroysAllItHad(t *testing.T) {
	c := New(t)
	c.Make(Spec{Kind: "lxc", Name: "db1", Data: map[string][]byte{"rootfs": []byte("saved")}})
	does(t, c, "POST", "/nodes/pve1/vzdump", "vmid=100", "storage=dir", "compress=zstd")
	archive := backups(t, c, "100")[0]
	require.Regexp(t, `vzdump-lxc-100-.*\.tar\.zst$`, archive)
	hwaddr := property(c.Guest(100).Config["net0"], "hwaddr")
	does(t, c, "PUT", ct+"/config", "mp0=local-lvm:1,mp=/data")
	params := []string{"vmid=100", "ostemplate=" + archive, "restore=1", "force=1"}
	refuses(t, c, 400, "Parameter verification failed.", "POST", "/nodes/pve1/lxc", params...)
	params = append(params, "storage=local-lvm")
	c.SetProtection(100, true)
	refuses(t, c, 500, "unable to restore CT 100 - protection mode enabled", "POST", "/nodes/pve1/lxc", params...)
	c.SetProtection(100, false)
	does(t, c, "POST", "/nodes/pve1/lxc", params...)
	conf := c.Guest(100).Config
	require.NotContains(t, conf, "unused0", "a container keeps no disk that is not in the backup")
	require.Equal(t, hwaddr, property(conf["net0"], "hwaddr"))
	data, _ := c.Data(volumeID(conf["rootfs"]))
	require.Equal(t, "saved", string(data))
}

func TestACloneOfAContainer(t *testing.T) {
	c := New(t)
	c.Make(Spec{Kind: "lxc", Name: "db1"})
	h := c.Hold("vzclone")
	ask(t, c, "POST", ct+"/clone", "newid=101", "hostname=db2", "full=1")
	require.Equal(t, "disk", c.Guest(100).Config["lock"], "a container that is cloned is locked")
	refuses(t, c, 500, "CT is locked (disk)", "DELETE", ct)
	h.Release()
	require.NotContains(t, c.Guest(100).Config, "lock")
	refuses(t, c, 500, "CT 101 already exists on node 'pve1'", "POST", ct+"/clone", "newid=101")
	a, b := c.Guest(100).Config, c.Guest(101).Config
	require.Equal(t, "db2", b["hostname"])
	require.NotEqual(t, property(a["net0"], "hwaddr"), property(b["net0"], "hwaddr"))
	require.NotEqual(t, a["rootfs"], b["rootfs"])
	does(t, c, "PUT", ct+"/resize", "disk=rootfs", "size=+1G")
	require.Contains(t, c.Guest(100).Config["rootfs"], "size=5G")
	does(t, c, "POST", ct+"/snapshot", "snapname=first")
	does(t, c, "POST", ct+"/snapshot/first/rollback")
	does(t, c, "POST", ct+"/move_volume", "volume=rootfs", "storage=dir")
	require.Contains(t, c.Guest(100).Config["rootfs"], "dir:100/vm-100-disk-0.raw")
}
