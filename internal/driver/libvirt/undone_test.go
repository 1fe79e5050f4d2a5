package libvirt

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"

	golibvirt "github.com/digitalocean/go-libvirt"
)

func init() {
	beds["what lingers"] = lingering
	beds["a guest without a definition, half destroyed"] = halfTransient
	beds["a snapshot of other disks"] = otherDisks
	beds["a snapshot of a guest that had more than disks"] = otherLine
	beds["a saved state of a guest that had more"] = savedWith
	beds["a restore over a disk of two guests"] = restoreShared
	beds["a volume that is taken back after a change"] = takenBack
	beds["changes while a step waits"] = changedMeanwhile
}

func (b *bed) lingers(name string, i op.Incarnation) string {
	b.t.Helper()
	return must.Get(b.d.Observe(b.t.Context(), op.Look{Target: target(name), Incarnation: i}))(b.t).Lingers
}

func lingering(b *bed) {
	b.must("create", "web")
	b.must("disk-create", "web", "disk", "vdb", "size", int64(16))
	i := b.look("web").Incarnation
	require.Empty(b.t, b.lingers("web", i))
	require.Empty(b.t, b.lingers("web", "pve:100"))
	vda, vdb := b.Disks("web")[0], b.Disks("web")[1]
	err := b.during(func() { b.domain("real", on(vdb, "vda", "qcow2")) }, "destroy", "web", op.Params{})
	require.True(b.t, driver.IsUnknown(err), err)
	require.NoFileExists(b.t, vda)
	require.FileExists(b.t, vdb)
	require.NotEqual(b.t, i, b.look("web").Incarnation)
	require.Contains(b.t, b.lingers("web", i), "as web")
	b.Virsh("domrename", "web", "db")
	require.False(b.t, b.look("web").Present)
	require.Contains(b.t, b.lingers("web", i), "as db")
	b.must("destroy", "db")
	require.Empty(b.t, b.lingers("web", i))
	require.FileExists(b.t, vdb)
}

// The definition is written first. If a destroy is interrupted after the power off, the guest
// stays visible.
func halfTransient(b *bed) {
	b.must("create", "web", "state", "running")
	b.must("disk-create", "web", "disk", "vdb", "size", int64(16))
	i := b.look("web").Incarnation
	vda := b.Disks("web")[0]
	b.Virsh("undefine", "web")
	err := b.during(func() { b.domain("real", on(vda, "vda", "qcow2")) }, "destroy", "web", op.Params{})
	require.True(b.t, driver.IsUnknown(err), err)
	o := b.look("web")
	require.True(b.t, o.Present)
	require.Equal(b.t, i, o.Incarnation)
	require.Equal(b.t, stopped, o.Running)
}

func otherDisks(b *bed) {
	b.must("create", "web")
	b.must("snapshot", "web", "snapshot", "s")
	b.must("disk-create", "web", "disk", "vdb", "size", int64(16))
	b.keeps(b.Disks("web")[1], func() { b.refused(refusal.Conflict, "restore", "web", "snapshot", "s") })
	require.Len(b.t, b.look("web").Disks, 2)
	b.Virsh("detach-disk", "web", "vdb", "--config")
	b.must("restore", "web", "snapshot", "s")
}

