package op

import (
	"context"
	"time"
)

// Observer is all that the gate sees of a back end.
type Observer interface {
	// Observe looks at a target afresh, for a step or for none. A target that does not exist is no
	// error: Observed.Present is false. An error means that nothing is known,
	// and what is unclear is refused.
	Observe(ctx context.Context, l Look) (Observed, error)
}

// Look says which target to look at, and for which step. What a signature covers
// of some targets, and what people should see of them, depends on what the step
// would do: a part of the target, the answer of a probe. A driver reports of that
// then, and else of the target as a whole.
type Look struct {
	Target Target
	Op     string // of the step; empty where there is none
	Params Params
	// Incarnation is the one that the step is for; empty where it is for none. A
	// driver says then what became of it, where that is not what it found.
	Incarnation Incarnation
}

// At is a look at a target for no step.
func At(t Target) Look { return Look{Target: t} }

// Look is a look at the step's target for the step.
func (s Step) Look() Look {
	return Look{Target: s.Target, Op: s.Op, Params: s.Params, Incarnation: s.Incarnation}
}

// Afterwards is a look at what the step was for, once it has run: for its
// incarnation, and not for what the step would do if it were to run again.
func (s Step) Afterwards() Look { return Look{Target: s.Target, Incarnation: s.Incarnation} }

// Observed is a driver's fresh look at one target.
type Observed struct {
	Target      Target
	Present     bool // false: the name is free
	Incarnation Incarnation
	Fingerprint Fingerprint

	// Birth is the token of the create step that made this incarnation, as the
	// back end kept it; empty when it was made by other hands. The gate believes
	// it only where its own journal issued that token.
	Birth string
	// Marked is the token that the back end keeps with the target where that does
	// not prove who made it: a disk more is in it. It makes nothing benign; interest
	// that somebody takes in the target ends the scratch of that birth.
	Marked string

	// Running is "running", "stopped" or, for what does not exist, "absent". It
	// is never part of the fingerprint.
	Running string

	// Spec holds the fields that desired state may wish for, normalised by the
	// driver: memory in MiB, sizes in bytes, labels as strings.
	Spec Params

	// Content is a token of what was written into the guest, while it does not run:
	// it changes with each byte. Empty: it runs, or the driver cannot tell. A guest
	// that still has the token of its making holds nothing that can be lost.
	Content string

	Protected bool
	Labels    map[string]string
	Volatile  bool        // stopping it loses state
	Storage   []StorageID // every storage object that a destroy would take
	Snapshots []string
	Dependent []Target // what a destroy would cascade onto
	// Shares says, in parts of a sentence, what the target writes when it runs that
	// another target has as well. A look about a start or a restart has it.
	Shares []string
	Trash  []Trashed // destroyed guests that had the look's TrashName
	Facts  []Fact

	// Disks are the disks that steps can name, by name. They are in Storage too.
	Disks []Disk
	// Backups are named as steps name them. Nil: the back end has none, or the driver
	// cannot list them now.
	Backups []string

	// Copy is the snapshot or backup that the step of the look restores or deletes;
	// nil where it is about none, or the back end has none of that name.
	Copy *Copy

	// Missing says, in a sentence for people, that what the step of the look is
	// about is not in the target; empty where it is there.
	Missing string
	// Lingers says, in a sentence for people, that the incarnation of the look is
	// still there, though its name is free or another's: it was renamed, or is
	// known by something else now. Empty where the driver knows of none.
	Lingers string
	// Ops are the operations that the back end has for this target; nil is all of
	// its kind.
	Ops     []string
	Backend string // which of several back ends of a kind has the target
}

// Disk is one disk of a guest.
type Disk struct {
	Name string // as steps name it: "vda", "scsi0"
	Size int64  // in bytes, as the guest sees it
	ID   StorageID
}

// Disk returns the disk of that name.
func (o Observed) Disk(name string) (Disk, bool) {
	for _, d := range o.Disks {
		if d.Name == name {
			return d, true
		}
	}
	return Disk{}, false
}

// StorageID identifies one storage object (a data tree, a disk, a snapshot) in
// a way that a name cannot fake.
type StorageID string

// Fact is something that people should see before they sign.
type Fact struct {
	Name string `json:"name"` // "files", "bytes", "last write", "remains"
	Text string `json:"text"` // for people
}

// Provenance is what this gate's own journal says about an incarnation.
type Provenance struct {
	Incarnation  Incarnation
	Target       Target
	Creator      string // Requester.String of who asked for it
	Agent        string // the registered agent that asked for it, or ""
	Job          JobID
	Scratch      bool      // recorded as scratch, and not ended since
	ScratchUntil time.Time // the maximum age of scratch
	ScratchEnded string    // why it ended: another requester or the operators took an interest; or ""
	Used         string    // why its own job may not take it back unsigned any more, or ""
	Content      string    // Observed.Content when it was made
	CreatedAt    time.Time
	Storage      []StorageOrigin
}

// StorageOrigin says which job made a storage object of an incarnation.
type StorageOrigin struct {
	ID  StorageID
	Job JobID
}

// Made reports whether this gate recorded the making of every object in ids,
// and, if job is not zero, that this job made them all. Of no objects it
// reports true.
func (p *Provenance) Made(ids []StorageID, job JobID) bool {
	if p == nil {
		return false
	}
	for _, id := range ids {
		ok := false
		for _, s := range p.Storage {
			if s.ID == id && (job == 0 || s.Job == job) {
				ok = true
				break
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// Class says whether a step may lose data. There is no third class.
type Class string

// The classes.
const (
	Benign      Class = "benign"
	Destructive Class = "destructive"
)

// Verdict is a classification with its reason. A step that is not to run at
// all is not a verdict but a refusal.
type Verdict struct {
	Class Class
	Rule  string // a stable name, such as "destroy-unproven"
	Why   string // a sentence for people
}
