package postgres

import (
	"fmt"
	"os"
	"syscall"
	"testing"
)

// SmallDisk mounts a file system in memory of so many MiB. It needs root.
func SmallDisk(t testing.TB, mib int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	dir, err := os.MkdirTemp("", "gated-disk")
	ok(t, err)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0755", mib)); err != nil {
		_ = os.Remove(dir)
		t.Skip("cannot mount here:", err)
	}
	t.Cleanup(func() {
		ok(t, syscall.Unmount(dir, syscall.MNT_DETACH))
		ok(t, os.Remove(dir))
	})
	return dir
}
