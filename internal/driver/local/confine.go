package local

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/landlock-lsm/go-landlock/landlock"
	landlocksys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
	"kernel.org/pub/linux/libs/security/libcap/psx"

	"gated/internal/base/refusal"
	"gated/internal/driver"
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

// Status says which layers guard a guest's process on this machine.
type Status struct {
	Layers []Layer // between a guest's program and everything else, always all of them
	Memory string  // what limits memory: "cgroup" or "rlimits"
	CPUs   string  // what limits CPUs: "cgroup" or "none"
	Notes  []string
}

// The names of layers.
const (
	LayerUID      = "uid"
	LayerLandlock = "landlock"
	LayerSeccomp  = "seccomp"
)

// Layer is one barrier between a guest's program and everything else.
type Layer struct {
	Name   string
	Stands bool
	Detail string
	remedy string
}

// Status returns the layers that New found.
func (d *Driver) Status() Status {
	s := Status{Layers: []Layer{d.uidLayer(), d.landlockLayer(), d.seccompLayer()}, Memory: byRlimits, CPUs: byNothing}
	if d.cgroups.memory {
		s.Memory = byCgroup
	}
	if d.cgroups.cpu {
		s.CPUs = byCgroup
	}
	if d.cgroups.why != "" {
		s.Notes = append(s.Notes, "limits: "+d.cgroups.why)
	}
	return s
}

// Stands reports if a layer stands.
func (s Status) Stands(name string) bool {
	for _, l := range s.Layers {
		if l.Name == name {
			return l.Stands
		}
	}
	return false
}

func (d *Driver) uidLayer() Layer {
	l := Layer{Name: LayerUID, Stands: true, Detail: "no command can run"}
	var own, shared []string
	for _, name := range sortedKeys(d.accounts) {
		switch {
		case d.accounts[name].Switch:
			shared = append(shared, name)
		case !d.cfg.GuestUIDs.set():
			own = append(own, name)
		}
	}
	if d.cfg.GuestUIDs.set() {
		l.Detail = fmt.Sprintf("each guest has one of %s", d.cfg.GuestUIDs)
	}
	if len(shared) > 0 {
		l.Detail = "the users that these commands name, which their guests share: " + strings.Join(shared, ", ")
		if d.cfg.GuestUIDs.set() {
			l.Detail += fmt.Sprintf("; each other guest has one of %s", d.cfg.GuestUIDs)
		}
	}
	if len(own) > 0 {
		l.Stands, l.remedy = false, "say local: {guest_uids: FIRST-LAST} in gated.yaml, or name a user in local.commands"
		l.Detail = "these commands run as the daemon's own user, and can change the gate itself: " + strings.Join(own, ", ")
		if os.Geteuid() == 0 || !d.cfg.SingleUser {
			l.Detail = "these commands have no user to run as, and are refused: " + strings.Join(own, ", ")
		}
	}
	return l
}

func (d *Driver) landlockLayer() Layer {
	if d.landlock == 0 {
		return Layer{LayerLandlock, false, "the kernel has none: a guest's program reaches everything that its user can",
			"use a kernel with Landlock (5.13 or later, lsm=landlock)"}
	}
	return Layer{Name: LayerLandlock, Stands: true, Detail: fmt.Sprintf("version %d", d.landlock)}
}

func (d *Driver) seccompLayer() Layer {
	if !d.seccomp {
		return Layer{LayerSeccomp, false, "the kernel has none, or gated has no filter for this architecture", "use a kernel with CONFIG_SECCOMP_FILTER"}
	}
	return Layer{Name: LayerSeccomp, Stands: true, Detail: "a filter of system calls"}
}

// checkLayers tells gated doctor which layers stand, and what the operator can do about each
// one that does not.
func (d *Driver) checkLayers() []driver.Finding {
	var out []driver.Finding
	for _, l := range d.Status().Layers {
		f := driver.Finding{What: "guests' " + l.Name, State: driver.OK, Detail: l.Detail, Hint: l.remedy}
		if !l.Stands {
			f.State = driver.Note
		}
		out = append(out, f)
	}
	return out
}