// otherLine: a restore brings the definition of then back, with all that it named, of which a look at the guest as it is now says
// nothing. A start from a saved state does the same.
func otherLine(b *bed) {
	b.Plant("app", "", "")
	b.Plant("web", "", "")
	plain, app := b.Virsh("dumpxml", "web"), b.Image("app")
	device := func(text string) func(string) string {
		return func(def string) string { return strings.Replace(def, "</devices>", text+"</devices>", 1) }
	}
	inOS := func(text string) func(string) string {
		return func(def string) string { return strings.Replace(def, "</os>", text+"</os>", 1) }
	}
	qemu := func(args ...string) func(string) string {
		return func(def string) string { return strings.Replace(def, "</domain>", line(args...)+"</domain>", 1) }
	}
	for says, had := range map[string]func(text string) string{
		"another command line of QEMU":     qemu("-drive", "if=none,format=qcow2,file="+app),
		"had another command line":         qemu("-blockdev", "{'driver':'file','filename':'"+app+"'}"),
		"the directory " + b.Images:        device(`<filesystem type='mount' accessmode='mapped'><source dir='` + b.Images + `'/><target dir='t'/></filesystem>`),
		app + " (serial)":                  device(`<serial type='file'><source path='` + app + `'/></serial>`),
		app + " (channel)":                 device(`<channel type='unix'><source mode='bind' path='` + app + `'/><target type='virtio' name='x'/></channel>`),
		app + " (kernel)":                  inOS("<kernel>" + app + "</kernel>"),
		app + " (loader)":                  inOS("<loader type='rom'>" + app + "</loader>"),
		"the host device pci 0000:01:00.0": device(`<hostdev mode='subsystem' type='pci'><source><address bus='1' slot='0' function='0'/></source></hostdev>`),
		"the host device pci 0000:02:00.0": device(`<interface type='hostdev'><source><address type='pci' domain='0' bus='2' slot='0' function='0'/></source></interface>`),
		"the shared memory mine":           device(`<shmem name='mine'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>`),
		"other disks":                      device(strings.NewReplacer("device='disk'", "device='floppy'", "virtio", "fdc").Replace(on(app, "fda", "qcow2"))),
		"another-emulator (emulator)": func(def string) string {
			return regexp.MustCompile("<emulator>.*</emulator>").ReplaceAllString(def, "<emulator>"+b.another()+"</emulator>")
		},
	} {
		b.Define(had(plain))
		b.Virsh("snapshot-create-as", "web", "s")
		b.Define(plain)
		b.keeps(b.Image("web"), func() { b.refused(refusal.Conflict, "restore", "web", "snapshot", "s") })
		_, _, err := b.try("restore", "web", "snapshot", "s")
		require.ErrorContains(b.t, err, says)
		b.must("snapshot-delete", "web", "snapshot", "s")
	}
	b.Define(device(on(app, "vdb", "qcow2"))(plain))
	b.Virsh("snapshot-create-as", "web", "s")
	b.Define(device(on(app, "vdb", "qcow2", "<readonly/>"))(plain))
	b.keeps(app, func() { b.refused(refusal.Conflict, "restore", "web", "snapshot", "s") }) // it wrote then what it only reads now
	b.must("snapshot-delete", "web", "snapshot", "s")
	b.Define(plain)
	b.must("snapshot", "web", "snapshot", "s")
	b.must("restore", "web", "snapshot", "s")
}

// another is another program that runs guests.
func (b *bed) another() string {
	path := b.file("another-emulator", "#!/bin/sh\nexec /usr/bin/qemu-system-x86_64 \"$@\"\n")
	require.NoError(b.t, os.Chmod(path, 0o700))
	return path
}

// usual are devices that most guests have. libvirtd writes more of them into the definition of a guest that runs.
const usual = `<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel><graphics type='vnc' autoport='yes'/>` +
	`<rng model='virtio'><backend model='random'>/dev/urandom</backend></rng><interface type='user'/><serial type='pty'/>`

