package libvirt

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/libvirt/libvirttest"
	"gated/internal/test/must"
)

func init() {
	beds["a guest's whole life"] = life
	beds["a guest that was undefined while it runs"] = undefinedWhileRunning
	beds["the same name, without and with its UUID"] = sameName
	beds["memory in KiB"] = kib
	beds["a renamed domain"] = renamed
	beds["another disk in the definition"] = swapped
	beds["a disk of two guests"] = shared
	beds["a disk on top of another"] = chained
	beds["media, and disks that are in no pool"] = notOurs
	beds["what runs and is not configured"] = strangeDisk
	beds["a saved state"] = saved
	beds["a disk below, which may not be read"] = unreadableChain
	beds["a disk that is in a guest twice"] = twiceInOne
	beds["metadata that was copied, and metadata that is none"] = copied
}

func life(b *bed) {
	require.False(b.t, b.look("web").Present)
	b.must("create", "web", "memory", int64(48), "labels", map[string]any{"tier": `<&">'`})
	b.must("create", "other", "template", "raw", "state", "running")
	o := b.look("web")
	require.Equal(b.t, stopped, o.Running)
	require.Equal(b.t, int64(48), o.Spec.Int("memory"))
	require.Equal(b.t, map[string]string{"tier": `<&">'`}, o.Labels)
	require.Len(b.t, o.Storage, 1)
	require.Equal(b.t, int64(16<<20), o.Disks[0].Size)
	require.Equal(b.t, running, b.look("other").Running)

	b.must("start", "web")
	require.Equal(b.t, "paused", func() string { b.Virsh("suspend", "web"); return b.fact("web", "state") }())
	b.Virsh("resume", "web")
	r := b.must("stop", "web")
	require.Contains(b.t, r.Detail, "powered off: it did not shut down", "there is no operating system to hear it")
	require.Equal(b.t, o.Fingerprint, b.look("web").Fingerprint)
	b.must("stop", "web") // it is stopped already
	b.must("restart", "web")
	require.Equal(b.t, running, b.look("web").Running)
	b.must("set-config", "web", "memory", int64(64), "cpus", int64(2), "labels", map[string]any{}, "protected", true)
	require.Contains(b.t, b.fact("web", "from the next start on"), "memory 64 MiB, 48 MiB now")
	now := b.look("web")
	require.Equal(b.t, o.Incarnation, now.Incarnation)
	require.True(b.t, now.Protected)
	require.Contains(b.t, b.Virsh("dumpxml", "web"), `protected="yes"`, "what runs has it, too")
	b.must("destroy", "web")
	require.False(b.t, b.look("web").Present)
	require.Len(b.t, b.files(), 1, "the other's disk")
	for _, f := range b.d.Check(b.t.Context()) {
		require.True(b.t, f.State == driver.OK || strings.Contains(f.What, "no-"), f)
	}
}

// libvirtd undefines a running guest, and the guest is gone when it stops. So a stop of it
// needs a signature, and writes its definition first.
func undefinedWhileRunning(b *bed) {
	b.must("create", "web", "labels", map[string]any{"a": "b"})
	before := b.look("web")
	b.must("start", "web")
	require.False(b.t, b.look("web").Volatile)
	b.Virsh("undefine", "web")
	o := b.look("web")
	require.True(b.t, o.Present)
	require.True(b.t, o.Volatile)
	require.Equal(b.t, before.Incarnation, o.Incarnation)
	require.Equal(b.t, before.Birth, o.Birth)
	require.NotEqual(b.t, before.Fingerprint, o.Fingerprint)
	require.Contains(b.t, b.fact("web", "definition"), "transient")
	b.refused(refusal.Conflict, "set-config", "web", "memory", int64(64))
	b.refused(refusal.Conflict, "snapshot", "web", "snapshot", "s")
	b.must("stop", "web")
	require.Equal(b.t, before.Fingerprint, b.look("web").Fingerprint)
	require.Equal(b.t, stopped, b.look("web").Running)

	b.must("start", "web")
	b.Virsh("undefine", "web")
	b.must("destroy", "web")
	require.False(b.t, b.look("web").Present)
	require.Empty(b.t, b.files())
}

func sameName(b *bed) {
	b.Plant("web", "", "")
	first := b.look("web")
	uuid := b.Virsh("domuuid", "web")
	text := b.Virsh("dumpxml", "web", "--inactive")
	b.Virsh("undefine", "web")
	b.Define(libvirttest.DomainXML("web", "", "", b.Image("web")))
	require.NotEqual(b.t, uuid, b.Virsh("domuuid", "web"))
	require.NotEqual(b.t, first.Incarnation, b.look("web").Incarnation, "another UUID under the name")

	b.Virsh("undefine", "web")
	require.NoError(b.t, os.Rename(b.Image("web"), b.Image("kept")))
	b.Run("cp", b.Image("kept"), b.Image("web"))
	b.Define(text)
	require.Equal(b.t, uuid, b.Virsh("domuuid", "web"))
	require.NotEqual(b.t, first.Incarnation, b.look("web").Incarnation, "the UUID over a copy of its disk")
	require.NoError(b.t, os.Rename(b.Image("kept"), b.Image("web")))
	require.Equal(b.t, first.Incarnation, b.look("web").Incarnation, "it is back, whole")
}

