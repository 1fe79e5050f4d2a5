package libvirt

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// An existing inactive pool needs no definition.
func TestPoolHint(t *testing.T) {
	t.Parallel()
	require.Equal(t, "virsh pool-start images; virsh pool-autostart images",
		poolHint("images", refusal.New(refusal.Unavailable, "the storage pool %q is not active", "images")))
	require.Equal(t, "virsh pool-define-as images dir --target DIRECTORY; virsh pool-start images; virsh pool-autostart images",
		poolHint("images", refusal.New(refusal.Conflict, "libvirt has no storage pool %q", "images")))
}
