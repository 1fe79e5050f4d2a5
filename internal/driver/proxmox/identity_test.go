package proxmox

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func made(t *testing.T, kind string, config object, snapshots ...object) *guest {
	t.Helper()
	return must.Get(normalise(row{vmid: 100, node: "pve1", kind: kind}, config, config, snapshots))(t)
}

func but(o object, kv ...string) object {
	o = maps.Clone(o)
	for i := 0; i < len(kv); i += 2 {
		if o[kv[i]] = kv[i+1]; kv[i+1] == "" {
			delete(o, kv[i])
		}
	}
	return o
}

var (
	machine = object{"name": "web", "digest": "d", "smbios1": "uuid=u1", "vmgenid": "g1", "meta": "creation-qemu=9,ctime=1",
		"scsi0": "s:vm-100-disk-0,size=1G", "scsi1": "s:vm-100-disk-1,size=1G", "net0": "virtio=AA:BB:CC:00:11:22"}
	container = object{"hostname": "web", "digest": "d", "rootfs": "s:vm-100-disk-0,size=1G", "net0": "hwaddr=AA:BB:CC:00:11:22",
		"description": "gated: {\"birth\":\"b1\",\"labels\":{},\"protected\":false,\"vmid\":100}\n"}
)

// Each part of a guest's identity changes the incarnation. Other fields do not.
func TestIncarnation(t *testing.T) {
	for name, c := range map[string]struct {
		kind    string
		config  object
		another bool
	}{
		"a rollback's generation":    {qemu, but(machine, "vmgenid", "g2"), true},
		"another uuid":               {qemu, but(machine, "smbios1", "uuid=u2"), true},
		"made at another time":       {qemu, but(machine, "meta", "creation-qemu=9,ctime=2"), true},
		"another volume":             {qemu, but(machine, "scsi0", "s:vm-100-disk-2,size=1G"), true},
		"one volume less":            {qemu, but(machine, "scsi1", ""), true},
		"one volume more":            {qemu, but(machine, "unused0", "s:vm-100-disk-2"), true},
		"a disk detached":            {qemu, but(machine, "scsi1", "", "unused0", "s:vm-100-disk-1"), false},
		"a disk grown":               {qemu, but(machine, "scsi0", "s:vm-100-disk-0,size=2G"), false},
		"renamed":                    {qemu, but(machine, "name", "db"), false},
		"another QEMU":               {qemu, but(machine, "meta", "creation-qemu=10,ctime=1"), false},
		"a machine's other address":  {qemu, but(machine, "net0", "virtio=AA:BB:CC:00:11:23"), false},
		"more memory":                {qemu, but(machine, "memory", "1024"), false},
		"a container's address":      {lxc, but(container, "net0", "hwaddr=AA:BB:CC:00:11:23"), true},
		"a container's root":         {lxc, but(container, "rootfs", "s:vm-100-disk-1,size=1G"), true},
		"a container's mark":         {lxc, but(container, "description", strings.Replace(container["description"], "b1", "b2", 1)), true},
		"a container without a mark": {lxc, but(container, "description", ""), true},
		"a container's notes":        {lxc, but(container, "description", "notes\n"+container["description"]), false},
	} {
		base := map[string]object{qemu: machine, lxc: container}[c.kind]
		was, is := made(t, c.kind, base).incarnation(), made(t, c.kind, c.config).incarnation()
		require.Equal(t, c.another, was != is, name)
		require.Regexp(t, `^pve:100:[0-9a-f]{40}$`, string(is))
	}
}

