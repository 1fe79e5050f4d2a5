package local

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"

	"gated/internal/base/refusal"
)

// needed are the capabilities that give guests uids of their own. With them the daemon can
// change to a guest's uid and give the guest its data. It can read and delete that data in
// spite of its modes, and end the guest's processes. Root has them; another daemon must get
// them.
var needed = []struct {
	number uintptr
	name   string
}{
	{unix.CAP_CHOWN, "CAP_CHOWN"}, {unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"}, {unix.CAP_FOWNER, "CAP_FOWNER"},
	{unix.CAP_KILL, "CAP_KILL"}, {unix.CAP_SETGID, "CAP_SETGID"}, {unix.CAP_SETUID, "CAP_SETUID"},
}

// lacking returns the names of the needed capabilities that this process does not have.
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

// checkCapable refuses if this daemon cannot give guests uids of their own.
func checkCapable() error {
	without, err := lacking()
	if err != nil || len(without) == 0 {
		return err
	}
	return refusal.New(refusal.BadParams, "local.guest_uids: the daemon cannot run guests as other uids without %s",
		strings.Join(without, ", ")).
		WithHint("give it these (contrib/systemd/guests.conf is a drop-in for that), run it as root, or take the line out")
}

// DropAmbient keeps the daemon's own capabilities from the programs that this process starts.
// Only a guest's process gets them, until it has changed to its user. A program that serves
// calls DropAmbient first.
func DropAmbient() error {
	_, _, errno := psx.Syscall6(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, 0)
	if errno != 0 && errno != unix.EINVAL { // before Linux 4.3 there are none
		return fmt.Errorf("drop ambient capabilities: %w", errno)
	}
	return nil
}

// handed are the capabilities that a guest's child starts with. An exec leaves root all
// capabilities, and leaves another uid those that are named here.
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
