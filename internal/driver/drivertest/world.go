package drivertest

import (
	"testing"

	"gated/internal/base/op"
	"gated/internal/driver"
	"gated/internal/people/policy"
)

// The names that the suite uses in a World. No target has them in a new World: a case makes
// what it needs. If the targets of a back end are configured, as commands are, the World
// configures all of them.
const (
	Victim    = "victim"    // the cases attack it
	Bystander = "bystander" // no case may change it
	Fresh     = "fresh"     // the gate makes it, if the kind allows that
)

// Names are the names that the suite uses.
func Names() []string { return []string{Victim, Bystander, Fresh} }

// World is one back end, a driver over it, and functions that change the back end without the
// driver, as an administrator, another tool or an intruder would. These functions fail the test
// if they cannot do their work. A World belongs to one test. Its author cleans up after it
// (testing.TB.Cleanup).
//
// A field of Abilities may be nil if Lacks has the field's name and the reason. The suite then
// skips the cases that need it, with that reason. All other fields are required, except where
// their comment says otherwise.
type World struct {
	Driver driver.Driver

	// Restart ends the driver and returns a new one over the same back end, as a restart of the
	// daemon does. The old one is not used again.
	Restart func() driver.Driver

	// Policy is the gate's policy. The zero value means policy.Default.
	Policy policy.Policy

	// Make makes a stopped target with data, without the gate. Remake removes it and makes
	// another one under the same name, as similar as the back end allows: only the incarnation
	// differs. Change changes something that a signature covers, but not the incarnation: a
	// label, a disk, the output of a probe.
	Make, Remake, Change func(name string)

	// Fill changes the data of a target. No signature covers the data.
	Fill func(name string)

	// Content is a digest of all data of a target, read without the driver. It is "" if there
	// is no such target. For a command it digests the data that the command would destroy.
	Content func(name string) string

	// Take is the step that destroys a target's data and needs a signature. If it is nil, the
	// step is guest.destroy.
	Take func(name string) op.Ask

	// Create are the parameters that guest.create needs with this back end, besides those of a
	// case. It may be empty. Other kinds do not use it.
	Create op.Params

	// Wishes are sets of fields to make a guest with. Changes are sets of fields to change one
	// to that Make or Create made. After each of them nothing must be left to do. Both have
	// every field that the driver supports, and values that the back end rounds or writes in
	// another unit. Only guests use them.
	Wishes, Changes []op.Params

	// Aliases are other valid names by which the back end itself finds a target: its UUID, its
	// number, its name in another case. The driver must not accept them. It may be nil.
	Aliases func(name string) []string

	Abilities
}

// Abilities are functions that not every back end supports.
type Abilities struct {
	// Protect sets the back end's own protection of a target, or the gate's mark.
	Protect func(name string)

	// SetMemory sets the memory limit of a target, in MiB.
	SetMemory func(name string, mib int64)

	// Runs says that guest.start and guest.stop work for what Make makes.
	Runs bool

	// Volatile makes a running target that loses data if it is stopped.
	Volatile func(name string)

	// MoveDisk moves a disk, or another object that counts as storage, from one target to
	// another, with its data.
	MoveDisk func(from, to string)

	// Share also gives a disk of one target to another, so that both write it when they run.
	// apart takes it from the second target again.
	Share func(from, to string) (apart func())

	// Leftover puts storage in the place where the making of a target of that name would put
	// its own. It returns a function that digests this storage. The target does not exist.
	Leftover func(name string) (content func() string)

	// Objects are the ids of all storage objects of targets, as in Observed.Storage, found
	// without the driver. Objects in a trash do not count.
	Objects func() []op.StorageID

	// NewIDs says that the back end never uses an id of storage again.
	NewIDs bool

	// NewDisk is the name of a disk that a target from Make does not have and can get.
	NewDisk string

	// Sizes says that facts have numbers in them: how much would be lost.
	Sizes bool

	// Hang makes the back end silent until release: in every call, or only in calls that change
	// something.
	Hang func(at Moment) (release func())

	// Lie makes the back end answer each change with success and do none of them, until stop.
	Lie func() (stop func())

	// LoseAnswer makes the back end do the work of the next Take and then break off before it
	// answers. Looks work again after that.
	LoseAnswer func()

	// Twice makes the back end send the answers to the changes of the next step two times.
	Twice func()

	// Lacks says why an ability is missing, by the field's name.
	Lacks map[string]string
}

// Moment says when a back end becomes silent.
type Moment int

// The moments.
const (
	AtLook Moment = iota // in every call
	AtWork               // in calls that change something; looks are answered
)

// guests reports whether the gate can make and destroy the driver's targets.
func (w World) guests() bool { return w.Driver.Kind() == "guest" }

// Target returns the target of that name.
func (w World) Target(name string) op.Target { return op.Target{Kind: w.Driver.Kind(), Name: name} }

// Taking is the step that destroys a target's data.
func (w World) Taking(name string) op.Ask {
	if w.Take != nil {
		return w.Take(name)
	}
	return op.Ask{Op: "guest.destroy", Target: w.Target(name), Params: op.Params{}}
}

// can says which abilities the World has.
func (a Abilities) can() map[string]bool {
	return map[string]bool{"Protect": a.Protect != nil, "SetMemory": a.SetMemory != nil, "Runs": a.Runs, "Volatile": a.Volatile != nil, "MoveDisk": a.MoveDisk != nil,
		"Share": a.Share != nil, "Leftover": a.Leftover != nil, "Objects": a.Objects != nil, "NewIDs": a.NewIDs, "NewDisk": a.NewDisk != "", "Sizes": a.Sizes,
		"Hang": a.Hang != nil, "Lie": a.Lie != nil, "LoseAnswer": a.LoseAnswer != nil, "Twice": a.Twice != nil}
}

// Needs skips the test, with the reason, if an ability is missing. The ability has its field's
// name. If a missing ability has no reason, or an existing one has a reason, the test fails.
func (a Abilities) Needs(t testing.TB, ability string) {
	t.Helper()
	has, known := a.can()[ability]
	why, lacks := a.Lacks[ability]
	switch {
	case !known:
		t.Fatalf("there is no ability %s", ability)
	case has && lacks:
		t.Fatalf("the world has %s, and says why it has not: %s", ability, why)
	case !has && why == "":
		t.Fatalf("the world has no %s, and Lacks does not say why", ability)
	case !has:
		t.Skipf("does not apply: no %s: %s", ability, why)
	}
}