// libvirt counts memory in KiB, and accepts any unit.
func kib(b *bed) {
	b.Plant("web", "", "")
	for have, mib := range map[string]int64{"32768": 32, "32769": 33, "65536KiB": 64, "33MiB": 33, "34MB": 33, "40000k": 40} {
		b.Virsh("setmaxmem", "web", have, "--config")
		o := b.look("web")
		require.Equal(b.t, mib, o.Spec.Int("memory"), have)
		b.must("set-config", "web", "memory", int64(32))
		require.Equal(b.t, int64(32), b.look("web").Spec.Int("memory"))
		require.Contains(b.t, b.Virsh("dumpxml", "web"), "<memory unit='KiB'>32768</memory>")
	}
	b.Virsh("setmaxmem", "web", "32769", "--config")
	odd := b.look("web").Fingerprint
	b.Virsh("setmaxmem", "web", "32770", "--config")
	require.Equal(b.t, odd, b.look("web").Fingerprint, "a limit loses nothing, so no signature covers it")
}

func renamed(b *bed) {
	b.must("create", "web")
	before := b.look("web")
	b.Virsh("domrename", "web", "db")
	require.False(b.t, b.look("web").Present)
	require.Equal(b.t, before.Incarnation, b.look("db").Incarnation)
	require.NotEqual(b.t, before.Fingerprint, b.look("db").Fingerprint)
	b.refused(refusal.UnknownTarget, "destroy", "web")
	require.Len(b.t, b.files(), 1)
}

func swapped(b *bed) {
	b.Plant("web", "", "")
	b.Plant("db", "", "")
	before := b.look("web")
	text := b.Virsh("dumpxml", "web", "--inactive")
	b.Define(strings.ReplaceAll(text, b.Image("web"), b.Image("db")))
	now := b.look("web")
	require.NotEqual(b.t, before.Incarnation, now.Incarnation)
	a := &allowed{step: op.Step{ID: op.StepID{Job: 1, Index: 1}, Op: "guest.destroy", Target: target("web"), Params: op.Params{}, Incarnation: before.Incarnation}}
	must.Fail(drivertest.Rehearse(b.t.Context(), a, b.d.prepare))(b.t, refusal.StaleTarget)
	require.False(b.t, a.used)
	require.Len(b.t, b.files(), 2)
}

// A disk that other guests use too belongs to them. The facts name them, and the disk stays.
func shared(b *bed) {
	b.Plant("web", "", "")
	b.Define(libvirttest.DomainXML("db", "", "", b.Image("web")))
	o := b.look("web")
	require.Equal(b.t, []op.Target{target("db")}, o.Dependent)
	require.Equal(b.t, []op.Target{target("web")}, b.look("db").Dependent)
	require.Equal(b.t, []string{"vda, which guest db uses as well"}, o.Shares, "a start of both writes one disk")
	require.Contains(b.t, b.fact("web", "remains"), "used by others")
	for _, verb := range []string{"disk-wipe", "disk-delete"} {
		b.refused(refusal.Conflict, verb, "web", "disk", "vda")
	}
	b.refused(refusal.Conflict, "wipe", "web")
	b.refused(refusal.Conflict, "disk-resize", "web", "disk", "vda", "size", int64(64))
	before := b.Digest(b.Image("web"))
	b.must("destroy", "web")
	require.False(b.t, b.look("web").Present)
	require.Equal(b.t, before, b.Digest(b.Image("web")))
	require.Empty(b.t, b.look("db").Dependent)
}

func chained(b *bed) {
	b.Plant("base", "", "")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", b.Image("base"), b.Image("middle"))
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", "middle.qcow2", b.Image("top"))
	b.Virsh("pool-refresh", "default")
	b.Define(libvirttest.DomainXML("top", "", "", b.Image("top")))
	require.Equal(b.t, []op.Target{target("top")}, b.look("base").Dependent)
	require.Empty(b.t, b.look("top").Dependent)
	require.Equal(b.t, []string{"vda, which guest top uses as well"}, b.look("base").Shares, "a start of it spoils what is on top")
	require.Empty(b.t, b.look("top").Shares)
	b.refused(refusal.Conflict, "wipe", "base")
	b.must("wipe", "top")
	require.Empty(b.t, b.look("base").Dependent, "what was wiped is on top of nothing")
	require.True(b.t, b.holds(b.Image("top"), "qcow2", "0"))
}

