package op

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/base/refusal"
)

// Observer is all that the gate uses of a back end.
type Observer interface {
	// Observe looks at a target, for a step or for no step, without a cache. If the
	// target does not exist, Observed.Present is false, without an error. An error
	// means that the state is not known, and then the gate refuses.
	Observe(ctx context.Context, l Look) (Observed, error)
}

// Look says which target to look at, and for which step. For some targets the step
// decides what a signature covers and what people should see: a part of the target,
// the answer of a probe. The driver then reports that. Without a step it reports the
// target as a whole.
type Look struct {
	Target Target
	Op     string // of the step; empty if there is none
	Params Params
	// Incarnation is the one that the step is for, or empty. If the driver finds
	// another one under the name, it says what became of this one.
	Incarnation Incarnation
	// Self is Observed.Self of that incarnation, as the journal kept it, or nil.
	Self []string
}

// At returns a look at a target for no step.
func At(t Target) Look { return Look{Target: t} }

// Look returns a look at the step's target for the step.
func (s Step) Look() Look {
	return Look{Target: s.Target, Op: s.Op, Params: s.Params, Incarnation: s.Incarnation}
}

// Afterwards returns a look at the step's target after the step ran. It has the
// step's incarnation, and not what another run of the step would do.
func (s Step) Afterwards() Look {
	l := Look{Target: s.Target, Incarnation: s.Incarnation}
	if spec, err := Lookup(s.Op); err == nil && spec.Identity == Ends {
		l.Self = s.Before
	}
	return l
}

// Observed is a driver's fresh look at one target.
type Observed struct {
	Target      Target
	Present     bool // false: no guest has the name
	Incarnation Incarnation
	Fingerprint Fingerprint

	// Birth is the token of the create step that made this incarnation, as the back
	// end keeps it. It is empty if another tool made it. The gate believes the token
	// only if its own journal issued it.
	Birth string
	// Marked is the token that the back end keeps with the target if a disk was
	// added since. Then the token does not prove the target's maker. It makes no
	// step benign. A step by another requester ends the scratch status of that
	// birth.
	Marked string

	// Self is what tells the target from others that the back end may put in its
	// place, and what stays while its name and its parts change. Only its driver reads
	// it. It is nil if an incarnation is enough.
	Self []string

	// Running is "running", "stopped" or, if the target does not exist, "absent". It
	// is never part of the fingerprint.
	Running string

	// Spec has the fields that desired state may wish for, normalised by the driver:
	// memory in MiB, sizes in bytes, labels as strings.
	Spec Params

	// Content is a token of the data in a guest that does not run: it changes with
	// each byte written. It is empty if the guest runs or the driver cannot tell. A
	// guest that still has its first token has no data to lose.
	Content string

	Protected bool
	Labels    map[string]string
	Volatile  bool // stopping the target loses state
	// MemoryUsed is how many MiB the programs of a running guest hold, if the back end sets a memory limit at once. It is 0 if
	// a limit is for the next start, or the driver cannot tell. No payload has it, because it changes from look to look.
	MemoryUsed int64
	Storage    []StorageID // all storage objects that a destroy would take
	// Doubted says that Storage may not be what the step made of which the look is the end: other hands could exchange it.
	Doubted   bool
	Snapshots []string
	Dependent []Target // targets that a destroy would destroy too
	// Shares says, in parts of a sentence, what the target writes when it runs that
	// another target has too. A look for a start or a restart has it.
	Shares []string
	Trash  []Trashed // destroyed guests with the look's TrashName
	Facts  []Fact

	// Disks are the disks that steps can name, sorted by name. Storage has them too.
	Disks []Disk
	// Backups has the names that steps use. It is nil if the back end has none, or
	// the driver cannot list them now.
	Backups []string
	// Listed has the names of all that is kept where the target's backups are, also if nobody can tell whose it is. It proves
	// that a step made or deleted a backup. It is nil if that is the same as Backups.
	Listed []string

	// Copy is the snapshot or backup that the look's step restores or deletes. It is
	// nil if the step is about none, or the back end has none of that name.
	Copy *Copy

	// Missing says, in a sentence for people, that the part of the target that the
	// look's step is about is missing. It is empty if that part is there. Clear may say what to do.
	Missing string

	// Cannot says, in a sentence for people, why the step that the look is about cannot be
	// done as the target is now, such as a mount inside it. Clear says what to do first; it
	// may be empty. CannotCode is one of foreseen. Foresee sets them.
	Cannot, Clear string
	CannotCode    refusal.Code
	// Never says that Cannot is about the step's parameters or the settings alone, so that no state of the target makes it possible.
	// A look has it also if the target does not exist.
	Never bool

	// Lingers says, in a sentence for people, that the incarnation of the look still
	// exists, although its name is free or has another incarnation. It was renamed,
	// or the back end now gives it another identity. Lingers is empty if the driver
	// knows of none.
	Lingers string
	// Ops are the operations that the back end has for this target; nil means all of
	// its kind.
	Ops     []string
	Backend string // which back end of the kind has the target
}

