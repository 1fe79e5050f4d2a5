package libvirt_test

import (
	"testing"

	"gated/internal/driver/drivertest"
	"gated/internal/driver/libvirt/libvirttest"
	"gated/internal/driver/libvirt/libvirtworld"
)

// The driver passes the suite of all drivers, with a real libvirtd.
func TestConformance(t *testing.T) {
	t.Parallel()
	l := libvirttest.Start(t)
	proxy := l.Proxy()
	drivertest.Run(t, func(t *testing.T) drivertest.World { return libvirtworld.New(t, l, proxy) })
}
