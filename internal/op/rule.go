package op

import "time"

// Case is all that the class of a step depends on.
type Case struct {
	Step       Step
	Requester  Requester
	Observed   Observed
	Provenance *Provenance // nil: this gate did not make the incarnation
	Now        time.Time
	Doubt      bool // the clock is not believed, so nothing is known to be young
	Operator   bool // the requester is an operator on the socket, and no agent
	// Trash is Observed.Trash with what the gate recorded, for a step that makes a
	// guest or brings one back.
	Trash []Destroyed

	ScratchMaxAge time.Duration // by the policy in force
	Harmless      bool          // the operator's catalogue says of the command that it loses nothing
}

// Rule is one reason for a class.
type Rule struct {
	Name  string          // a stable name, such as "destroy-unproven"
	When  func(Case) bool // nil: always
	Class Class
	Why   func(Case) string // a sentence for people
}

// Matches reports whether the rule's condition holds.
func (r Rule) Matches(c Case) bool { return r.When == nil || r.When(c) }

func say(s string) func(Case) string { return func(Case) string { return s } }

// takingRules puts before the rules of an operation that takes data those that
// hold for each of them.
func takingRules(rules ...Rule) []Rule {
	return append([]Rule{
		{Name: "cascade", Class: Destructive, When: func(c Case) bool { return len(c.Observed.Dependent) > 0 },
			Why: dependents},
		{Name: "protected", Class: Destructive, When: func(c Case) bool { return c.Observed.Protected },
			Why: say("the target is protected")},
	}, rules...)
}

// undoesOwnWork holds for a compensation whose job made the incarnation and
// every storage object in it, within scratch's maximum age. It does not hold once
// a step of another requester or job acted on it, or its program ran, or a byte was
// written into it: to take that back could lose what others put there.
func undoesOwnWork(c Case) bool {
	p := c.Provenance
	return c.Step.Undoes > 0 && c.Requester.Source == SourceGate && c.pristine() &&
		p.Job == c.Step.ID.Job && p.Used == "" && p.ScratchEnded == "" && c.young() &&
		p.Made(c.Observed.Storage, c.Step.ID.Job)
}

// pristine holds for a target that this gate made and into which nothing was
// written since, as far as the driver sees. What the driver cannot see is not
// pristine.
func (c Case) pristine() bool {
	return c.Provenance != nil && c.Observed.Content != "" && c.Observed.Content == c.Provenance.Content
}

// ofCreator holds if the requester made the target, and no other requester took
// an interest in it.
func (c Case) ofCreator() bool {
	p := c.Provenance
	return p != nil && p.ScratchEnded == "" && p.Creator == c.Requester.String()
}

// LiveScratch holds for a target that its creator made as scratch and that no
// other requester took an interest in, if its creator asks.
func LiveScratch(c Case) bool {
	p := c.Provenance
	return p != nil && p.Scratch && p.ScratchEnded == "" && c.Now.Before(p.ScratchUntil) && c.young() &&
		p.Made(c.Observed.Storage, 0) &&
		c.Requester.Source == SourceAPI && c.Requester.Agent != "" && c.Requester.Agent == p.Agent
}

// young holds for an incarnation within the maximum age of scratch that the
// policy has now, whatever it was when the incarnation was made.
func (c Case) young() bool {
	return !c.Doubt && c.Now.Before(c.Provenance.CreatedAt.Add(c.ScratchMaxAge))
}

// unproven says which condition of a benign destroy was not met.
func unproven(c Case) string {
	p := c.Provenance
	switch {
	case p == nil:
		return "this gate has no record of making it"
	case c.Step.Undoes > 0 && p.Job == c.Step.ID.Job && p.Used != "":
		return "its job may not take it back unsigned: " + p.Used
	case c.Step.Undoes > 0 && p.Job == c.Step.ID.Job && p.ScratchEnded != "":
		return "its job may not take it back unsigned: " + p.ScratchEnded
	case c.Step.Undoes > 0 && p.Job == c.Step.ID.Job && !c.pristine():
		return "its job may not take it back unsigned: data may have been written into it since it was made"
	case !p.Scratch:
		return "it was not made as scratch"
	case p.ScratchEnded != "":
		return "it is no longer scratch: " + p.ScratchEnded
	case c.Doubt:
		return "the clock is not believed, so nobody can say how old it is"
	case !c.Now.Before(p.ScratchUntil) || !c.young():
		return "it is older than scratch may be"
	case !p.Made(c.Observed.Storage, 0):
		return "it holds storage that this gate did not make"
	default:
		return "only the agent that created it may destroy it unsigned"
	}
}
