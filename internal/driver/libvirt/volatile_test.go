package libvirt

import (
	"strings"

	"github.com/stretchr/testify/require"
)

func init() {
	beds["a guest that keeps nothing"] = keepsNothing
	beds["a guest that is paused"] = paused
}

// A guest without a writable disk loses all its data when it stops.
func keepsNothing(b *bed) {
	b.Plant("other", "", "")
	b.domain("none", "")
	b.domain("cd", "<disk type='file' device='cdrom'><source file='"+b.Image("other")+"'/><target dev='sda' bus='sata'/></disk>")
	b.domain("readonly", strings.Replace(on(b.Image("other"), "vda", "qcow2"), "</disk>", "<readonly/></disk>", 1))
	for _, name := range []string{"none", "cd", "readonly"} {
		require.False(b.t, b.look(name).Volatile, "%s does not run", name)
		b.Virsh("start", name)
		require.True(b.t, b.look(name).Volatile, name)
		b.Virsh("destroy", name)
	}
	b.must("start", "other")
	require.False(b.t, b.look("other").Volatile)
}

// A paused guest does not react to a shutdown, so its stop is a power off.
func paused(b *bed) {
	b.Plant("web", "", "")
	b.must("start", "web")
	require.False(b.t, b.look("web").Volatile)
	b.Virsh("suspend", "web")
	require.True(b.t, b.look("web").Volatile)
	b.Virsh("resume", "web")
	require.False(b.t, b.look("web").Volatile)
}
