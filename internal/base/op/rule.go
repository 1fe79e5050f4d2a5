package op

import "time"

// Case is everything that the class of a step depends on.
type Case struct {
	Step       Step
	Requester  Requester
	Observed   Observed
	Provenance *Provenance // nil: this gate did not make the incarnation
	Now        time.Time
	Doubt      bool // the gate does not trust its clock, so no age is proved
	Operator   bool // the requester is an operator on the socket, not an agent
	// Trash is Observed.Trash with the gate's records, for a step that makes a guest
	// or brings a guest back.
	Trash []Destroyed

	ScratchMaxAge time.Duration // from the policy in force
	Harmless      bool          // the operator's catalogue says that the command loses nothing
	ProbeSays     bool          // the operator's catalogue lets the command's probe say so
}

// Rule is one reason for a class.
type Rule struct {
	Name  string          // a stable name, such as "destroy-unproven"
	When  func(Case) bool // nil: always
	Class Class
	Why   func(Case) string // a sentence for people
}

// SignedByRule is the rule's name in the verdict on a step that the built-in rules
// call benign, and that a rule of the policy wants signed.
const SignedByRule = "signed-by-rule"

// Matches reports whether the rule's condition holds.
func (r Rule) Matches(c Case) bool { return r.When == nil || r.When(c) }

// Never reports whether no built-in rule lets a step of the operation wait for a signature.
func (s Spec) Never() bool {
	always := false
	for _, r := range s.Rules {
		if r.Class != Benign {
			return false
		}
		always = always || r.When == nil
	}
	return always
}

// Always reports whether each step of the operation waits for a signature.
func (s Spec) Always() bool {
	for _, r := range s.Rules {
		if r.Class == Benign {
			return false
		}
	}
	return true
}

func say(s string) func(Case) string { return func(Case) string { return s } }

// takingRules puts the common rules of operations that take data before the rules of
// one operation.
func takingRules(rules ...Rule) []Rule {
	return append([]Rule{
		{Name: "cascade", Class: Destructive, When: func(c Case) bool { return len(c.Observed.Dependent) > 0 },
			Why: dependents},
		{Name: "protected", Class: Destructive, When: func(c Case) bool { return c.Observed.Protected },
			Why: say("the target is protected")},
	}, rules...)
}

// undoesOwnWork holds for a compensation whose job made the incarnation and every
// storage object in it, within scratch's maximum age. It no longer holds after a
// step of another requester or job, a start of the program, or a written byte.
// Taking the step back could then lose the data of others.
func undoesOwnWork(c Case) bool {
	p := c.Provenance
	return c.Step.Undoes > 0 && c.Requester.Source == SourceGate && c.pristine() &&
		p.Job == c.Step.ID.Job && p.Used == "" && p.ScratchEnded == "" && c.young() &&
		p.Made(c.Observed.Storage, c.Step.ID.Job)
}

// pristine holds for a target that this gate made, if the driver's look shows that
// nothing was written since. If the driver cannot tell, the target is not pristine.
func (c Case) pristine() bool {
	return c.Provenance != nil && c.Observed.Content != "" && c.Observed.Content == c.Provenance.Content
}

// ofCreator holds if the requester made the target and no other requester used it.
func (c Case) ofCreator() bool {
	p := c.Provenance
	return p != nil && p.ScratchEnded == "" && p.Creator == c.Requester.String()
}

// LiveScratch holds for a target that its creator made as scratch and that no other
// requester used, if the creator asks.
func LiveScratch(c Case) bool {
	p := c.Provenance
	return p != nil && p.Scratch && p.ScratchEnded == "" && c.Now.Before(p.ScratchUntil) && c.young() &&
		p.Made(c.Observed.Storage, 0) &&
		c.Requester.Source == SourceAPI && c.Requester.Agent != "" && c.Requester.Agent == p.Agent
}

// young holds for an incarnation that is younger than the maximum age of scratch in
// the policy in force. The policy at its making does not matter.
func (c Case) young() bool {
	return !c.Doubt && c.Now.Before(c.Provenance.CreatedAt.Add(c.ScratchMaxAge))
}

// unproven says which condition of a benign destroy is not met.
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
		return "the gate does not trust its clock, so the guest's age is not known"
	case !c.Now.Before(p.ScratchUntil) || !c.young():
		return "it is older than scratch may be"
	case !p.Made(c.Observed.Storage, 0):
		return "it holds storage that this gate did not make"
	default:
		return "only the agent that created it may destroy it unsigned"
	}
}
