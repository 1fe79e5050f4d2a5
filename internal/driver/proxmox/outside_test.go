package proxmox_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox/pvetest"
)

// withoutSome makes the guest web, of which a backup has the first disk and the third, and no other.
func withoutSome(t *testing.T, kind string) (w *world, vmid int, backup string) {
	t.Helper()
	w = newWorld(t, kind)
	disks := map[string]map[string]string{
		"qemu": {"scsi0": "local-lvm:1", "scsi1": "local-lvm:1,backup=0", "scsi2": "local-lvm:1,backup=1"},
		"lxc":  {"rootfs": "local-lvm:1", "mp0": "local-lvm:1,mp=/srv", "mp1": "local-lvm:1,mp=/var,backup=1", "mp2": "local-lvm:1,mp=/opt,backup=0"},
	}[kind]
	data := map[string][]byte{}
	for key := range disks {
		data[key] = []byte("on " + key)
	}
	vmid = w.Make(pvetest.Spec{Kind: kind, Name: "web", Disks: disks, Data: data})
	w.BackUp(vmid, "local")
	return w, vmid, w.Look("web").Backups[0]
}

// A restore puts a backup in the place of the guest. A disk that the backup does not have goes with a container, and stays unused with a machine. The
// request says which, and it happens so.
func TestARestoreNamesTheDisksThatItsBackupDoesNotHave(t *testing.T) {
	cases := map[string]struct {
		later         string   // a disk that is added after the backup
		outside, have []string // disks
		says          string
	}{
		"qemu": {"scsi3", []string{"scsi1 1 GiB", "scsi3 1 GiB", "unused0"}, []string{"scsi0", "scsi2"}, "they stay, as unused disks of the guest"},
		"lxc":  {"mp3", []string{"mp0 1 GiB", "mp2 1 GiB", "mp3 1 GiB", "unused0"}, []string{"rootfs", "mp1"}, "gone for good with what is on them"},
	}
	either(t, func(t *testing.T, kind string) {
		c := cases[kind]
		w, vmid, backup := withoutSome(t, kind)
		w.Set(vmid, map[string]string{"unused0": "local-lvm:vm-" + num(vmid) + "-disk-8"})
		w.AddVolume(pvetest.Volume{ID: "local-lvm:vm-" + num(vmid) + "-disk-8", VMID: vmid, Size: 1 << 30, Format: "raw", Content: "images", Data: []byte("unused")})
		w.Done(drivertest.Hub, guestAsk("disk-create", "web", "disk", c.later, "size", int64(1024)))
		require.NotContains(t, w.factsOf(guestAsk("backup-delete", "web", "backup", backup)), "not in the backup")
		ask := guestAsk("backup-restore", "web", "backup", backup)
		text := w.factsOf(ask)["not in the backup"]
		for _, disk := range c.outside {
			require.Contains(t, text, disk)
		}
		for _, disk := range c.have {
			require.NotContains(t, text, disk+" ")
		}
		require.Contains(t, text, c.says)
		require.Contains(t, w.waits(ask), "overwrites")

		w.signed(ask)
		left := map[string]bool{}
		for _, v := range w.Volumes(vmid) {
			if v.Content != "backup" {
				left[string(v.Data)] = true
			}
		}
		for _, disk := range c.have {
			require.True(t, left["on "+disk], disk)
		}
		for _, disk := range c.outside {
			disk, _, _ = strings.Cut(disk, " ")
			if disk != c.later && disk != "unused0" {
				require.Equal(t, kind == "qemu", left["on "+disk], disk)
			}
		}
		require.Equal(t, kind == "qemu", left["unused"])
	})
}

// A disk that the gate adds is in the backups after it, so a restore brings it back, and the request needs no word about it.
func TestADiskOfTheGateIsInBackups(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		vmid, key := w.ours("web"), secondDisk[w.kind()]
		w.Done(drivertest.Hub, guestAsk("disk-create", "web", "disk", key, "size", int64(1024)))
		w.Write(vmid, key, []byte("saved"))
		w.BackUp(vmid, "local")
		w.Write(vmid, key, []byte("newer"))
		ask := guestAsk("backup-restore", "web", "backup", w.Look("web").Backups[0])
		require.NotContains(t, w.factsOf(ask), "not in the backup")
		w.signed(ask)
		volume, _, _ := strings.Cut(w.Guest(vmid).Config[key], ",")
		data, there := w.Data(volume)
		require.True(t, there)
		require.Equal(t, "saved", string(data))
	})
}
