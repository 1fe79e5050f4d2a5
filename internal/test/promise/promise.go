// Package promise has what the threat model promises, the tests that assert it, and faults that break it.
package promise

import (
	"regexp"
	"slices"
	"sync"

	"gated/internal/test/plant"
)

// Promise is one sentence of docs/threat-model.md that a fault could break.
type Promise struct {
	Of     string   // the item that makes it: "goal 1", "scenario 12"
	Says   string   // the sentence, shortened
	By     []string // what asserts it: cases of the matrix, tests or stories. Each of them finds one of the faults
	Faults []Fault
}

// Fault breaks a promise and no other one, as a mistake could.
type Fault struct {
	Edits []Edit   // several, if the gate checks the same thing in several places
	Finds []string // those of By that fail with the fault; nil: all of them
	Also  []string // cases of other promises that fail with it, too, because the promises have that much in common
	Shows string   // what one of the failing tests prints
	Args  []string // for a test that is no case of the matrix: what it runs of itself
}

// Edit replaces a text of the product. It is a type of its own, so that the tables need not name its fields.
type Edit plant.Edit

var caseForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z]\d\d[a-z]?$`) })

// IsCase reports whether a name is that of a row or a case of the matrix. What else asserts something is a test or a story.
func IsCase(name string) bool { return caseForm().MatchString(name) }

// All returns every promise, in the order of the page.
func All() []Promise { return slices.Concat(goals, scenarios) }
