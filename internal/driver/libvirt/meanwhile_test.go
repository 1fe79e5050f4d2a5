package libvirt

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
)

func init() {
	beds["a disk that grows while a resize waits"] = grownMeanwhile
	beds["a guest that is started while a step waits"] = startedMeanwhile
	beds["a disk is taken off that is not the one that was seen"] = otherMeanwhile
	beds["another guest gets a disk while a start waits"] = sharedMeanwhile
	beds["a resize of a disk that is not the one that runs"] = resizeOther
}

// size is the size of a disk's content in MiB.
func (b *bed) size(path string) string {
	b.t.Helper()
	out := b.Run("qemu-img", "info", "-U", "--output", "json", path)
	_, rest, _ := strings.Cut(out, `"virtual-size":`)
	bytes := must.Get(strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, ",", 2)[0]), 10, 64))(b.t, out)
	return strconv.FormatInt(bytes>>20, 10)
}

// grownMeanwhile: other hands make a disk larger after the look. Then neither a larger size that nobody had to sign nor a
// smaller one that was signed cuts what they wrote there.
func grownMeanwhile(b *bed) {
	for name, c := range map[string]struct {
		template, state string
		to              int64
		hands           func(path string)
		then            string
	}{
		"larger, by libvirt":   {"raw", stopped, 24, func(string) { b.Virsh("vol-resize", "--vol", b.Disks("web")[0], "40M") }, "40"},
		"larger, by hand":      {"raw", stopped, 24, func(path string) { require.NoError(b.t, os.Truncate(path, 40<<20)) }, "40"},
		"qcow2, by hand":       {"default", stopped, 24, func(path string) { b.Run("qemu-img", "resize", "-q", "-f", "qcow2", path, "40M") }, "40"},
		"while it runs":        {"raw", running, 24, func(path string) { b.Virsh("blockresize", "web", path, "40M") }, "40"},
		"qcow2, while it runs": {"default", running, 24, func(path string) { b.Virsh("blockresize", "web", path, "40M") }, "40"},
		"the same, and larger": {"raw", stopped, 16, func(path string) { require.NoError(b.t, os.Truncate(path, 40<<20)) }, "40"},
		"smaller":              {"raw", stopped, 8, func(path string) { require.NoError(b.t, os.Truncate(path, 40<<20)) }, "40"},
		"smaller, and started": {"raw", stopped, 8, func(string) { b.Virsh("start", "web") }, "16"},
		"larger, and started":  {"raw", stopped, 24, func(path string) { b.Virsh("start", "web"); b.Virsh("blockresize", "web", path, "40M") }, "40"},
		"larger, and stopped":  {"raw", running, 24, func(path string) { b.Virsh("destroy", "web"); require.NoError(b.t, os.Truncate(path, 40<<20)) }, "40"},
		"another file": {"raw", stopped, 24, func(path string) {
			require.NoError(b.t, os.Rename(path, path+".old"))
			require.NoError(b.t, os.WriteFile(path, make([]byte, 40<<20), 0o600))
		}, "40"},
	} {
		b.Clear()
		b.must("create", "web", "template", c.template, "state", c.state)
		path := b.Disks("web")[0]
		err := b.during(func() { c.hands(path) }, "disk-resize", "web", op.Params{"disk": "vda", "size": c.to})
		require.Error(b.t, err, name)
		require.False(b.t, driver.IsUnknown(err), "%s: nothing was done: %v", name, err)
		require.Equal(b.t, c.then, b.size(path), name)
		require.ErrorIs(b.t, err, refusal.StaleTarget, name)
	}
}

// resizeOther: QEMU resizes what runs under a name, and the look has the size of what is configured under it.
func resizeOther(b *bed) {
	b.must("create", "web", "template", "raw", "state", "running")
	b.Run("truncate", "-s", "8M", b.Images+"/small.img")
	b.Virsh("pool-refresh", "default")
	path := b.Disks("web")[0]
	text := b.Virsh("dumpxml", "web", "--inactive")
	other := func() { b.Define(strings.Replace(text, "file='"+path, "file='"+b.Images+"/small.img", 1)) }
	other()
	require.Equal(b.t, int64(8<<20), b.look("web").Disks[0].Size)
	b.refused(refusal.Conflict, "disk-resize", "web", "disk", "vda", "size", int64(12))
	require.Equal(b.t, "16", b.size(path))
	b.Define(text)
	require.ErrorIs(b.t, b.during(other, "disk-resize", "web", op.Params{"disk": "vda", "size": int64(24)}), refusal.StaleTarget)
	require.Equal(b.t, "16", b.size(path))
	b.Define(text)
	b.must("disk-resize", "web", "disk", "vda", "size", int64(24))
	require.Equal(b.t, "24", b.size(path))
}