func notOurs(b *bed) {
	iso := filepath.Join(b.Images, "cd.iso")
	require.NoError(b.t, os.WriteFile(iso, make([]byte, 1<<20), 0o600))
	away := b.file("away.qcow2", "")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", away, "16M")
	b.Virsh("pool-refresh", "default")
	b.Plant("web", "", "")
	before := b.look("web").Incarnation
	b.Virsh("attach-disk", "web", iso, "hda", "--type", "cdrom", "--mode", "readonly", "--config")
	require.Equal(b.t, before, b.look("web").Incarnation, "a CD makes nobody another one")
	b.Virsh("attach-disk", "web", away, "vdb", "--config", "--driver", "qemu", "--subdriver", "qcow2")
	o := b.look("web")
	require.NotEqual(b.t, before, o.Incarnation)
	require.Len(b.t, o.Storage, 1)
	require.Len(b.t, o.Disks, 2)
	require.Contains(b.t, b.fact("web", "remains"), "vdb (in no active pool")
	b.refused(refusal.Conflict, "disk-wipe", "web", "disk", "vdb")
	b.refused(refusal.Conflict, "disk-delete", "web", "disk", "vdb")
	b.refused(refusal.UnknownTarget, "disk-wipe", "web", "disk", "hda")
	b.must("destroy", "web")
	require.Equal(b.t, []string{"cd.iso"}, b.files())
	require.FileExists(b.t, away)
}

func strangeDisk(b *bed) {
	b.Plant("web", "", "")
	b.must("start", "web")
	extra := b.file("extra.qcow2", "")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", extra, "16M")
	before := b.look("web")
	b.Virsh("attach-disk", "web", extra, "vdb", "--live", "--driver", "qemu", "--subdriver", "qcow2")
	o := b.look("web")
	require.True(b.t, o.Volatile)
	require.Equal(b.t, before.Incarnation, o.Incarnation)
	require.NotEqual(b.t, before.Fingerprint, o.Fingerprint)
	require.Contains(b.t, b.fact("web", "only while it runs"), "vdb")
	b.must("destroy", "web")
	require.FileExists(b.t, extra)
}

func saved(b *bed) {
	b.must("create", "web", "state", "running")
	before := b.look("web")
	b.Virsh("managedsave", "web")
	o := b.look("web")
	require.Equal(b.t, stopped, o.Running)
	require.NotEqual(b.t, before.Fingerprint, o.Fingerprint)
	require.Len(b.t, o.Storage, len(before.Storage)+1)
	b.refused(refusal.Conflict, "wipe", "web")
	b.must("destroy", "web")
	require.False(b.t, b.look("web").Present)
}

func copied(b *bed) {
	b.must("create", "web", "protected", true, "labels", map[string]any{"tier": "prod"})
	o := b.look("web")
	text := b.Virsh("dumpxml", "web", "--inactive")
	mark := text[strings.Index(text, "<gated:guest"):strings.Index(text, "</metadata>")]
	b.Plant("db", "", mark)
	forged := b.look("db")
	require.NotEmpty(b.t, o.Birth)
	require.Empty(b.t, forged.Birth, "it was written for another")
	require.True(b.t, forged.Protected, "protection holds wherever it is")
	require.Equal(b.t, o.Labels, forged.Labels)
	for _, bad := range []string{mark + strings.Replace(mark, `"yes"`, `"no"`, 1),
		`<gated:guest xmlns:gated="` + namespace + `"><gated:label name="-" value="x"/></gated:guest>`} {
		b.Define(strings.Replace(libvirttest.DomainXML("odd", newUUID(), "", b.Image("db")), "<metadata></metadata>", "<metadata>"+bad+"</metadata>", 1))
		_, err := b.d.Observe(b.t.Context(), op.At(target("odd")))
		if err == nil { // libvirt keeps one element of a namespace
			require.Len(b.t, b.look("odd").Dependent, 1)
		} else {
			require.ErrorIs(b.t, err, refusal.Conflict)
			all := must.Get(b.d.List(b.t.Context()))(b.t)
			require.Len(b.t, all, 3, "one that cannot be read hides no other")
		}
		b.Virsh("undefine", "odd")
	}
}

// If the daemon may not read a file, it asks libvirtd.
func unreadableChain(b *bed) {
	b.Plant("base", "", "")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", b.Image("base"), b.Image("top"))
	b.Virsh("pool-refresh", "default")
	s := must.Get(b.d.session(b.t.Context()))(b.t)
	defer b.d.release(s)
	below := must.Get(backingByPool(b.t.Context(), s, b.Image("top")))(b.t)
	require.Equal(b.t, b.Image("base"), below)
	below = must.Get(backingByPool(b.t.Context(), s, b.Image("base")))(b.t)
	require.Empty(b.t, below)
	must.Err(backingByPool(b.t.Context(), s, "/no/such/file"))(b.t, "nobody knows what is below it")
	require.False(b.t, s.broken)
}

// A disk that a guest has twice is one object.
func twiceInOne(b *bed) {
	b.Plant("web", "", "")
	b.Virsh("undefine", "web")
	b.Define(libvirttest.DomainXML("web", "", "", b.Image("web"), b.Image("web")))
	require.Len(b.t, b.look("web").Storage, 1)
	b.must("destroy", "web")
	require.Empty(b.t, b.files())
}