// The fingerprint has everything that a signature covers, and nothing that changes by itself.
func TestFingerprint(t *testing.T) {
	snap := object{"name": "s1", "snaptime": "5"}
	for name, c := range map[string]struct {
		config    object
		snapshots []object
		other     bool
	}{
		"protection":                  {but(machine, "protection", "1"), nil, true},
		"a tag":                       {but(machine, "tags", "prod"), nil, true},
		"a label":                     {but(machine, "description", `gated: {"labels":{"a":"b"},"protected":false,"vmid":100}`), nil, true},
		"memory":                      {but(machine, "memory", "1024"), nil, false},
		"cores":                       {but(machine, "cores", "2"), nil, false},
		"the size of a disk":          {but(machine, "scsi0", "s:vm-100-disk-0,size=2G"), nil, true},
		"a disk under another name":   {but(machine, "scsi1", "", "unused0", "s:vm-100-disk-1"), nil, true},
		"a disk that is thrown away":  {but(machine, "scsi1", "s:vm-100-disk-1,size=1G,snapshot=1"), nil, true},
		"a snapshot":                  {machine, []object{snap}, true},
		"what the data goes on from":  {but(machine, "parent", "s1"), nil, true},
		"the digest":                  {but(machine, "digest", "e"), nil, false},
		"the order of boot":           {but(machine, "boot", "order=scsi0"), nil, false},
		"a lock":                      {but(machine, "lock", "backup"), nil, false},
		"a snapshot's pseudo-current": {machine, []object{{"name": "current", "digest": "x", "running": "1"}}, false},
	} {
		got := made(t, qemu, c.config, c.snapshots...)
		require.Equal(t, c.other, made(t, qemu, machine).fingerprint("") != got.fingerprint(""), name)
		require.True(t, got.fingerprint("").Valid())
	}
	again := made(t, qemu, machine, object{"name": "s1", "snaptime": "6"})
	require.NotEqual(t, made(t, qemu, machine, snap).fingerprint(""), again.fingerprint(""), "another snapshot of the same name")
}

// A copied description does not make a guest the gate's own. Its labels protect the copy.
func TestBirthIsBoundToTheNumber(t *testing.T) {
	text, err := marker{there: true, vmid: 100, birth: "b1", labels: map[string]string{"tier": "prod"}, protected: true}.in("notes\nof people\n")
	require.NoError(t, err)
	config := but(machine, "description", text+"\n")
	require.Equal(t, "b1", made(t, qemu, config).birth())
	copied := must.Get(normalise(row{vmid: 101, kind: qemu}, config, config, nil))(t)
	require.Empty(t, copied.birth())
	require.Equal(t, "prod", copied.labels()["tier"])
	require.True(t, copied.protected())
}

// The birth is a proof for the disks that its step makes, and for no other. The mark of an older gate names none, or their keys alone: it is
// read, and proves no disk.
func TestBirthIsProvenByTheDisks(t *testing.T) {
	require.Equal(t, "none", born(op.Step{Birth: "b1"}, 100).disks)
	both := "scsi0=local-lvm scsi1=dir"
	for _, c := range []struct{ name, disks, key, volume, proven string }{
		{"both", both, "", "", "b1"}, {"and a third that was not made", both + " scsi2=dir", "", "", "b1"},
		{"with their sizes", "scsi0=local-lvm:34359738368 scsi1=dir:1073741824", "", "", "b1"},
		{"of another size", "scsi0=local-lvm:34359738368 scsi1=dir:1073741825", "", "", ""},
		{"one alone", "scsi0=local-lvm", "", "", ""}, {"none", "none", "", "", ""},
		{"an older gate's keys", "scsi0 scsi1", "", "", ""}, {"an older gate's mark", "", "", "", ""},
		{"another key", "scsi0=local-lvm scsi2=dir", "", "", ""}, {"another storage", "scsi0=dir scsi1=dir", "", "", ""},
		{"of another number", both, "scsi1", "dir:101/vm-101-disk-0.qcow2", ""}, {"of no number", both, "scsi1", "dir:stray", ""},
		{"of another number by its directory", both, "scsi1", "dir:101/vm-100-disk-0.qcow2", ""},
		{"unused", both, "unused0", "local-lvm:vm-100-disk-0", ""}, {"a linked clone's", both, "scsi1", "dir:9/base-9-disk-0.qcow2/101/vm-101-disk-0.qcow2", ""},
	} {
		config := but(machine, "description", must.Get(marker{there: true, vmid: 100, birth: "b1", disks: c.disks}.in(""))(t))
		config = but(config, "scsi0", "local-lvm:vm-100-disk-0,size=32G")
		config = but(config, "scsi1", "dir:100/vm-100-disk-0.qcow2,size=1G")
		if c.key != "" {
			config = but(config, c.key, c.volume+",size=1G")
		}
		g := made(t, qemu, config)
		require.Equal(t, c.proven, g.proven(), c.name)
		require.Equal(t, "b1", g.birth(), c.name)
		require.Empty(t, made(t, qemu, config, object{"name": "s1", "snaptime": "5"}).proven(), c.name)
		waiting := must.Get(normalise(row{vmid: 100, kind: qemu}, but(config, "scsi0", "local-lvm:vm-100-disk-1,size=32G"), config, nil))(t)
		require.Empty(t, waiting.proven(), "%s, and another one from the next start on", c.name)
	}
	empty := but(but(machine, "scsi0", ""), "scsi1", "")
	for _, disks := range []string{"", "none", both} {
		g := made(t, qemu, but(empty, "description", must.Get(marker{there: true, vmid: 100, birth: "b1", disks: disks}.in(""))(t)))
		require.Equal(t, "b1", g.proven(), "no disk, and none to prove: %q", disks)
	}
}

