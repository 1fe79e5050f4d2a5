package libvirt

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/test/must"
)

func init() {
	beds["a disk by another path"] = linked
	beds["a disk by another file name"] = hardLinked
	beds["a disk below another of the same guest"] = ownOverlay
	beds["a disk twice in a guest, and one of them"] = ownTwice
	beds["a disk that only the definition says is below"] = explicitBelow
	beds["data in another file"] = dataFile
	beds["what cannot be followed"] = unfollowed
	beds["a domain that cannot be read"] = unreadable
	beds["files that are no disks"] = noDisks
	beds["firmware settings that are somebody's disk"] = stolenNVRAM
	beds["somebody comes while a guest goes"] = latecomer
}

// on is the XML of a disk on a file.
func on(path, dev, format string, more ...string) string {
	return fmt.Sprintf(`<disk type='file' device='disk'><driver name='qemu' type='%s'/><source file='%s'/>%s<target dev='%s' bus='virtio'/></disk>`,
		format, path, strings.Join(more, ""), dev)
}

// domain defines a domain without the driver, with devices and elements in its os.
func (b *bed) domain(name, devices string, os ...string) {
	b.t.Helper()
	b.Define(`<domain type='qemu'><name>` + name + `</name><memory unit='MiB'>32</memory><vcpu>1</vcpu><os><type>hvm</type>` + strings.Join(os, "") +
		`</os><features><acpi/></features><devices>` + devices + `</devices></domain>`)
}

// keeps runs a step that must not change the file.
func (b *bed) keeps(path string, step func()) {
	b.t.Helper()
	before := b.Digest(path)
	require.NotEmpty(b.t, before)
	step()
	require.Equal(b.t, before, b.Digest(path))
}

func linked(b *bed) {
	b.must("create", "scr")
	path := b.Disks("scr")[0]
	alias := filepath.Join(b.t.TempDir(), "alias")
	require.NoError(b.t, os.Symlink(b.Images, alias))
	b.domain("real", on(filepath.Join(alias, filepath.Base(path)), "vda", "qcow2"))
	require.Equal(b.t, []op.Target{target("real")}, b.look("scr").Dependent)
	b.keeps(path, func() {
		b.refused(refusal.Conflict, "wipe", "scr")
		b.must("destroy", "scr")
	})
}

func hardLinked(b *bed) {
	b.must("create", "scr", "template", "raw")
	path := b.Disks("scr")[0]
	other := filepath.Join(b.Images, "real.img")
	require.NoError(b.t, os.Link(path, other))
	b.domain("real", on(other, "vda", "raw"))
	require.Equal(b.t, []op.Target{target("real")}, b.look("scr").Dependent)
	b.keeps(other, func() {
		b.refused(refusal.Conflict, "wipe", "scr")
		b.refused(refusal.Conflict, "disk-wipe", "scr", "disk", "vda")
		b.refused(refusal.Conflict, "disk-resize", "scr", "disk", "vda", "size", int64(8))
	})
	b.Virsh("undefine", "real")
	b.Virsh("pool-refresh", "default")
	b.Define(strings.Replace(b.Virsh("dumpxml", "scr"), "</disk>", "</disk>"+on(other, "vdb", "raw"), 1))
	b.refused(refusal.Conflict, "destroy", "scr") // one disk with two names
}

func ownOverlay(b *bed) {
	b.Plant("base", "", "")
	b.Virsh("undefine", "base")
	base, over := b.Image("base"), b.Image("over")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", base, over)
	b.Virsh("pool-refresh", "default")
	b.domain("web", on(over, "vda", "qcow2")+on(base, "vdb", "qcow2"))
	b.keeps(base, func() {
		b.refused(refusal.Conflict, "disk-delete", "web", "disk", "vdb")
		b.refused(refusal.Conflict, "disk-wipe", "web", "disk", "vdb")
		b.refused(refusal.Conflict, "wipe", "web")
	})
	b.must("destroy", "web")
	require.Empty(b.t, b.files(), "all of it goes")

	// A disk that stays has a disk as its base that would go.
	b.Plant("base", "", "")
	b.Virsh("undefine", "base")
	away := filepath.Join(b.t.TempDir(), "away.qcow2")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", base, away)
	b.domain("web", on(away, "vda", "qcow2")+on(base, "vdb", "qcow2"))
	b.keeps(base, func() { b.refused(refusal.Conflict, "destroy", "web") })
}

