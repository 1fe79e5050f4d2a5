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
	Until       time.Time // after this it may be gone
	// Name is the name that it had, if the look is about another guest of the trash
	// that is to come back under this name; else empty.
	Name string
}

// Destroyed is a guest in the trash with what this gate's own journal says of it.
type Destroyed struct {
	Trashed
	Creator    *Requester  // nil: this gate has no record of the guest's creator
	By         StepID      // the newest step that destroyed it, or may have; zero: no record
	Askers     []Requester // all who asked for a step that may have destroyed it
	ByOperator bool        // an operator is among them
}

// TrashName is the name by which the trash has the guest that the look is about:
// an undelete may bring it back under another name than it had.
func (l Look) TrashName() string {
	if from := l.Params.Str("from"); l.Op == Undelete && from != "" {
		return from
	}
	return l.Target.Name
}

// NewName is the name under which the look's step brings a guest back, if that is
// another one than it had; else empty.
func (l Look) NewName() string {
	if l.TrashName() == l.Target.Name {
		return ""
	}
	return l.Target.Name
}

// Revivable returns what is in the trash that a step may bring back: the
// incarnation that its parameters name, or all.
func (s Step) Revivable(trash []Trashed) []Trashed {
	want := Incarnation(s.Params.Str("incarnation"))
	return slices.DeleteFunc(slices.Clone(trash), func(x Trashed) bool { return x.Name != "" || want != "" && x.Incarnation != want })
}

// is reports whether r is the same caller on the socket, or the same desired set,
// as other. A hub and a caller that hands in a signed payload are neither: they
// only carry what an operator signed.
func (r Requester) is(other Requester) bool {
	return r.Source == other.Source && (r.Source == SourceAPI || r.Source == SourceDesired) && r.String() == other.String()
}

// owns reports whether the requester may bring a destroyed guest back, and use its
// name, without a signature: an operator, the one requester who asked for the
// destroy, the guest's creator if no operator asked for the destroy, and the gate
// where it takes back a step of the same job.
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

// foreign returns the first guest in the trash that the step is about and the
// requester does not own; ok is false if there is none.
func (c Case) foreign() (d Destroyed, ok bool) {
	want := Incarnation(c.Step.Params.Str("incarnation"))
	return c.notOwned(func(d Destroyed) bool { return d.Name == "" && (want == "" || d.Incarnation == want) })
}

// squatted returns the first guest in the trash that has the name under which the
// step brings another one back, and that the requester does not own.
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

// endedBy says, as part of a sentence, by which step a guest was destroyed.
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

// nameInTrash is the rule of what makes a guest under a name whose destroyed guest
// another requester may still bring back.
func nameInTrash(which func(Case) (Destroyed, bool)) Rule {
	return Rule{Name: "name-in-trash", Class: Destructive, When: func(c Case) bool { _, ok := which(c); return ok }, Why: func(c Case) string {
		d, _ := which(c)
		return fmt.Sprintf("the trash keeps a destroyed guest of that name, at least until %s, and %s: "+
			"undelete it, wait until then, take another name, or have an operator sign",
			d.Until.UTC().Format(time.RFC3339), d.endedBy())
	}}
}