// The name of a volume has the number of its guest, in one of the forms of Proxmox VE and its plug-ins.
func TestNumberOfAVolume(t *testing.T) {
	for volume, vmid := range map[string]int64{
		"local-lvm:vm-500-disk-0": 500, "zfs:subvol-500-disk-1": 500, "zfs:base-500-disk-0": 500, "zfs:basevol-9-disk-0/subvol-500-disk-0": 500, "zfs:base-9-disk-0/vm-500-disk-0": 500,
		"dir:500/vm-500-disk-0.qcow2": 500, "dir:500/vm-9-disk-0.raw": 500, "dir:9/base-9-disk-0.qcow2/500/vm-500-disk-0.qcow2": 500, "local-lvm:vm-500-cloudinit": 500,
		"local-lvm:vm-500-state-before": 500, "drbd:pm-0a1b2c3d_500": 500, "drbd:vm-500-disk-1": 500, "sp:vm-500-disk-0-sp-abc.raw": 500,
		"drbd:pm-0a1b2c3d": 0, "drbd:pm-0a1b_500": 0, "dir:stray": 0, "local:iso/debian-12.iso": 0, "": 0, "local-lvm:vm-99999999999999999999-disk-0": 0,
	} {
		require.Equal(t, vmid, numberOfVolume(volume), volume)
	}
}

// A copy's disks are on the storage that the request names, or each on its original's. Devices of the node have none.
func TestDisksOfACopy(t *testing.T) {
	g := &guest{drives: []drive{{key: "scsi0", volume: "local-lvm:vm-9-disk-0", size: 5}, {key: "scsi1", volume: "/dev/sd b"}, {key: "ide2", volume: "local-lvm:vm-9-cloudinit", cdrom: true}, {key: "scsi0", volume: "local-lvm:vm-9-disk-1"}}}
	require.Equal(t, []string{"scsi0=local-lvm"}, g.copied(""))
	require.Equal(t, []string{"scsi0=dir", "scsi1=dir"}, g.copied("dir"))
}

func TestMarker(t *testing.T) {
	m := marker{there: true, vmid: 7, birth: "b", disks: "scsi0 scsi1", protected: true, labels: map[string]string{"a": "b c", "x": ""}}
	text := must.Get(m.in(""))(t)
	require.Equal(t, m, must.Get(parseMarker(text+"\n"))(t))
	again := must.Get(marker{there: true, vmid: 8, labels: map[string]string{}}.in("above\n" + text + "\nbelow\n"))(t)
	require.Equal(t, "above\nbelow\ngated: {\"labels\":{},\"protected\":false,\"vmid\":8}", again)
	for _, bad := range []string{text + "\n" + text, "gated: ", "gated: {}", "gated: {\"vmid\":1}", "gated: null",
		`gated: {"labels":{},"protected":false,"vmid":8,"scratch":true}`, `gated: {"labels":{},"protected":"no","vmid":8}`,
		`gated: {"labels":{},"protected":false,"protected":true,"vmid":8}`} {
		must.Err(parseMarker(bad))(t, bad)
	}
	require.False(t, must.Get(parseMarker("just notes\n gated: {}\nGated: x"))(t).there)
	_, err := marker{there: true, labels: map[string]string{"a": strings.Repeat("x", maxDescription)}}.in("")
	require.ErrorIs(t, err, refusal.Oversized)
}
