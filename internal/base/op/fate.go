package op

import (
	"slices"
	"strings"
)

// Fate is what becomes, when a step runs, of what a fact is about.
type Fate int

// What can become of it.
const (
	Beside  Fate = iota // the operation's row claims nothing
	Altered             // it gets another value, and the fact has both
	Goes                // the step takes it
	AtRisk              // the step leaves it, and the next start may take it
	Stays               // the step leaves it
	Absent              // there is none, so nothing becomes of it
	Unsure              // the driver knows of none, and what it does not know of the step may take
)

// Fates names facts of a look. A name that ends with * is for all that begin so.
type Fates struct {
	Goes   []string
	AtRisk []string
	Open   []string // a back end decides what becomes of them, or a part of them goes
}

var (
	data   = []string{"files", "bytes", "last write", "disk *", "disks", "cloud-init"}
	states = []string{"saved state", "firmware settings", "TPM"}
	runs   = []string{"process", "only while it runs", FactPrograms}
	others = []string{"depends on it", "used by"} // what other guests lose with the data

	// noneKnown has what drivers say if they know of none of something that they cannot see all of.
	noneKnown = []string{"none known; *", "nothing known; *", "no other guest of this libvirtd"}

	copies = []string{"snapshots", "snapshot", "snapshot holds", "snapshot made by", "backups", "backup", "backup holds", "backup made by"}

	// held has what a guest holds. A step leaves it, unless its row says something else.
	held = slices.Concat(data, states, runs, copies, []string{"other *", "remains"})
)

// FactPrograms is the name of the fact that a new limit makes the kernel kill programs.
const FactPrograms = "programs"

// Fate says what becomes of what a fact is about, if the operation runs with these parameters.
func (s Spec) Fate(p Params, f Fact) Fate {
	if f.IsChange() {
		return Altered
	}
	if s.Fates == nil {
		return Beside
	}
	part := s.Kind == KindGuest && named(slices.Concat(held, others), f.Name)
	switch of := s.Fates(p); {
	case part && f.Text == "none":
		return Absent
	case part && named(noneKnown, f.Text):
		return Unsure
	case named(of.Goes, f.Name):
		return Goes
	case named(of.AtRisk, f.Name):
		return AtRisk
	case s.Kind == KindGuest && !named(of.Open, f.Name) && named(held, f.Name):
		return Stays
	}
	return Beside
}

func named(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool {
		prefix, all := strings.CutSuffix(n, "*")
		return n == name || all && strings.HasPrefix(name, prefix)
	})
}

// takes is the Fates of an operation that takes the same whatever its parameters are.
func takes(lists ...[]string) func(Params) Fates {
	goes := slices.Concat(lists...)
	return func(Params) Fates { return Fates{Goes: goes} }
}

// takesDisk is the Fates of an operation that takes the disk in its parameters.
func takesDisk(p Params) Fates {
	name := Shown(p.Str("disk"))
	return Fates{Goes: append([]string{"disk " + name, "other disk " + name}, others...), Open: []string{"disks"}}
}
