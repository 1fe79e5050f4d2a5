package drivertest

import (
	"testing"

	"gated/internal/driver"
	"gated/internal/op"
	"gated/internal/policy"
)

// The names that the suite uses of a World. None of them is there when a World
// is made: a case makes what it needs. A back end whose targets are configured,
// as commands are, configures all of them.
const (
	Victim    = "victim"    // is attacked
	Bystander = "bystander" // nothing may ever happen to it
	Fresh     = "fresh"     // is made by the gate, where the kind lets it
)

// Names are all names that the suite uses.
func Names() []string { return []string{Victim, Bystander, Fresh} }

// World is one back end, a driver over it, and other hands: functions that work
// on the back end as an administrator, another tool or an intruder would, and
// not through the driver. They fail the test where they cannot do their work. A
// World belongs to one test; what it leaves behind is its author's to clean up
// (testing.TB.Cleanup).
//
// A field that is called an ability may be nil, if Lacks says by the field's name
// why the back end cannot have it: the cases that need it are skipped with that
// reason. All other fields are required but where they say so.
type World struct {
	Driver driver.Driver

	// Restart ends the driver and returns another over the same back end, as a
	// restart of the daemon would. The old one is not used any more.
	Restart func() driver.Driver

	// Policy is the gate's. The zero one is policy.Default.
	Policy policy.Policy

	// Make makes a target by other hands, with data in it, and leaves it standing
	// still. Remake takes that away and makes another under the same name, as like
	// to the first as a back end lets anybody make one: only its incarnation tells
	// them apart. Change changes something that a signature covers and leaves the
	// incarnation: a label, a disk, what a probe prints.
	Make, Remake, Change func(name string)

	// Fill changes the data of a target, which no signature covers.
	Fill func(name string)

	// Content is a digest of all data that a target holds, read by other hands;
	// "" where there is no such target. Of a command it digests what the command
	// would destroy.
	Content func(name string) string

	// Take is the step that takes what a target holds and that needs a signature.
	// nil is guest.destroy.
	Take func(name string) op.Ask

	// Create are the parameters that guest.create needs with this back end beside
	// what a case wishes for. It may be empty; not used for other kinds.
	Create op.Params

	// Wishes are sets of fields to make a guest with, and Changes sets of fields to
	// change one to that Make or Create made: after each of them nothing is left to
	// do. Both hold every field that the driver has, and values that the back end
	// rounds or writes in another unit. Not used for kinds other than guest.
	Wishes, Changes []op.Params

	// Aliases are other strings, each a valid name of a target, by which the back
	// end itself knows a target: its UUID, its number, its name in another case.
	// The driver must not know it by these. May be nil.
	Aliases func(name string) []string

	Abilities
}

// Abilities are what not every back end can be brought to do.
type Abilities struct {
	// Protect sets the back end's own protection of a target, or the gate's mark.
	Protect func(name string)

	// Runs says that guest.start and guest.stop work for what Make makes.
	Runs bool

	// Volatile makes a running target whose stop loses what it holds.
	Volatile func(name string)

	// MoveDisk moves a disk, or what else counts as storage, from one target into
	// another, with its data.
	MoveDisk func(from, to string)

	// Share gives a disk of one target to another as well, so that both write it when
	// they run, until it is taken from the second again.
	Share func(from, to string) (apart func())

	// Leftover puts storage where the making of a target of that name would have
	// put its own, and returns a digest of it. The target is not there.
	Leftover func(name string) (content func() string)

	// Objects are the ids of all storage objects that targets hold, as
	// Observed.Storage has them, found by other hands. What is kept in a trash does
	// not count.
	Objects func() []op.StorageID

	// NewIDs says that the back end never gives an id of storage a second time.
	NewIDs bool

	// NewDisk is the name of a disk that a target which Make made has not, and can
	// get.
	NewDisk string

	// Sizes says that facts have numbers in them: how much would be lost.
	Sizes bool

	// Hang has the back end go silent until it is released: at every call, or only
	// at those that change something.
	Hang func(at Moment) (release func())

	// Lie has the back end answer that each change is done and do none, until it is
	// told to stop.
	Lie func() (stop func())

	// LoseAnswer has the back end do what the next Take asks for, and then break off
	// before it answers. Looks work again after that.
	LoseAnswer func()

	// Twice has the back end deliver the answers to the changes of the next step two
	// times.
	Twice func()

	// Lacks says why an ability is missing, by its field's name.
	Lacks map[string]string
}

// Moment says where a back end goes silent.
type Moment int

// The moments.
const (
	AtLook Moment = iota // at every call
	AtWork               // at calls that change something: looks are answered
)

// guests reports whether the gate can make and destroy what the driver has.
func (w World) guests() bool { return w.Driver.Kind() == "guest" }

// Target returns the target of that name.
func (w World) Target(name string) op.Target { return op.Target{Kind: w.Driver.Kind(), Name: name} }

// Taking is the step that takes what a target holds.
func (w World) Taking(name string) op.Ask {
	if w.Take != nil {
		return w.Take(name)
	}
	return op.Ask{Op: "guest.destroy", Target: w.Target(name), Params: op.Params{}}
}

// can says which abilities there are.
func (a Abilities) can() map[string]bool {
	return map[string]bool{"Protect": a.Protect != nil, "Runs": a.Runs, "Volatile": a.Volatile != nil, "MoveDisk": a.MoveDisk != nil,
		"Share": a.Share != nil, "Leftover": a.Leftover != nil, "Objects": a.Objects != nil, "NewIDs": a.NewIDs, "NewDisk": a.NewDisk != "", "Sizes": a.Sizes,
		"Hang": a.Hang != nil, "Lie": a.Lie != nil, "LoseAnswer": a.LoseAnswer != nil, "Twice": a.Twice != nil}
}

// Needs skips the test where an ability, by its field's name, is missing, with the
// reason. That it is missing without one, or is there with one, fails it.
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