// foreseen are the codes that a look keeps: only a change of the target, of the request or of the configuration removes the
// reason. What every other error tells may go away by itself.
var foreseen = []refusal.Code{refusal.Conflict, refusal.BadParams, refusal.TooComplex, refusal.NotAllowed}

// Foresee keeps in a look why the driver would refuse its step now, if the code is one of foreseen. What no state of the
// target makes possible stays.
func (o *Observed) Foresee(err error) {
	if code := refusal.CodeOf(err); !o.Never && slices.Contains(foreseen, code) {
		r := refusal.As(err)
		o.Cannot, o.Clear, o.CannotCode = r.Detail, r.Hint, code
	}
}

// Hindrance refuses a step that cannot be done as the look foresaw, and is nil otherwise.
func (o Observed) Hindrance() error {
	if o.Cannot == "" {
		return nil
	}
	return refusal.New(o.CannotCode, "%s", o.Cannot).WithHint("%s", o.Clear)
}

// Unfit is Foresee for a refusal of the parameters themselves, or by the settings, whatever the state of the target is. It reports whether there is one.
func (o *Observed) Unfit(err error) bool {
	o.Foresee(err)
	o.Never = o.Cannot != ""
	return o.Never
}

// listed returns what proves that a step made or deleted a backup.
func (o Observed) listed() []string {
	if o.Listed != nil {
		return o.Listed
	}
	return o.Backups
}

// Disk is one disk of a guest.
type Disk struct {
	Name string // as steps name it: "vda", "scsi0"
	Size int64  // in bytes, as the guest sees it
	ID   StorageID
	Off  bool // it is not attached, and the guest keeps it
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

// StorageID identifies one storage object (a data tree, a disk, a snapshot). Another
// object of the same name has another id.
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
	Creator      string // Requester.String of the requester
	Agent        string // the registered agent that asked for it, or ""
	Job          JobID
	Scratch      bool      // made as scratch, and still scratch
	ScratchUntil time.Time // the maximum age of scratch
	ScratchEnded string    // why its scratch status ended, or ""
	Used         string    // why its own job may no longer take it back unsigned, or ""
	Content      string    // Observed.Content when it was made
	CreatedAt    time.Time
	Storage      []StorageOrigin
}

// StorageOrigin says which job made a storage object of an incarnation.
type StorageOrigin struct {
	ID  StorageID
	Job JobID
}

// Made reports whether this gate recorded the making of every object in ids. If job
// is not zero, that job must have made them all. For no objects it reports true.
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

// Verdict is a classification with its reason. If a step may not run at all, there
// is a refusal and no verdict.
type Verdict struct {
	Class Class
	Rule  string // a stable name, such as "destroy-unproven"
	Why   string // a sentence for people
}

// Undelete is the operation that brings a guest back from the trash.
const Undelete = "guest.undelete"

// Trashed is a destroyed incarnation that can still be brought back.
type Trashed struct {
	Incarnation Incarnation
	Until       time.Time // the trash may drop it after this time
	// Name is the name that it had, if the look is about another guest in the trash
	// that comes back under this name. Otherwise it is empty.
	Name string
}

// Destroyed is a guest in the trash with this gate's own records.
type Destroyed struct {
	Trashed
	Creator    *Requester  // nil: this gate has no record of the guest's creator
	By         StepID      // the newest step that destroyed it, or may have; zero: no record
	Askers     []Requester // the requesters of every step that may have destroyed it
	ByOperator bool        // an operator is among them
}

