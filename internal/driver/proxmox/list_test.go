package proxmox_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/test/must"
)

// A round over a thousand guests sends one list, and looks only at changed guests and a few
// more.
func TestARoundOverAThousandGuests(t *testing.T) {
	const guests, perGuest, refreshed = 1000, 3, 8
	w := newWorld(t, "qemu")
	for i := range guests {
		w.Make(pvetest.Spec{Kind: []string{"qemu", "lxc"}[i%2], Name: fmt.Sprintf("g%04d", i)})
	}
	round := func() pvetest.Counts {
		w.ResetCounts()
		list := must.Get(w.d.List(t.Context()))(t)
		require.Len(t, list, guests)
		return w.Counts()
	}
	require.Equal(t, pvetest.Counts{List: 1, Detail: guests * perGuest}, round(), "the first round looks at each")
	for range 3 {
		require.Equal(t, pvetest.Counts{List: 1, Detail: refreshed * perGuest}, round())
	}
	for i := range 5 {
		w.Set(w.VMID(fmt.Sprintf("g%04d", 500+i)), map[string]string{"tags": "changed"})
	}
	require.Equal(t, pvetest.Counts{List: 1, Detail: (5 + refreshed) * perGuest}, round())

	// A change that no row shows is seen when List comes to that guest.
	quiet := w.VMID("g0060")
	w.Set(quiet, map[string]string{"description": `gated: {"labels":{"tier":"prod"},"protected":true,"vmid":` + num(quiet) + `}`})
	rounds := 0
	for seen := false; !seen; rounds++ {
		require.Less(t, rounds, guests/refreshed+1)
		list := must.Get(w.d.List(t.Context()))(t)
		seen = list[60].Protected
	}
	require.True(t, w.Look("g0060").Protected, "a look at one guest uses nothing that was kept")
}
