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

// otherLine: a restore brings the definition of then back, with the drives and directories that it had, of which a look at the guest
// as it is now says nothing.
func otherLine(b *bed) {
	b.Plant("app", "", "")
	b.Plant("web", "", "")
	plain := b.Virsh("dumpxml", "web")
	for name, had := range map[string]func(text string) string{
		"a drive": func(text string) string {
			return strings.Replace(text, "</domain>", line("-drive", "if=none,format=qcow2,file="+b.Image("app"))+"</domain>", 1)
		},
		"a drive that is hidden": func(text string) string {
			return strings.Replace(text, "</domain>", line("-blockdev", "{'driver':'file','filename':'"+b.Image("app")+"'}")+"</domain>", 1)
		},
		"a directory": func(text string) string {
			return strings.Replace(text, "</devices>", `<filesystem type='mount' accessmode='mapped'><source dir='`+b.Images+`'/><target dir='t'/></filesystem></devices>`, 1)
		},
	} {
		b.Define(had(plain))
		b.Virsh("snapshot-create-as", "web", "s")
		b.Define(plain)
		b.keeps(b.Image("web"), func() { b.refused(refusal.Conflict, "restore", "web", "snapshot", "s") })
		_, _, err := b.try("restore", "web", "snapshot", "s")
		require.ErrorContains(b.t, err, "command line of QEMU", name)
		b.must("snapshot-delete", "web", "snapshot", "s")
	}
	b.must("snapshot", "web", "snapshot", "s")
	b.must("restore", "web", "snapshot", "s")
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
	for verb, params := range map[string]op.Params{"snapshot-delete": {"snapshot": "s"}, "restore": {"snapshot": "s"}} {
		b.keeps(b.Image("web"), func() {
			require.ErrorContains(b.t, b.during(protect, verb, "web", params), "changed meanwhile")
		})
		b.Virsh("metadata", "web", "--uri", namespace, "--remove", "--config")
		require.ErrorContains(b.t, b.during(again, verb, "web", params), "is another one")
		require.Equal(b.t, []string{"s"}, b.look("web").Snapshots)
	}
	b.keeps(b.Image("web"), func() {
		require.ErrorContains(b.t, b.during(protect, "destroy", "web", op.Params{}), "changed meanwhile")
	})
	// This definition has no disks, so the undefine itself looks again.
	b.domain("bare", "")
	require.ErrorContains(b.t, b.during(func() {
		b.Define(strings.Replace(b.Virsh("dumpxml", "bare"), "<devices>",
			"<devices>"+on(b.file("late.qcow2", ""), "vda", "qcow2"), 1))
	}, "destroy", "bare", op.Params{}), "not seen before")
	require.True(b.t, b.look("bare").Present)
	must.Get(os.Stat(b.Image("web")))(b.t)
}
