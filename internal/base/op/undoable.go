package op

import (
	"slices"
	"strings"
)

// Undoable says whether people can take back what a step did.
type Undoable int

// The levels. The words beside them say until when, or how.
const (
	Gone        Undoable = iota // nothing brings it back
	ByHandUntil                 // people bring it back themselves, until a time
	ByHand                      // people bring it back themselves, or nothing was lost
	InTime                      // the back end keeps it until a time
)

const canUndoHand = "can be undone by hand"

// sayings begin a driver's fact that says whether a step can be undone: by the driver, from its trash; by people, out of its
// trash; or not at all.
var sayings = map[string]Undoable{"can be undone until ": InTime, canUndoHand + " until ": ByHandUntil, "cannot be undone": Gone}

const (
	// CannotUndo is said of a step that is Gone.
	CannotUndo = "CANNOT BE UNDONE"
	// LosesNothing is said of a step that waits only because a rule of the configuration wants it signed.
	LosesNothing = "loses no data"
)

// Undoable decides whether a step can be undone, with words for people. rule is that of its verdict, and facts are those of
// the look. A step of which nothing says that it can be undone cannot.
func (s Spec) Undoable(p Params, rule string, facts []Fact) (Undoable, string) {
	said, level := "", Gone
	for _, f := range facts {
		switch is, _ := f.undoable(); {
		case !slices.Contains(f.OnUndo(), s.Name):
		case is == Gone, said != "" && said != f.Text:
			return Gone, CannotUndo
		default:
			said, level = f.Text, is
		}
	}
	switch {
	case said != "":
		return level, said
	case rule == memoryInUse: // also of an older gate, which sends no fact about it
		return Gone, CannotUndo
	case rule == SignedByRule && s.Name != "" && (s.Runtime || s.Takes == ""):
		return ByHand, LosesNothing
	case s.ByHand == nil:
	default:
		if how := s.ByHand(p, facts); how != "" {
			return ByHand, canUndoHand + ": " + how
		}
	}
	return Gone, CannotUndo
}

// OnUndo returns the operations on guests of which a fact says whether they can be undone: those in its name, as in
// "wipe, restore, snapshot-delete". There are none if the fact says anything else.
func (f Fact) OnUndo() []string {
	if _, ok := f.undoable(); !ok {
		return nil
	}
	names := strings.Split(f.Name, ", ")
	for i, verb := range names {
		names[i] = KindGuest + "." + verb
		if _, err := Lookup(names[i]); err != nil {
			return nil
		}
	}
	return names
}

// undoable returns the level that a fact says; ok is false if it says none.
func (f Fact) undoable() (level Undoable, ok bool) {
	for begin, level := range sayings {
		if strings.HasPrefix(f.Text, begin) {
			return level, true
		}
	}
	return Gone, false
}

// byHand is the ByHand of an operation that people take back in the same way, whatever its parameters are.
func byHand(how string) func(Params, []Fact) string {
	return func(Params, []Fact) string { return how }
}
