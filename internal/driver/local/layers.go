package local

import (
	"fmt"
	"os"
	"strings"

	"gated/internal/driver"
)

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
