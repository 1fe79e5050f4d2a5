package pvetest

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

const content = "/nodes/pve1/storage/dir/content"

func backups(t *testing.T, c *Cluster, vmid string) []string {
	t.Helper()
	var out []string
	for _, row := range does(t, c, "GET", content, "content=backup", "vmid="+vmid).([]any) {
		out = append(out, row.(map[string]any)["volid"].(string))
	}
	return out
}

func TestBackupsArePruned(t *testing.T) {
	c := New(t)
	c.AddStorage(Storage{Name: "dir", Type: "dir", Content: "images,rootdir,backup", KeepLast: 2})
	c.Make(Spec{Name: "web1"})
	for range 2 {
		does(t, c, "POST", "/nodes/pve1/vzdump", "vmid=100", "storage=dir", "mode=stop", "compress=zstd")
	}
	old := backups(t, c, "100")
	require.Len(t, old, 2)
	require.Regexp(t, `^dir:backup/vzdump-qemu-100-\d{4}(_\d\d){2}-\d\d_\d\d_\d\d\.vma\.zst$`, old[0])
	ends(t, c, "job errors", "POST", "/nodes/pve1/vzdump", "vmid=100", "storage=dir", "remove=0")
	require.Equal(t, old, backups(t, c, "100"), "remove=0 prunes nothing, and there is no room")
	does(t, c, "POST", "/nodes/pve1/vzdump", "vmid=100", "storage=dir", "remove=0", "prune-backups=keep-all=1",
		"notes-template={{guestname}}")
	require.Len(t, backups(t, c, "100"), 3)
	does(t, c, "PUT", content+"/"+old[0], "protected=1")
	does(t, c, "POST", "/nodes/pve1/vzdump", "vmid=100", "storage=dir")
	left := backups(t, c, "100")
	require.Contains(t, left, old[0], "protected")
	require.NotContains(t, left, old[1], "pruned")
	ends(t, c, "cannot remove protected volume", "DELETE", content+"/"+old[0])
	refuses(t, c, 500, "cannot remove protected volume", "DELETE", content+"/"+old[0], "delay=5")
	does(t, c, "PUT", content+"/"+old[0], "protected=0")
	does(t, c, "DELETE", content+"/"+url.PathEscape(old[0]))
	require.NotContains(t, backups(t, c, "100"), old[0])
}

func TestRestoreOverwritesByForceAlone(t *testing.T) {
	c := New(t)
	c.Make(Spec{Name: "web1", Data: map[string][]byte{"scsi0": []byte("saved")}, Running: true})
	does(t, c, "POST", "/nodes/pve1/vzdump", "vmid=100", "storage=dir")
	archive := "archive=" + backups(t, c, "100")[0]
	before := config(t, c, vm)
	c.Write(100, "scsi0", []byte("newer"))
	does(t, c, "PUT", vm+"/config", "scsi1=local-lvm:1", "protection=1")

	restore := func(more ...string) (string, string, []string) {
		return "POST", "/nodes/pve1/qemu", append([]string{"vmid=100", archive}, more...)
	}
	m, p, v := restore()
	refuses(t, c, 500, "unable to restore VM 100 - VM 100 already exists on node 'pve1'", m, p, v...)
	m, p, v = restore("force=1")
	ends(t, c, "vm is running", m, p, v...)
	c.SetRunning(100, false)
	ends(t, c, "protection mode enabled", m, p, v...)
	c.SetProtection(100, false)
	data, _ := c.Data("local-lvm:vm-100-disk-0")
	require.Equal(t, "newer", string(data), "nothing was done yet")

	does(t, c, m, p, v...)
	after := config(t, c, vm)
	require.Equal(t, before["smbios1"], after["smbios1"], "the backup's UUID")
	require.Equal(t, before["meta"], after["meta"])
	require.NotEqual(t, before["vmgenid"], after["vmgenid"])
	require.Equal(t, "local-lvm:vm-100-disk-1", after["unused0"], "not in the backup, and kept")
	data, _ = c.Data("local-lvm:vm-100-disk-0")
	require.Equal(t, "saved", string(data))
}

func TestRestoreUnderAnotherID(t *testing.T) {
	c := New(t)
	c.Make(Spec{Name: "web1"})
	does(t, c, "POST", "/nodes/pve1/vzdump", "vmid=100", "storage=dir")
	archive := "archive=" + backups(t, c, "100")[0]
	does(t, c, "POST", "/nodes/pve1/qemu", "vmid=101", archive)
	does(t, c, "POST", "/nodes/pve1/qemu", "vmid=102", archive, "unique=1")
	require.Equal(t, c.Guest(100).Config["smbios1"], c.Guest(101).Config["smbios1"], "twice the same UUID")
	require.NotEqual(t, c.Guest(100).Config["smbios1"], c.Guest(102).Config["smbios1"])
	refuses(t, c, 400, "Parameter verification failed.", "POST", "/nodes/pve1/qemu", "vmid=103", archive, "scsi0=local-lvm:1")
	refuses(t, c, 500, "does not exist", "POST", "/nodes/pve1/qemu", "vmid=103", "archive=dir:backup/none.vma.zst")
}

func TestADiskOfAGuestIsNoMereFile(t *testing.T) {
	c := New(t)
	c.Make(Spec{Disks: map[string]string{"scsi0": "dir:1"}})
	refuses(t, c, 500, "a guest with VMID '100' exists", "DELETE", content+"/dir:100/vm-100-disk-0.raw")
	refuses(t, c, 500, "does not exist", "DELETE", content+"/dir:100/vm-100-disk-1.raw")
}
