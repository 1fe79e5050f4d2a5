package libvirt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
)

func init() {
	beds["a wipe of a thin disk"] = wipeThin
	beds["a wipe of a raw disk"] = wipeRaw
	beds["a wipe and snapshots"] = wipeSnapshots
	beds["snapshots of a guest that runs"] = snapshotsRunning
	beds["snapshots that cannot be"] = snapshotsRefused
	beds["a disk larger and smaller"] = resize
	beds["a disk put in, taken off and deleted"] = diskLife
	beds["a disk as a copy of an image"] = image
	beds["a create that fails leaves nothing"] = createFails
}

// dump is the content of a disk, as a guest would read it.
func (b *bed) dump(path, format string) []byte {
	b.t.Helper()
	raw := filepath.Join(b.t.TempDir(), "raw")
	b.Run("qemu-img", "convert", "-U", "-f", format, "-O", "raw", path, raw)
	return must.Get(os.ReadFile(raw))(b.t)
}

// zero reports whether a disk of that size is empty.
func (b *bed) zero(path, format string, size int) {
	b.t.Helper()
	data := b.dump(path, format)
	require.Len(b.t, data, size)
	require.Empty(b.t, strings.Trim(string(data), "\x00"), "something can still be read")
}

// libvirt's own wipe of a qcow2 file removes its header. Its wipe of a thin file only covers
// allocated blocks.
func wipeThin(b *bed) {
	b.must("create", "web")
	path := b.Disks("web")[0]
	b.Write(path, "secret")
	require.NotEmpty(b.t, strings.Trim(string(b.dump(path, "qcow2")), "\x00"))
	before := b.look("web")
	b.must("start", "web")
	b.must("wipe", "web")
	b.zero(path, "qcow2", 16<<20)
	b.Run("qemu-img", "check", "-q", path)
	o := b.look("web")
	require.Equal(b.t, stopped, o.Running)
	require.Equal(b.t, before.Disks[0].Size, o.Disks[0].Size)
	require.NotEqual(b.t, before.Disks[0].ID, o.Disks[0].ID)
	b.must("start", "web")
	b.must("destroy", "web")
	require.Empty(b.t, b.files())
}

func wipeRaw(b *bed) {
	b.must("create", "web", "template", "raw")
	path := b.Disks("web")[0]
	require.NoError(b.t, os.WriteFile(path, []byte(strings.Repeat("secret", 10_000)), 0o600))
	require.NoError(b.t, os.Truncate(path, 16<<20))
	b.must("disk-wipe", "web", "disk", "vda")
	b.zero(path, "raw", 16<<20)
	b.must("start", "web")
}

func wipeSnapshots(b *bed) {
	b.Plant("web", "", "")
	b.must("snapshot", "web", "snapshot", "s")
	for _, verb := range []string{"disk-wipe", "disk-delete", "disk-detach"} {
		b.refused(refusal.Conflict, verb, "web", "disk", "vda")
	}
	b.refused(refusal.Conflict, "wipe", "web")
	b.must("snapshot-delete", "web", "snapshot", "s")
	b.must("wipe", "web")
	b.zero(b.Image("web"), "qcow2", 16<<20)
}

// A snapshot holds the configuration, too, but a restore must not change protection.
func snapshotsRunning(b *bed) {
	b.must("create", "web", "state", "running", "labels", map[string]any{"tier": "test"})
	b.must("snapshot", "web", "snapshot", "s")
	b.must("stop", "web")
	b.must("set-config", "web", "protected", true, "labels", map[string]any{"tier": "prod"}, "memory", int64(40))
	path := b.Disks("web")[0]
	b.Write(path, "later")
	later := b.dump(path, "qcow2")
	before := b.look("web")
	b.must("restore", "web", "snapshot", "s")
	require.NotEqual(b.t, later, b.dump(path, "qcow2"))
	o := b.look("web")
	require.Equal(b.t, running, o.Running, "it ran when the snapshot was made")
	require.True(b.t, o.Protected)
	require.Equal(b.t, map[string]string{"tier": "prod"}, o.Labels)
	require.Equal(b.t, int64(32), o.Spec.Int("memory"), "memory is the snapshot's")
	require.Equal(b.t, before.Incarnation, o.Incarnation)
	require.Equal(b.t, []string{"s"}, o.Snapshots)
	b.must("restore", "web", "snapshot", "s") // over a running guest
	b.must("destroy", "web")
	require.Empty(b.t, b.files())
}

func snapshotsRefused(b *bed) {
	b.must("create", "raw", "template", "raw")
	b.refused(refusal.BadParams, "snapshot", "raw", "snapshot", "s")
	b.Plant("web", "", "")
	b.must("snapshot", "web", "snapshot", "s")
	b.refused(refusal.Conflict, "snapshot", "web", "snapshot", "s")
	b.refused(refusal.UnknownTarget, "restore", "web", "snapshot", "t")
	// A snapshot with files of its own, made without the driver: the guest's disk is another
	// one now.
	before := b.look("web")
	b.Virsh("snapshot-create-as", "web", "outside", "--disk-only")
	o := b.look("web")
	require.NotEqual(b.t, before.Incarnation, o.Incarnation)
	b.refused(refusal.Conflict, "restore", "web", "snapshot", "outside")
	b.refused(refusal.Conflict, "snapshot-delete", "web", "snapshot", "outside")
	b.refused(refusal.Conflict, "destroy", "web")
}

