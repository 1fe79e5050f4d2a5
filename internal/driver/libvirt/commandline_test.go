package libvirt

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
)

func init() {
	beds["what every step leaves is named"] = leftAlone
	beds["a disk below a file that QEMU's command line names"] = belowALine
	beds["other hands between the look and the step"] = otherHands
	beds["other hands right before the work"] = lastMoment
}

// TestPathsOfAnArgument: a form that is not read hides a file, so each form of QEMU's is here.
func TestPathsOfAnArgument(t *testing.T) {
	for arg, want := range map[string][]string{
		"-snapshot":                                       nil,
		"/srv/a.img":                                      {"/srv/a.img"},
		"file:/srv/a.img":                                 {"/srv/a.img"},
		"file=/srv/a.img,if=virtio,format=raw":            {"/srv/a.img"},
		"if=virtio,file=/srv/a,,b=c.img":                  {"/srv/a,b=c.img"},
		"file=/srv/{a}.img,if=virtio":                     {"/srv/{a}.img"},
		"file=fat:rw:/srv/dir":                            {"/srv/dir"},
		"local,path=/srv/dir,id=f":                        {"/srv/dir"},
		"file=nbd://host/srv/a.img":                       nil,
		"file=nbd:unix:/run/s,format=raw":                 {"/run/s"},
		`{"driver":"file","filename":"/srv/a,b"}`:         {"/srv/a,b"},
		`file=json:{"file":{"filename":"file:\/srv\/a"}}`: {"/srv/a"},
		`{"file":{"filename":"/srv/a"},"backing":{"file":{"filename":"/srv/b"}}}`: {"/srv/a", "/srv/b"},
	} {
		require.Equal(t, want, pathsOf(arg), arg)
	}
}

// line is QEMU's command line in a definition.
func line(args ...string) string {
	var b strings.Builder
	for _, a := range args {
		b.WriteString("<qemu:arg value='" + escape(a) + "'/>")
	}
	return "<qemu:commandline xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>" + b.String() + "</qemu:commandline>"
}

// TestWhatTwoCommandLinesName: a file or a directory that two command lines name is shared, in any form, unless it is only read.
func TestWhatTwoCommandLinesName(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.img")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.NoError(t, os.Symlink(dir, dir+"-link"))
	named := file + " (" + commandLine + ")"
	for name, c := range map[string]struct{ a, b, says string }{
		"one form":                    {line("-drive", "file="+file), line("-hdb", file), named + ", which guest b uses as well"},
		"JSON":                        {line("-blockdev", `{"driver":"file","filename":"`+file+`"}`), on(file, "vda", "raw"), named + ", which guest b uses as well"},
		"by a link":                   {line("-drive", "file="+file), line("-drive", "file="+dir+"-link/a.img"), named + ", which guest b uses as well"},
		"a disk":                      {on(file, "vda", "raw"), line("-blockdev", `{"driver":"file","filename":"`+file+`"}`), "vda, which guest b uses as well"},
		"a directory":                 {line("-fsdev", "local,id=f,path="+dir), fileSystem(dir), dir + " (" + commandLine + "), which guest b uses as well"},
		"a disk in one":               {on(file, "vda", "raw"), line("-virtfs", "local,path="+dir+",mount_tag=t"), "vda, which lies in a directory that guest b has"},
		"only read":                   {line("-drive", "file="+file+",readonly=on"), line("-drive", "file="+file), ""},
		"read only, but for a moment": {line("-blockdev", "driver=file,node-name=n,auto-read-only=on,filename="+file), line("-drive", "file="+file), named + ", which guest b uses as well"},
		"a path that says so":         {line("-drive", "file="+file+",,readonly=on"), line("-drive", "file="+file+",,readonly=on"), file + ",readonly=on (" + commandLine + "), which guest b uses as well"},
		"a file below is only read":   {line("-drive", "file="+file+",backing.read-only=on"), line("-drive", "file="+file), named + ", which guest b uses as well"},
		"the same as JSON": {line("-blockdev", `{"driver":"qcow2","file":{"driver":"file","filename":"`+file+`"},"backing":{"driver":"null-co","read-only":true}}`),
			line("-drive", "file="+file), named + ", which guest b uses as well"},
		"only read, as JSON": {line("-blockdev", `{"driver":"file","filename":"`+file+`", "read-only": true}`), line("-drive", "file="+file), ""},
		"no disk":            {line("-bios", file), line("-bios", file), ""},
		"another":            {line("-drive", "file="+file), line("-drive", "file="+file+"2"), ""},
	} {
		var want []string
		if c.says != "" {
			want = []string{c.says}
		}
		outside := strings.NewReplacer("<qemu:commandline", "</devices><qemu:commandline", "</qemu:commandline>", "</qemu:commandline><devices>")
		require.Equal(t, want, between(t, given(t, "a", outside.Replace(c.a)), given(t, "b", outside.Replace(c.b))), name)
	}
}

