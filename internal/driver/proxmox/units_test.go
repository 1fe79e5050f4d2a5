package proxmox

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// One size has different units in different places of the API, and one unit in this package.
func TestUnits(t *testing.T) {
	const gib = int64(1) << 30
	for text, want := range map[string]int64{"32G": 32 * gib, "512M": gib / 2, "4194304K": 4 * gib, "1T": 1024 * gib, "528K": 528 << 10,
		"4294967296": 4 * gib, "0": 0, "1.5G": gib + gib/2, "0.5M": 512 << 10} {
		got := must.Get(parseSize(text))(t, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "G", "-1G", "+1G", "1g", "1GB", "1 G", "1.5", "1.G", ".5G", "9223372036854775807T", "1e3", "0x10", "99999999999999999999"} {
		must.Err(parseSize(text))(t, text)
	}
	for text, want := range map[string]int64{"": 512, "2048": 2048, "current=4096": 4096, "current=16,max=64": 16, "max=64,current=16": 16} {
		got := must.Get(parseMemory(text))(t, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"2G", "-1", "max=64", "current=", "1.5", "99999999999999999999"} {
		must.Err(parseMemory(text))(t, text)
	}
	for mib, want := range map[int64]string{1024: "1", 512: "0.5", 1536: "1.5", 1: "0.0009765625", 1 << 30: "1048576", 64: "0.0625"} {
		require.Equal(t, want, allocation(mib))
	}
	require.Equal(t, "10240M", resized(10240))
}

// The normal form removes the differences between the kinds.
func TestNormalForm(t *testing.T) {
	machine := object{"name": "web", "memory": "current=2048", "cores": "2", "sockets": "2", "digest": "d", "protection": "1",
		"smbios1": "uuid=ABCD,manufacturer=x", "vmgenid": "G", "meta": "creation-qemu=9.0.2,ctime=17", "tags": "b;a",
		"scsi0": "local-lvm:vm-100-disk-0,size=32G,ssd=1", "ide2": "local:iso/x.iso,media=cdrom,size=700M", "unused0": "local-lvm:vm-100-disk-1",
		"net0": "virtio=AA:BB:CC:00:11:22,bridge=vmbr0", "scsihw": "virtio-scsi-single", "ide0": "local-lvm:vm-100-cloudinit,media=cdrom"}
	container := object{"hostname": "web", "memory": "2048", "cores": "4", "digest": "d", "protection": "1", "tags": "a;b",
		"rootfs": "local-lvm:vm-100-disk-0,size=32G", "unused0": "local-lvm:vm-100-disk-1", "mp0": "/srv/data,mp=/data",
		"net0": "name=eth0,bridge=vmbr0,hwaddr=AA:BB:CC:00:11:22,type=veth"}
	a := must.Get(normalise(row{vmid: 100, kind: qemu}, machine, machine, nil))(t)
	b := must.Get(normalise(row{vmid: 100, kind: lxc}, container, container, nil))(t)
	for _, g := range []*guest{a, b} {
		require.Equal(t, "web", g.name)
		require.EqualValues(t, 2048, g.memory)
		require.EqualValues(t, 4, g.cpus)
		require.Equal(t, map[string]string{"a": "", "b": ""}, g.labels())
		require.Equal(t, []string{"local-lvm:vm-100-disk-0", "local-lvm:vm-100-disk-1"}, g.volumes())
		require.Equal(t, []string{"aa:bb:cc:00:11:22"}, g.hwaddrs)
		require.True(t, g.protected())
		require.False(t, g.volatile())
		require.Equal(t, a.spec(), g.spec())
	}
	require.Equal(t, []string{"abcd", "g", "17"}, []string{a.uuid, a.genid, a.ctime})
	disk, ok := a.drive("scsi0")
	require.True(t, ok)
	require.EqualValues(t, 32<<30, disk.size)
	_, ok = b.drive("mp0")
	require.False(t, ok, "a directory of the node is no disk that a step may name")
	_, ok = a.drive("ide2")
	require.False(t, ok, "an ISO is no disk")
	require.Len(t, a.storage(), 3, "two volumes, and what was made for cloud-init")
}

// A disk that the next start removes or adds belongs to the guest.
func TestPendingDisks(t *testing.T) {
	current := object{"digest": "d", "scsi0": "s:vm-1-disk-0,size=1G", "scsi1": "s:vm-1-disk-1,size=1G", "memory": "512"}
	wished := object{"digest": "d", "scsi0": "s:vm-1-disk-0,size=1G", "scsi2": "s:vm-1-disk-2,size=1G", "memory": "1024"}
	g := must.Get(normalise(row{vmid: 1, kind: qemu}, wished, current, nil))(t)
	require.Equal(t, []string{"s:vm-1-disk-0", "s:vm-1-disk-1", "s:vm-1-disk-2"}, g.volumes())
	require.EqualValues(t, 1024, g.memory, "what was set is what there is to converge to")
	current["digest"] = "e"
	must.Fail(normalise(row{vmid: 1, kind: qemu}, wished, current, nil))(t, errMoved)
}

func TestVolatile(t *testing.T) {
	for name, c := range map[string]struct {
		config object
		lost   bool
	}{
		"a disk":            {object{"scsi0": "s:vm-1-disk-0,size=1G"}, false},
		"a device":          {object{"scsi0": "/dev/sdb"}, false},
		"no disk":           {object{}, true},
		"a CD":              {object{"ide2": "local:iso/x.iso,media=cdrom"}, true},
		"an empty drive":    {object{"ide2": "none,media=cdrom"}, true},
		"firmware alone":    {object{"efidisk0": "s:vm-1-disk-0,size=4M", "tpmstate0": "s:vm-1-disk-1,size=4M"}, true},
		"a throw-away disk": {object{"scsi0": "s:vm-1-disk-0,size=1G", "scsi1": "s:vm-1-disk-1,snapshot=1"}, true},
		"all thrown away":   {object{"scsi0": "s:vm-1-disk-0,size=1G", "args": "-name x -snapshot"}, true},
		"another argument":  {object{"scsi0": "s:vm-1-disk-0,size=1G", "args": "-name my-snapshot"}, false},
	} {
		c.config["digest"] = "d"
		g := must.Get(normalise(row{vmid: 1, kind: qemu}, c.config, c.config, nil))(t, name)
		require.Equal(t, c.lost, g.volatile(), name)
	}
	// A machine that runs throws away what its configuration said at its start, also if an administrator changed that since.
	keeps := object{"digest": "d", "scsi0": "s:vm-1-disk-0,size=1G"}
	for _, loses := range []object{but(keeps, "scsi0", "s:vm-1-disk-0,size=1G,snapshot=1"), but(keeps, "args", "--snapshot")} {
		require.True(t, must.Get(normalise(row{vmid: 1, kind: qemu}, keeps, loses, nil))(t).volatile())
		require.True(t, must.Get(normalise(row{vmid: 1, kind: qemu}, loses, keeps, nil))(t).volatile())
	}
}