func resize(b *bed) {
	b.must("create", "web")
	before := b.look("web")
	b.must("disk-resize", "web", "disk", "vda", "size", int64(24))
	o := b.look("web")
	require.Equal(b.t, int64(24<<20), o.Disks[0].Size)
	require.Equal(b.t, before.Incarnation, o.Incarnation)
	require.NotEqual(b.t, before.Fingerprint, o.Fingerprint)
	b.must("start", "web")
	b.must("disk-resize", "web", "disk", "vda", "size", int64(32))
	require.Equal(b.t, int64(32<<20), b.look("web").Disks[0].Size)
	b.refused(refusal.BadParams, "disk-resize", "web", "disk", "vda", "size", int64(16))

	b.must("create", "raw", "template", "raw", "state", "running")
	b.refused(refusal.Conflict, "disk-resize", "raw", "disk", "vda", "size", int64(8))
	b.must("stop", "raw")
	b.must("disk-resize", "raw", "disk", "vda", "size", int64(8))
	require.Equal(b.t, int64(8<<20), b.look("raw").Disks[0].Size)
}

func diskLife(b *bed) {
	b.must("create", "web", "state", "running")
	first := b.look("web")
	b.must("disk-create", "web", "disk", "vdb", "size", int64(16)) // into a running guest
	b.must("stop", "web")
	b.must("disk-create", "web", "disk", "vdc", "size", int64(16))
	o := b.look("web")
	require.Len(b.t, o.Disks, 3)
	require.NotEmpty(b.t, first.Birth)
	require.Empty(b.t, o.Birth, "what the step made is not all of it")
	require.Len(b.t, b.files(), 3)
	b.refused(refusal.Conflict, "disk-create", "web", "disk", "vdb", "size", int64(16))
	b.refused(refusal.BadParams, "disk-create", "web", "disk", "sda", "size", int64(16))
	b.must("start", "web")
	require.False(b.t, b.look("web").Volatile)
	b.refused(refusal.Conflict, "disk-detach", "web", "disk", "vdb")
	b.refused(refusal.Conflict, "disk-delete", "web", "disk", "vdb")
	b.must("stop", "web")
	b.must("disk-detach", "web", "disk", "vdb")
	require.Len(b.t, b.files(), 3, "it is kept")
	b.must("disk-delete", "web", "disk", "vdc")
	require.Len(b.t, b.files(), 2)
	require.Equal(b.t, first.Incarnation, b.look("web").Incarnation)
	b.must("destroy", "web")
	require.Len(b.t, b.files(), 1, "what was detached is nobody's")
}

func image(b *bed) {
	b.refusedOrFailed("create", "web", "template", "copy")
	b.Plant("base", "", "")
	b.must("create", "web", "template", "copy")
	o := b.look("web")
	require.Equal(b.t, int64(32<<20), o.Disks[0].Size)
	require.Empty(b.t, b.look("base").Dependent, "it is a full copy")
	want, have := b.dump(b.Image("base"), "qcow2"), b.dump(b.Disks("web")[0], "qcow2")
	require.Equal(b.t, want, have[:len(want)])
	b.must("destroy", "web")
	require.Equal(b.t, []string{"base.qcow2"}, b.files())
}

// refusedOrFailed runs a step that must not work and must leave nothing.
func (b *bed) refusedOrFailed(verb, name string, kv ...any) {
	b.t.Helper()
	before := b.files()
	_, _, err := b.try(verb, name, kv...)
	require.Error(b.t, err)
	require.NotErrorIs(b.t, err, errAway)
	require.False(b.t, driver.IsUnknown(err), "it left everything as it was")
	require.Equal(b.t, before, b.files())
	require.False(b.t, b.look(name).Present)
}

func createFails(b *bed) {
	b.refusedOrFailed("create", "web", "template", "no-mach")
	b.refused(refusal.BadParams, "create", "web", "template", "no-such")
	b.refused(refusal.BadParams, "create", "web", "command", "sh")
	b.refusedOrFailed("create", "web", "template", "no-net", "state", "running")
	b.must("create", "net", "template", "no-net")
	_, used, err := b.try("start", "net")
	require.ErrorContains(b.t, err, "no-such-network")
	require.True(b.t, used)
	require.Equal(b.t, stopped, b.look("net").Running)
	b.Virsh("pool-destroy", "default")
	b.t.Cleanup(func() { b.Virsh("pool-start", "default") })
	b.refused(refusal.Unavailable, "create", "web")
}

func TestTemplates(t *testing.T) {
	must.Fail(New(Config{Templates: map[string]Template{"a": {Format: "vmdk"}}}))(t, refusal.BadParams)
	d := must.Get(New(Config{Templates: map[string]Template{"only": {}}}))(t)
	only := must.Get(d.cfg.template(""))(t)
	require.Equal(t, Template{Memory: 1024, CPUs: 1, Disk: 10240, Format: "qcow2", Pool: "default", Type: "kvm"}, only)
	must.Fail(d.cfg.template("other"))(t, refusal.BadParams)
	two := must.Get(New(Config{Templates: map[string]Template{"a": {}, "b": {}}}))(t)
	must.Fail(two.cfg.template(""))(t, refusal.BadParams)
}
