package op

import (
	"context"
	"time"
)

// Observer is all that the gate sees of a back end.
type Observer interface {
	// Observe looks at a target afresh. A target that does not exist is no
	// error: Observed.Present is false. An error means that nothing is known,
	// and what is unclear is refused.
	Observe(ctx context.Context, t Target) (Observed, error)
}

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

	// Running is "running", "stopped" or, for what does not exist, "absent". It
	// is never part of the fingerprint.
	Running string

	// Spec holds the fields that desired state may wish for, normalised by the
	// driver: memory in MiB, sizes in bytes, labels as strings.
	Spec Params

	Protected bool
	Labels    map[string]string
	Volatile  bool        // stopping it loses state
	Storage   []StorageID // every storage object that a destroy would take
	Snapshots []string
	Dependent []Target // what a destroy would cascade onto
	Trash     []Trashed
	Facts     []Fact

	// Part returns what a step with these parameters covers that is about one part
	// of the target: false where there is no such part. It is nil where a target
	// has no parts.
	Part func(Params) (Part, bool)
}

// Part is what a signature covers of a target, and what people should see of it.
type Part struct {
	State Fingerprint
	Facts []Fact
}

// PartFor returns what a signature under a step covers: the target as a whole or,
// where the catalogue says so, the part that the step names. What else happens to
// the target is nobody's concern then. False: there is no such part.
func (o Observed) PartFor(s Step) (Part, bool) {
	spec, err := Lookup(s.Op)
	switch {
	case err != nil:
		return Part{}, false
	case spec.Part == "":
		return Part{State: o.Fingerprint, Facts: o.Facts}, true
	case o.Part == nil:
		return Part{}, false
	}
	return o.Part(s.Params)
}

// StorageID identifies one storage object (a data tree, a disk, a snapshot) in
// a way that a name cannot fake.
type StorageID string

// Trashed is a destroyed incarnation that can still be brought back.
type Trashed struct {
	Incarnation Incarnation
	Until       time.Time // after this it may be gone
}

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
	ScratchEnded string    // why it ended, or ""
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