func ownTwice(b *bed) {
	b.Plant("base", "", "")
	b.Virsh("undefine", "base")
	b.domain("web", on(b.Image("base"), "vda", "qcow2")+on(b.Image("base"), "vdb", "qcow2"))
	b.keeps(b.Image("base"), func() {
		b.refused(refusal.Conflict, "disk-delete", "web", "disk", "vdb")
		b.refused(refusal.Conflict, "disk-wipe", "web", "disk", "vda")
	})
}

func explicitBelow(b *bed) {
	b.must("create", "scr")
	path := b.Disks("scr")[0]
	over := b.Image("over")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", over, "16M")
	b.domain("real", on(over, "vda", "qcow2",
		`<backingStore type='file'><format type='qcow2'/><source file='`+path+`'/><backingStore/></backingStore>`))
	require.Equal(b.t, []op.Target{target("real")}, b.look("scr").Dependent)
	b.keeps(path, func() { b.must("destroy", "scr") })
}

func dataFile(b *bed) {
	b.must("create", "scr", "template", "raw")
	path := b.Disks("scr")[0]
	over := b.Image("over")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-o", "data_file="+path+",data_file_raw=on", over, "16M")
	b.domain("real", on(over, "vda", "qcow2"))
	require.Equal(b.t, []op.Target{target("real")}, b.look("scr").Dependent)
	b.keeps(path, func() { b.must("destroy", "scr") })
}

// takesNothing asks for every step that loses data. Each is refused while it is not known which
// guests use the disks.
func (b *bed) takesNothing(name string) {
	b.t.Helper()
	b.keeps(b.Disks(name)[0], func() {
		b.refused(refusal.Conflict, "destroy", name)
		b.refused(refusal.Conflict, "wipe", name)
		b.refused(refusal.Conflict, "disk-wipe", name, "disk", "vda")
		b.refused(refusal.Conflict, "disk-delete", name, "disk", "vda")
	})
	require.NotEmpty(b.t, b.fact(name, "not known"))
	require.Equal(b.t, []op.Target{target("real")}, b.look(name).Dependent, "it takes a signature to ask for it at all")
}

func unfollowed(b *bed) {
	b.must("create", "scr")
	path, over := b.Disks("scr")[0], b.Image("over")
	for name, define := range map[string]func(){
		"json": func() {
			b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b",
				`json:{"driver":"qcow2","file":{"driver":"file","filename":"`+path+`"}}`, over)
			b.domain("real", on(over, "vda", "qcow2"))
		},
		"a format that has files of its own": func() { b.domain("real", on(over, "vda", "vmdk")) },
		"a volume of a pool that is not active": func() {
			b.Virsh("pool-define-as", "p2", "dir", "--target", filepath.Join(b.Images, "p2"))
			b.domain("real", `<disk type='volume' device='disk'><driver name='qemu' type='qcow2'/><source pool='p2' volume='`+filepath.Base(path)+
				`'/><target dev='vda' bus='virtio'/></disk>`)
		},
		"nothing that can be opened as a file": func() {
			b.Run("mkfifo", over)
			b.domain("real", on(over, "vda", "qcow2"))
		},
	} {
		b.t.Log(name)
		require.NoError(b.t, os.RemoveAll(over))
		define()
		b.takesNothing("scr")
		b.Virsh("undefine", "real")
	}
	b.Virsh("pool-undefine", "p2")
	require.Empty(b.t, b.fact("scr", "not known"))
	b.must("snapshot", "scr", "snapshot", "s")
	b.domain("real", on(path+".vmdk", "vda", "vmdk"))
	b.refused(refusal.Conflict, "restore", "scr", "snapshot", "s")
	b.Virsh("undefine", "real")
	b.must("destroy", "scr")
}

