package proxmox_test

import (
	"testing"

	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox/pveworld"
)

// The driver passes the suite of all drivers with guests of both kinds.
func TestConformance(t *testing.T) {
	for _, kind := range []string{"qemu", "lxc"} {
		t.Run(kind, func(t *testing.T) {
			drivertest.Run(t, func(t *testing.T) drivertest.World { return pveworld.New(t, kind) })
		})
	}
}