// TrashName is the name that the look's guest has in the trash. An undelete may
// bring it back under another name.
func (l Look) TrashName() string {
	if from := l.Params.Str("from"); l.Op == Undelete && from != "" {
		return from
	}
	return l.Target.Name
}

// NewName is the name under which the look's step brings a guest back, if the guest
// had another name. Otherwise it is empty.
func (l Look) NewName() string {
	if l.TrashName() == l.Target.Name {
		return ""
	}
	return l.Target.Name
}

// Revivable returns the guests in the trash that a step may bring back: the
// incarnation in its parameters, or all.
func (s Step) Revivable(trash []Trashed) []Trashed {
	want := Incarnation(s.Params.Str("incarnation"))
	return slices.DeleteFunc(slices.Clone(trash), func(x Trashed) bool { return x.Name != "" || want != "" && x.Incarnation != want })
}

// is reports whether r and other are the same caller on the socket or the same
// desired set. It never holds for a hub, or for a caller with a signed payload,
// because these only carry what an operator signed.
func (r Requester) is(other Requester) bool {
	return r.Source == other.Source && (r.Source == SourceAPI || r.Source == SourceDesired) && r.String() == other.String()
}

// owns reports whether the requester may bring a destroyed guest back, and use its
// name, without a signature. An operator may, and the one requester who asked for
// the destroy. The guest's creator may if no operator asked for the destroy. The
// gate may if it takes back a step of the same job.
func (c Case) owns(d Destroyed) bool {
	switch {
	case c.Step.Undoes > 0 && c.Requester.Source == SourceGate:
		return d.By.Job == c.Step.ID.Job
	case c.Operator:
		return true
	case len(d.Askers) == 1 && c.Requester.is(d.Askers[0]):
		return true
	}
	return len(d.Askers) > 0 && !d.ByOperator && d.Creator != nil && c.Requester.is(*d.Creator)
}

// foreign returns the first guest in the trash that the step is about and that the
// requester does not own. If there is none, ok is false.
func (c Case) foreign() (d Destroyed, ok bool) {
	want := Incarnation(c.Step.Params.Str("incarnation"))
	return c.notOwned(func(d Destroyed) bool { return d.Name == "" && (want == "" || d.Incarnation == want) })
}

// squatted returns the first guest in the trash that has the step's new name and
// that the requester does not own. If there is none, ok is false.
func (c Case) squatted() (d Destroyed, ok bool) {
	return c.notOwned(func(d Destroyed) bool { return d.Name != "" })
}

// notOwned returns the first guest in the trash that matches and that the requester
// does not own.
func (c Case) notOwned(matches func(Destroyed) bool) (d Destroyed, ok bool) {
	i := slices.IndexFunc(c.Trash, func(d Destroyed) bool { return matches(d) && !c.owns(d) })
	if i < 0 {
		return Destroyed{}, false
	}
	return c.Trash[i], true
}

func foreignTrash(c Case) bool { _, ok := c.foreign(); return ok }

// endedBy says, as part of a sentence, which step destroyed a guest.
func (d Destroyed) endedBy() string {
	if d.By == (StepID{}) {
		return "this gate has no record of its destroy"
	}
	names := make([]string, len(d.Askers))
	for i, r := range d.Askers {
		names[i] = r.String()
	}
	return fmt.Sprintf("%s asked for its destroy in %s", strings.Join(names, " and "), d.By)
}

// nameInTrash is the rule for a step that uses the name of a destroyed guest while
// another requester may still bring that guest back.
func nameInTrash(which func(Case) (Destroyed, bool)) Rule {
	return Rule{Name: "name-in-trash", Class: Destructive, When: func(c Case) bool { _, ok := which(c); return ok }, Why: func(c Case) string {
		d, _ := which(c)
		return fmt.Sprintf("the trash keeps a destroyed guest of that name, at least until %s, and %s: "+
			"undelete it, wait until then, take another name, or have an operator sign",
			d.Until.UTC().Format(time.RFC3339), d.endedBy())
	}}
}