// savedWith: libvirtd goes on with the definition that is in a saved state, whatever the guest's definition is now.
func savedWith(b *bed) {
	b.Plant("app", "", "")
	app := b.Image("app")
	for says, had := range map[string]string{"other disks": on(app, "vdb", "qcow2"), app + ".log (serial)": "<serial type='file'><source path='" + app + ".log'/></serial>"} {
		b.Plant("web", "", "")
		plain := strings.Replace(b.Virsh("dumpxml", "web"), "</devices>", usual+"</devices>", 1)
		b.Define(strings.Replace(plain, "</devices>", had+"</devices>", 1))
		b.Virsh("start", "web")
		b.Virsh("managedsave", "web")
		b.Define(plain)
		b.keeps(app, func() { b.refused(refusal.Conflict, "start", "web") })
		_, _, err := b.try("start", "web")
		require.ErrorContains(b.t, err, says)
		b.Virsh("managedsave-remove", "web")
		b.must("start", "web")
		b.Virsh("managedsave", "web")
		b.must("start", "web")
		require.Equal(b.t, running, b.look("web").Running, "with what it has, it goes on")
		b.must("snapshot", "web", "snapshot", "s")
		b.must("restore", "web", "snapshot", "s")
		b.must("destroy", "web")
	}
}

func restoreShared(b *bed) {
	b.Plant("web", "", "")
	b.must("snapshot", "web", "snapshot", "s")
	b.domain("real", on(b.Image("web"), "vda", "qcow2"))
	b.keeps(b.Image("web"), func() { b.refused(refusal.Conflict, "restore", "web", "snapshot", "s") })
}

// After a discard, the step counts as begun only if it had changed something before.
func takenBack(b *bed) {
	s := must.Get(b.d.session(b.t.Context()))(b.t)
	defer b.d.release(s)
	for _, before := range []bool{false, true} {
		w := &work{Driver: b.d, session: s, begun: before}
		pool := must.Get(w.pool(b.t.Context(), "default"))(b.t)
		vol, _ := must.Two(w.newVolume(b.t.Context(), pool, "v.qcow2", formatQCOW2, 1<<20, ""))(b.t)
		require.True(b.t, w.begun)
		w.discard(b.t.Context(), vol, before)
		require.Equal(b.t, before, driver.IsUnknown(w.worded(golibvirt.Error{Message: "no"})))
		require.Empty(b.t, b.files())
	}
}

var created = regexp.MustCompile(`<creationTime>[0-9]+</creationTime>`)

func changedMeanwhile(b *bed) {
	protect := func() {
		b.Virsh("metadata", "web", "--uri", namespace, "--key", "gated", "--set", "<guest protected='yes'/>", "--config")
	}
	count := 0
	again := func() { // libvirt counts a snapshot's time in seconds, and accepts a given time
		count++
		text := created.ReplaceAllString(b.Virsh("snapshot-dumpxml", "web", "s"), fmt.Sprintf("<creationTime>%d</creationTime>", count))
		b.Virsh("snapshot-create", "web", b.file("s.xml", text), "--redefine")
	}
	b.Plant("web", "", "")
	b.must("snapshot", "web", "snapshot", "s")
	changed := func(err error, words string) {
		b.t.Helper()
		require.ErrorContains(b.t, err, words)
		require.ErrorIs(b.t, err, refusal.StaleTarget)
	}
	for verb, params := range map[string]op.Params{"snapshot-delete": {"snapshot": "s"}, "restore": {"snapshot": "s"}} {
		b.keeps(b.Image("web"), func() {
			changed(b.during(protect, verb, "web", params), "changed meanwhile")
		})
		b.Virsh("metadata", "web", "--uri", namespace, "--remove", "--config")
		changed(b.during(again, verb, "web", params), "is another one")
		require.Equal(b.t, []string{"s"}, b.look("web").Snapshots)
	}
	b.keeps(b.Image("web"), func() {
		changed(b.during(protect, "destroy", "web", op.Params{}), "changed meanwhile")
	})
	// This definition has no disks, so the undefine itself looks again.
	b.domain("bare", "")
	changed(b.during(func() {
		b.Define(strings.Replace(b.Virsh("dumpxml", "bare"), "<devices>",
			"<devices>"+on(b.file("late.qcow2", ""), "vda", "qcow2"), 1))
	}, "destroy", "bare", op.Params{}), "not seen before")
	require.True(b.t, b.look("bare").Present)
	must.Get(os.Stat(b.Image("web")))(b.t)
}