// startedMeanwhile: a guest that other hands start after the look writes what nobody was shown. So nothing is taken from it.
func startedMeanwhile(b *bed) {
	for verb, params := range map[string]op.Params{
		"wipe": {}, "destroy": {}, "disk-wipe": {"disk": "vda"}, "disk-delete": {"disk": "vda"}, "restore": {"snapshot": "s"}, "bare": {},
	} {
		b.Clear()
		b.Plant("web", "", "")
		path := b.Image("web")
		switch verb {
		case "restore":
			b.must("snapshot", "web", "snapshot", "s")
		case "bare": // no disk is looked at before the definition goes
			b.Define(strings.Replace(b.Virsh("dumpxml", "web"), "<driver", "<readonly/><driver", 1))
			verb = "destroy"
		}
		before := b.look("web")
		b.keeps(path, func() {
			err := b.during(func() { b.Virsh("start", "web") }, verb, "web", params)
			require.ErrorIs(b.t, err, refusal.StaleTarget, verb)
			require.ErrorContains(b.t, err, "guest/web was started meanwhile", verb)
			require.False(b.t, driver.IsUnknown(err), "%s: nothing was done: %v", verb, err)
		})
		now := b.look("web")
		require.Equal(b.t, running, now.Running, verb)
		require.Equal(b.t, before.Fingerprint, now.Fingerprint, verb)
	}
}

var protected = regexp.MustCompile(`protected=.no.`)

// otherMeanwhile: a disk is taken off by its name. The disk, and the guest, must be those that an operator was shown.
func otherMeanwhile(b *bed) {
	disk := func() {
		b.Virsh("detach-disk", "web", "vdb", "--config")
		b.Virsh("attach-disk", "web", b.Image("app"), "vdb", "--config", "--driver", "qemu", "--subdriver", "qcow2")
	}
	for want, hands := range map[string]func(){
		"was given another disk meanwhile": disk,
		"was started meanwhile":            func() { b.Virsh("start", "web") },
		"was changed meanwhile":            func() { b.Define(protected.ReplaceAllString(b.Virsh("dumpxml", "web"), "protected='yes'")) },
		"a snapshot or a saved state":      func() { b.Virsh("snapshot-create-as", "web", "s") },
	} {
		b.Clear()
		b.Plant("app", "", "")
		b.must("create", "web")
		b.must("disk-create", "web", "disk", "vdb", "size", int64(8))
		err := b.during(hands, "disk-detach", "web", op.Params{"disk": "vdb"})
		require.ErrorContains(b.t, err, want)
		require.ErrorIs(b.t, err, refusal.StaleTarget, want)
		require.False(b.t, driver.IsUnknown(err), "%s: nothing was done: %v", want, err)
		require.Len(b.t, b.look("web").Disks, 2, want)
	}
}

// sharedMeanwhile: since the look, other hands gave a disk of the guest to another one. A start that nobody signed would have two guests
// write it. A restart looks before it stops the guest, and again before it starts it.
func sharedMeanwhile(b *bed) {
	proxy := b.Proxy()
	b.d = b.open(Config{Socket: proxy.Socket})
	atShutdown := func(hands func(), verb, name string, params op.Params) error {
		var once sync.Once
		defer proxy.Tell(nil)
		return b.during(func() {
			proxy.Tell(func(changes, _ bool) {
				if changes {
					once.Do(hands)
				}
			})
		}, verb, name, params)
	}
	for when, c := range map[string]struct {
		before, after string
		during        func(hands func(), verb, name string, params op.Params) error
	}{
		"start":                {stopped, stopped, b.during},
		"restart":              {running, running, b.during},
		"restart, at its stop": {running, stopped, atShutdown},
	} {
		verb, _, _ := strings.Cut(when, ", ")
		for name, hands := range map[string]func(path string){
			"to another guest": func(path string) { b.domain("real", on(path, "vda", "qcow2")) },
			"of another guest": func(path string) {
				b.Virsh("attach-disk", "web", b.Image("app"), "vdb", "--config", "--driver", "qemu", "--subdriver", "qcow2")
			},
			"a directory":   func(string) { b.domain("real", fileSystem(b.Images)) },
			"a hidden line": func(string) { b.domain("real", "</devices>"+line("-readconfig", "/etc/x")+"<devices>") },
			"a port over a disk": func(string) {
				b.edit("web", "</devices>", "<serial type='file'><source path='"+b.Image("app")+"'/></serial>")
			},
			"a way back": func(string) { b.edit("web", "</domain>", line("-loadvm", "s")) },
		} {
			b.Clear()
			b.Plant("app", "", "")
			b.must("create", "web", "state", c.before)
			path := b.Disks("web")[0]
			b.keeps(b.Image("app"), func() {
				err := c.during(func() { hands(path) }, verb, "web", op.Params{})
				require.Error(b.t, err, "%s, %s", when, name)
				require.Equal(b.t, c.before != c.after, driver.IsUnknown(err), "%s, %s: %v", when, name, err)
				if name != "a way back" {
					require.ErrorIs(b.t, err, refusal.StaleTarget, "%s, %s", when, name)
				}
			})
			require.Equal(b.t, c.after, b.look("web").Running, "%s, %s", when, name)
		}
	}
	b.Clear()
	b.must("create", "web")
	b.domain("real", on(b.Disks("web")[0], "vda", "qcow2"))
	require.NoError(b.t, b.during(func() { b.domain("third", "") }, "start", "web", op.Params{}), "what was signed is done")
}

// edit puts something before a part of a guest's definition.
func (b *bed) edit(name, before, added string) {
	b.t.Helper()
	b.Define(strings.Replace(b.Virsh("dumpxml", name, "--inactive"), before, added+before, 1))
}
