// Package libvirtworld has the libvirt driver's World for the suite that every driver passes,
// over a real libvirtd. It is only for tests.
package libvirtworld

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/libvirt"
	"gated/internal/driver/libvirt/libvirttest"
	"gated/internal/test/must"
)

// host is a libvirtd with the driver over it. Its functions change guests with virsh.
type host struct {
	*libvirttest.Libvirtd
	t     testing.TB
	d     *libvirt.Driver
	proxy *libvirttest.Proxy
	count int
}

// Config is the driver's configuration in tests. Guests are tiny and emulated. They have little
// time to shut down, because they do not react to a shutdown.
func Config(socket string) libvirt.Config {
	return libvirt.Config{Socket: socket, StopGrace: 100 * time.Millisecond, Timeout: 20 * time.Second,
		Templates: map[string]libvirt.Template{libvirt.DefaultTemplate: {Memory: 32, Disk: 16, Type: "qemu"}}}
}

// New returns a World over l without guests.
func New(t testing.TB, l *libvirttest.Libvirtd, proxy *libvirttest.Proxy) drivertest.World {
	l = l.For(t)
	h := &host{Libvirtd: l, t: t, proxy: proxy}
	l.Clear()
	h.open()
	t.Cleanup(func() { _ = h.d.Close() })
	labels := map[string]any{"tier": "test"}
	return drivertest.World{
		Driver:  h.d,
		Restart: h.restart,
		Make:    func(name string) { l.Plant(name, "", "") },
		Remake:  h.remake,
		Change: func(name string) {
			l.Virsh("metadata", name, "--uri", libvirttest.Namespace, "--key", "gated", "--set", "<guest><label name='by' value='hand'/></guest>", "--config")
		},
		Fill: h.fill,
		Content: func(name string) string {
			return l.Digest(append(l.Disks(name), l.Image(name))...)
		},
		Wishes: []op.Params{{}, {"memory": int64(48), "cpus": int64(2), "command": "", "labels": labels, "protected": false}},
		Changes: []op.Params{{"memory": int64(33)}, {"cpus": int64(3)}, {"labels": labels}, {"memory": int64(64), "cpus": int64(1)},
			{"protected": true}, {"protected": false}},
		Aliases: func(name string) []string {
			return []string{l.Virsh("domuuid", name), strings.ToUpper(l.Virsh("domuuid", name))}
		},
		Abilities: drivertest.Abilities{
			Protect:    h.protect,
			SetMemory:  h.setMemory,
			Runs:       true,
			Volatile:   h.volatile,
			MoveDisk:   h.moveDisk,
			Share:      h.share,
			Leftover:   h.leftover,
			Objects:    h.objects,
			NewIDs:     true,
			NewDisk:    "vdc",
			Sizes:      true,
			Hang:       func(at drivertest.Moment) func() { return proxy.Silence(at == drivertest.AtLook) },
			Lie:        proxy.Lie,
			LoseAnswer: proxy.CutOff,
			Twice:      proxy.Twice,
		},
	}
}

func (h *host) open() {
	d := must.Get(libvirt.New(Config(h.proxy.Socket)))(h.t)
	h.d = d
}

func (h *host) restart() driver.Driver {
	require.NoError(h.t, h.d.Close())
	h.open()
	return h.d
}

// remake forges a guest as well as libvirt allows: the same name, UUID and metadata, and a disk
// with the same path, size and data.
func (h *host) remake(name string) {
	text := h.Virsh("dumpxml", name, "--inactive", "--security-info")
	for _, path := range h.Disks(name) {
		require.NoError(h.t, os.Rename(path, path+".old"))
		h.Run("cp", path+".old", path)
		require.NoError(h.t, os.Remove(path+".old"))
	}
	h.Virsh("undefine", name)
	h.Define(text)
}

func (h *host) fill(name string) {
	h.count++
	for _, path := range h.Disks(name) {
		h.Write(path, fmt.Sprintf("more of %s, %d", name, h.count))
	}
}

func (h *host) protect(name string) {
	h.Virsh("metadata", name, "--uri", libvirttest.Namespace, "--key", "gated", "--set", "<guest protected='yes'/>", "--config")
}

func (h *host) setMemory(name string, mib int64) {
	for _, verb := range []string{"setmaxmem", "setmem"} {
		h.Virsh(verb, name, fmt.Sprint(mib<<10), "--config")
	}
}

// volatile undefines a guest while it runs.
func (h *host) volatile(name string) {
	h.Plant(name, "", "")
	h.Virsh("start", name)
	h.Virsh("undefine", name)
}

func (h *host) moveDisk(from, to string) {
	path := h.Image(from)
	h.Virsh("detach-disk", from, "vda", "--config")
	h.Virsh("attach-disk", to, path, "vdb", "--config", "--driver", "qemu", "--subdriver", "qcow2")
}

func (h *host) share(from, to string) func() {
	first, _, _ := strings.Cut(strings.TrimSpace(h.Virsh("domblklist", from, "--inactive")), "\n")
	_, image, _ := strings.Cut(strings.TrimSpace(first), " ") // its target and its source
	h.Virsh("attach-disk", to, strings.TrimSpace(image), "vdb", "--config", "--driver", "qemu", "--subdriver", "qcow2")
	return func() { h.Virsh("detach-disk", to, "vdb", "--config") }
}

func (h *host) leftover(name string) func() string {
	h.Virsh("vol-create-as", "default", name+".qcow2", "16M", "--format", "qcow2")
	h.Write(h.Image(name), "left over")
	return func() string { return h.Digest(h.Image(name)) }
}

// objects identifies each file of the pool by its path, its inode and its time of birth, as the
// driver does.
func (h *host) objects() (ids []op.StorageID) {
	paths := must.Get(filepath.Glob(filepath.Join(h.Images, "*")))(h.t)
	for _, path := range paths {
		var st unix.Statx_t
		require.NoError(h.t, unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st))
		ids = append(ids, op.StorageID(fmt.Sprintf("libvirt:file:%s@%d.%d.%09d", path, st.Ino, st.Btime.Sec, st.Btime.Nsec)))
	}
	return ids
}
