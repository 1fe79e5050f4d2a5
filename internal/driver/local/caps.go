package local

import (
	"fmt"
	"os"
	"strings"

	"gated/internal/op"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"
)

// needed are the capabilities with which guests have uids of their own: to become
// one, to give it its data, to read and delete that whatever its modes are, and
// to end its processes. Root has them, or a daemon that was given them.
var needed = []struct {
	number uintptr
	name   string
}{
	{unix.CAP_CHOWN, "CAP_CHOWN"}, {unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"}, {unix.CAP_FOWNER, "CAP_FOWNER"},
	{unix.CAP_KILL, "CAP_KILL"}, {unix.CAP_SETGID, "CAP_SETGID"}, {unix.CAP_SETUID, "CAP_SETUID"},
}

// lacking returns the names of those of them that this process does not have.
func lacking() ([]string, error) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData // version 3 takes two
	if err := unix.Capget(&header, &have[0]); err != nil {
		return nil, fmt.Errorf("capget: %w", err)
	}
	var out []string
	for _, c := range needed {
		if have[0].Effective&(1<<c.number) == 0 {
			out = append(out, c.name)
		}
	}
	return out, nil
}

// switches reports whether this process can give guests uids of their own.
func switches() bool {
	without, err := lacking()
	return err == nil && len(without) == 0
}

// checkCapable refuses where guests could not have uids of their own.
func checkCapable() error {
	without, err := lacking()
	if err != nil || len(without) == 0 {
		return err
	}
	return op.Refuse(op.BadParams, "local.guest_uids: the daemon cannot run guests as other uids without %s", strings.Join(without, ", ")).
		WithHint("give it these (contrib/systemd/guests.conf is a drop-in for that), run it as root, or take the line out")
}

// DropAmbient has no program that this process starts inherit the capabilities that
// a daemon was given. A guest's process gets them until it has become its user,
// and nothing else does. A program that serves calls it first.
func DropAmbient() error {
	_, _, errno := psx.Syscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	if errno != 0 && errno != unix.EINVAL { // before Linux 4.3 there are none
		return fmt.Errorf("drop ambient capabilities: %w", errno)
	}
	return nil
}

// handed are the capabilities that a guest's child begins with: of root's, an exec
// leaves it all, of another uid's, those that are named.
func handed() []uintptr {
	if os.Geteuid() == 0 || !switches() {
		return nil
	}
	var out []uintptr
	for _, c := range needed {
		out = append(out, c.number)
	}
	return out
}
