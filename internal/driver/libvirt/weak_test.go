package libvirt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/test/must"
)

func init() {
	beds["a disk by other hands in a new guest"] = foreign
	beds["a file system without birth times"] = noBirthTimes
}

func foreign(b *bed) {
	b.Plant("real", "", "")
	b.Virsh("undefine", "real")
	b.must("create", "scr")
	require.NotEmpty(b.t, b.look("scr").Birth)
	b.Virsh("attach-disk", "scr", b.Image("real"), "vdb", "--config", "--subdriver", "qcow2")
	require.Empty(b.t, b.look("scr").Birth, "that disk was not made by the step")
	b.Virsh("detach-disk", "scr", "vdb", "--config")
	require.NotEmpty(b.t, b.look("scr").Birth)
}

// An inode alone is weak, because ext4 gives it to the next file.
func TestFileID(t *testing.T) {
	st := unix.Statx_t{Ino: 7, Btime: unix.StatxTimestamp{Sec: 1}, Mask: unix.STATX_BTIME}
	some := func(string) (uint32, bool) { return 3, true }
	none := func(string) (uint32, bool) { return 0, false }
	id, weak := fileID("/a", st, some)
	require.Equal(t, op.StorageID("libvirt:file:/a@7.1.000000000"), id)
	require.False(t, weak)
	st.Mask = 0
	id, weak = fileID("/a", st, some)
	require.Equal(t, op.StorageID("libvirt:file:/a@7.g3"), id)
	require.False(t, weak)
	id, weak = fileID("/a", st, none)
	require.Equal(t, op.StorageID("libvirt:weak:/a@7"), id)
	require.True(t, weak)
	_, weak = must.Two(identify(disk{path: filepath.Join(t.TempDir(), "none")}))(t)
	require.True(t, weak)
	require.False(t, weakPlace("/dev/null"), "a pool of devices")
}

// procfs has no birth times and no generations.
func noBirthTimes(b *bed) {
	require.True(b.t, weakPlace("/proc/self"))
	b.Virsh("pool-define-as", "odd", "dir", "--target", "/proc/sys/kernel")
	b.Virsh("pool-start", "odd")
	defer func() { b.Virsh("pool-destroy", "odd"); b.Virsh("pool-undefine", "odd") }()
	c := Config{Pool: "odd"}
	d := b.open(c)
	noted := false
	for _, f := range d.Check(b.t.Context()) {
		noted = noted || f.What == "pool odd" && f.State == driver.Note && strings.Contains(f.Detail, "birth times")
	}
	require.True(b.t, noted)
	b.d = d
	b.refused(refusal.Conflict, "create", "web")
	b.d = b.open(Config{})
	b.must("create", "web")
	require.NoError(b.t, os.Remove(b.Disks("web")[0]))
	o := b.look("web")
	require.Empty(b.t, o.Birth, "its disk is not there")
	require.Contains(b.t, b.fact("web", "other disk vda"), "qcow2")
}
