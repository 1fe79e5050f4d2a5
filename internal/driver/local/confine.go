package local

import (
	"fmt"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// versions are go-landlock's configurations by the version of Landlock. Each handles everything
// that its version can.
var versions = []landlock.Config{landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6, landlock.V7, landlock.V8,
	landlock.V9}

// landlockABI returns the version of Landlock that confines guests. It is the kernel's version
// or the newest that this package knows; 0 means none.
func (c *Config) landlockABI() int {
	v, err := landlocksys.LandlockGetABIVersion()
	if err != nil || v < 0 || c.without.landlock {
		return 0
	}
	if c.landlock > 0 {
		v = min(v, c.landlock)
	}
	return min(v, len(versions))
}

// confine leaves the process its data directory (the current one), the system's programs and
// libraries, its own program, and the harmless devices. If the kernel can, it also keeps the
// process from signalling others and from their sockets. The network stays open. For version 0,
// no Landlock, it does nothing: the parent knows that and has decided.
func confine(program string, version int) error {
	if version == 0 {
		return nil
	}
	data := landlock.RWDirs(".")
	if version >= 2 {
		data = data.WithRefer() // otherwise the guest could not move files between its directories
	}
	config := versions[version-1]
	config.HandledAccessNet = 0
	err := config.Restrict(
		data,
		landlock.RODirs("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc").IgnoreIfMissing(),
		landlock.ROFiles(program).IgnoreIfMissing(),
		landlock.RWFiles("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom").IgnoreIfMissing(),
	)
	if err != nil {
		return fmt.Errorf("confine with landlock: %w", err)
	}
	return nil
}

// dropPrivileges becomes the account and gives up every capability, also if the uid stays
// root's. Such a process owns root's files, but has no more rights than any owner. With
// no_new_privs set, no later exec brings a capability back (capabilities(7), prctl(2)).
func dropPrivileges(a account) error {
	if a.Switch {
		if err := syscall.Setgroups([]int{}); err != nil {
			return fmt.Errorf("setgroups: %w", err)
		}
		if err := syscall.Setgid(int(a.GID)); err != nil {
			return fmt.Errorf("setgid: %w", err)
		}
		if err := syscall.Setuid(int(a.UID)); err != nil {
			return fmt.Errorf("setuid: %w", err)
		}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData // version 3 takes two
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}