// libvirt accepts names in XML that Go's decoder refuses.
func unreadable(b *bed) {
	b.must("create", "scr")
	b.Define(`<domain type='qemu'><name>real</name><metadata><𐀀:a xmlns:𐀀="urn:x"/></metadata><memory unit='MiB'>32</memory><vcpu>1</vcpu>` +
		`<os><type>hvm</type></os><devices>` + on(b.Disks("scr")[0], "vda", "qcow2") + `</devices></domain>`)
	must.Fail(b.d.Observe(b.t.Context(), op.At(target("real"))))(b.t, refusal.Conflict)
	b.takesNothing("scr")
}

func noDisks(b *bed) {
	b.must("create", "scr", "template", "raw")
	path := b.Disks("scr")[0]
	for _, define := range []func(){
		func() { b.domain("real", "", "<kernel>"+path+"</kernel>") },
		func() { b.domain("real", "", "<kernel>/no/such</kernel><initrd>"+path+"</initrd>") },
		func() {
			b.Define(`<domain type='qemu'><name>real</name><maxMemory slots='4' unit='MiB'>1024</maxMemory><memory unit='MiB'>128</memory><vcpu>1</vcpu>` +
				`<os><type>hvm</type></os><cpu><numa><cell id='0' cpus='0' memory='128' unit='MiB'/></numa></cpu><devices><memory model='nvdimm'><source><path>` +
				path + `</path></source><target><size unit='MiB'>16</size><node>0</node></target></memory></devices></domain>`)
		},
	} {
		define()
		require.Equal(b.t, []op.Target{target("real")}, b.look("scr").Dependent)
		b.keeps(path, func() { b.refused(refusal.Conflict, "wipe", "scr") })
		b.Virsh("undefine", "real")
	}
	b.domain("real", "", "<kernel>"+path+"</kernel>")
	b.keeps(path, func() { b.must("destroy", "scr") })
}

func stolenNVRAM(b *bed) {
	code := b.file("CODE.fd", strings.Repeat("x", 4096))
	firmware := func(nvram string) string {
		return fmt.Sprintf(`<loader readonly='yes' type='pflash'>%s</loader><nvram>%s</nvram>`, code, nvram)
	}
	b.Plant("real", "", "")
	b.domain("evil", "", firmware(b.Image("real")))
	require.Empty(b.t, b.look("evil").Storage, "it is not its to take")
	require.Contains(b.t, b.fact("evil", "other firmware settings"), "something else uses")
	require.Equal(b.t, []op.Target{target("evil")}, b.look("real").Dependent)
	b.keeps(b.Image("real"), func() { b.must("destroy", "evil") })
	require.False(b.t, b.look("evil").Present)

	own := b.file("vars.fd", "settings")
	b.domain("good", "", firmware(own))
	require.Len(b.t, b.look("good").Storage, 1)
	b.must("destroy", "good")
	require.NoFileExists(b.t, own)
}

// meanwhile is a permit. Its Use calls a function that changes the back end.
type meanwhile struct {
	allowed
	do func()
}

func (m *meanwhile) Use(context.Context, op.Observed) error { m.do(); return nil }

// during runs a step and calls do meanwhile.
func (b *bed) during(do func(), verb, name string, params op.Params) error {
	_, err := drivertest.Rehearse(b.t.Context(), &meanwhile{allowed{step: op.Step{ID: op.StepID{Job: 1, Index: 1}, Op: "guest." + verb,
		Target: target(name), Params: params}}, do}, b.d.prepare)
	return err
}

func latecomer(b *bed) {
	b.must("create", "web")
	path := b.Disks("web")[0]
	b.keeps(path, func() {
		err := b.during(func() { b.domain("real", on(path, "vda", "qcow2")) }, "destroy", "web", op.Params{})
		require.ErrorContains(b.t, err, "real uses it")
		require.False(b.t, driver.IsUnknown(err), "nothing was done")
	})
}
