package op

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

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