// leftAlone: a destroy leaves the directories, the media and what QEMU's command line names, and says so. Who signs has signed
// for them.
func leftAlone(b *bed) {
	b.must("create", "scr")
	scr, dir := b.Disks("scr")[0], b.t.TempDir()
	drive, seed, over := b.file("a,b.img", "data"), b.file("seed.iso", "user-data"), b.Image("over")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", scr, over)
	b.Plant("web", "", "")
	before := b.look("web")
	b.Define(strings.NewReplacer("</devices>", `<filesystem type='mount' accessmode='mapped'><source dir='`+dir+`'/><target dir='tag'/></filesystem>`+
		`<disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source file='`+seed+`'/><target dev='sda' bus='sata'/></disk></devices>`,
		"</domain>", line("-drive", "file="+strings.ReplaceAll(drive, ",", ",,")+",if=none", "-blockdev", `{"driver":"file","filename":"`+over+`"}`)+"</domain>").
		Replace(b.Virsh("dumpxml", "web")))
	now := b.look("web")
	require.NotEqual(b.t, before.Fingerprint, now.Fingerprint)
	require.Equal(b.t, before.Incarnation, now.Incarnation)
	remains := b.fact("web", "remains")
	require.Contains(b.t, remains, "after a destroy: sda (the medium "+seed+")")
	require.Contains(b.t, remains, "after any step: ")
	for _, at := range []string{drive + " (" + commandLine + ")", over + " (" + commandLine + ")", "the directory " + dir} {
		require.Contains(b.t, remains, at)
	}
	require.Equal(b.t, []op.Target{target("web")}, b.look("scr").Dependent, "its disk is below a file that the command line names")
	b.keeps(scr, func() { b.refused(refusal.Conflict, "wipe", "scr") })
	b.keeps(drive, func() { b.keeps(seed, func() { b.keeps(over, func() { b.must("destroy", "web") }) }) })
	require.DirExists(b.t, dir)
	require.Empty(b.t, b.look("scr").Dependent)
}

// TestWhatQEMUReadsAsRaw: a path, an id, or a layer above a qcow2 file that says "raw" hides no file below it.
func TestWhatQEMUReadsAsRaw(t *testing.T) {
	for arg, raw := range map[string]bool{
		"file=/srv/a,format=raw,if=none":                                      true,
		"driver=raw,file.filename=/srv/a":                                     true,
		`{"driver": "file", "filename":"/srv/a"}`:                             false,
		`{"driver":"raw","file":{"driver":"file","filename":"/srv/a"}}`:       true,
		"file=/srv/draw/a,if=none":                                            false,
		"file=/srv/a,id=raw,format=qcow2":                                     false,
		`{"driver":"file","filename":"/srv/raw/a"}`:                           false,
		"driver=raw,file.driver=qcow2,file.file.filename=/srv/a":              false,
		`{"driver":"raw","file":{"driver":"qcow2","file":{"filename":"/a"}}}`: false,
	} {
		require.Equal(t, raw, asRaw(arg), arg)
	}
}

// belowALine: a guest's disk below such a file is the other guest's too, whatever the file is called. If the file cannot be followed, it
// may be any disk.
func belowALine(b *bed) {
	b.must("create", "scr")
	scr, over, odd := b.Disks("scr")[0], b.Image("draw-over"), b.Image("odd")
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", scr, over)
	b.Run("qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", scr, odd)
	head := must.Get(os.ReadFile(odd))(b.t)
	head[16] = 0xff // the length of the name
	require.NoError(b.t, os.WriteFile(odd, head, 0o600))
	for _, at := range []string{over, odd} {
		b.Plant("web", "", "")
		b.Define(strings.Replace(b.Virsh("dumpxml", "web"), "</domain>", line("-drive", "file="+at+",if=none")+"</domain>", 1))
		require.Equal(b.t, []op.Target{target("web")}, b.look("scr").Dependent, at)
		b.keeps(scr, func() { b.refused(refusal.Conflict, "wipe", "scr") })
		b.Virsh("undefine", "web")
	}
}

// hands are what an administrator may do to a guest with a disk at any moment.
func (b *bed) hands() map[string]func() {
	edit := func(before, added string) func() {
		return func() { b.Define(strings.Replace(b.Virsh("dumpxml", "web"), before, added+before, 1)) }
	}
	return map[string]func(){
		"a snapshot":    func() { b.Virsh("snapshot-create-as", "web", "late") },
		"a directory":   edit("</devices>", `<filesystem type='mount' accessmode='mapped'><source dir='/srv'/><target dir='tag'/></filesystem>`),
		"a drive":       edit("</domain>", line("-drive", "file="+b.file("late.img", "x")+",if=none")),
		"another's use": func() { b.domain("real", "", "<kernel>"+b.Image("web")+"</kernel>") },
	}
}

// otherHands: what was shown is what is signed. So a change before the signature counts makes the state another one.
func otherHands(b *bed) {
	for name := range b.hands() {
		b.Clear()
		b.Plant("web", "", "")
		before := b.look("web")
		b.hands()[name]()
		require.NotEqual(b.t, before.Fingerprint, b.look("web").Fingerprint, name)
	}
}

// lastMoment: a change after the permit was used stops the step before it takes anything that nobody was shown.
func lastMoment(b *bed) {
	for name := range b.hands() {
		for _, verb := range []string{"wipe", "destroy", "restore"} {
			b.Clear()
			b.Plant("web", "", "")
			params := op.Params{}
			if verb == "restore" {
				b.must("snapshot", "web", "snapshot", "s")
				params = op.Params{"snapshot": "s"}
			}
			path := b.Image("web")
			var after string
			do := func() { b.hands()[name](); after = b.Digest(path) }
			err := b.during(do, verb, "web", params)
			kept := after == b.Digest(path)
			switch {
			case name == "another's use", name == "a snapshot" && verb != "restore":
				require.Error(b.t, err, "%s, %s", name, verb)
				require.False(b.t, driver.IsUnknown(err), "%s, %s: nothing was done: %v", name, verb, err)
				require.True(b.t, kept, "%s, %s", name, verb)
			case verb == "destroy":
				require.ErrorContains(b.t, err, "not seen before", name)
				require.True(b.t, must.Get(b.d.Observe(context.WithoutCancel(b.t.Context()), op.At(target("web"))))(b.t).Present, "its definition stays")
			default:
				require.NoError(b.t, err, "%s, %s", name, verb) // it takes what was shown, and leaves the rest
			}
		}
	}
}
