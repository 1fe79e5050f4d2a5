package acceptor

import (
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/log/journal"
)

// need is what a request needs, as the log has it.
type need struct {
	op.Requirement
	extra bool // the log has it; else the catalogue asks for one signature
}

// grain is how much earlier than its entry the gate may have read the clock.
const grain = time.Second

// asks replays that people are asked to sign a payload: one that nobody was asked to sign before.
func (a *Acceptor) asks(s *step) {
	e := a.entry
	a.must(s.destructive, "never_unsigned", "%s is asked for as %q", e.Step, e.Class)
	if s.payload != "" {
		s.earlier[s.payload] = true
	}
	s.payload, s.incarnation, s.gate, s.signers, s.need = e.Payload, e.Incarnation, e.Gate, nil, need{}
	if e.Payload != "" { // the first versions of the log had none
		a.must(!a.payloads[e.Payload], "spent", "%s asks to sign a payload that was asked for before", e.Step)
		a.payloads[e.Payload] = true
	}
	if e.Need == "" {
		return
	}
	r, err := journal.DecodeNeed(e.Need)
	if err != nil {
		a.wrong("never_unsigned", "what %s needs cannot be read: %v", e.Step, err)
		return
	}
	s.need = need{r, true}
}

// counts replays that signatures count: those over the payload that was asked for last, of different people and keys, of
// which none was taken out.
func (a *Acceptor) counts(s *step) {
	e := a.entry
	s.signers = e.Signers
	if s.payload != "" {
		a.must(e.Payload == s.payload, "never_unsigned", "%s is signed with another payload than was asked for", e.Step)
	}
	a.must(!s.earlier[e.Payload], "spent", "%s is signed with a payload that was replaced", e.Step)
	a.must(e.Gate == s.gate, "other_gate", "%s was asked for by gate %s and is signed for %s", e.Step, s.gate, e.Gate)
	people, keys := map[string]bool{}, map[string]bool{}
	for _, text := range e.Signers {
		by := signerOf(text)
		a.must(!people[by.principal], "never_unsigned", "%s counts %s twice", e.Step, by.principal)
		a.must(!keys[by.key], "never_unsigned", "%s counts the key %s twice", e.Step, by.key)
		a.must(!a.removed[by.key], "rotation_holds", "%s counts the key %s, which a rotation took out", e.Step, by.key)
		people[by.principal], keys[by.key] = true, true
	}
}

// approves replays that the signatures suffice. The payload counts once.
func (a *Acceptor) approves(s *step) {
	e := a.entry
	a.must(s.met(s.signers), "never_unsigned", "%s is approved by %d signatures, and they do not suffice", e.Step, len(s.signers))
	if e.Payload != "" {
		a.must(!a.approved[e.Payload], "once", "the payload of %s was approved before", e.Step)
		a.approved[e.Payload] = true
	}
	s.approvedAt = e.Time
}

// dispatches replays that a step runs.
func (a *Acceptor) dispatches(s *step, was op.State) {
	e := a.entry
	if other := a.running[s.target]; other != nil {
		a.wrong("alone", "%s runs while %s is under way on %s", e.Step, other.id, s.target)
	}
	a.inOrder(s)
	if !s.destructive {
		a.must(was != op.StateAuthorized, "never_unsigned", "%s was approved and runs as %q", e.Step, e.Class)
		return
	}
	a.must(was == op.StateAuthorized, "never_unsigned", "%s is destructive and runs, and was %q", e.Step, was)
	a.must(!s.ran, "once", "%s is destructive and runs again", e.Step)
	s.ran = true
	a.must(e.Gate == s.gate, "other_gate", "%s was signed for gate %s and runs for %s", e.Step, s.gate, e.Gate)
	a.must(e.Incarnation == s.incarnation, "looked_after", "%s was signed for %q and runs on %q", e.Step, s.incarnation, e.Incarnation)
	left := slices.DeleteFunc(slices.Clone(s.signers), func(text string) bool { return a.removed[signerOf(text).key] })
	a.must(s.met(left), "rotation_holds", "%s runs, and without the keys that rotations took out its signatures do not suffice", e.Step)
	if s.need.extra {
		a.must(!e.Time.Add(grain).Before(s.approvedAt.Add(s.need.CoolOff)), "cool_off", "%s was approved at %s, cools off for %s and runs at %s",
			e.Step, s.approvedAt, s.need.CoolOff, e.Time)
	}
}

// inOrder asks that what comes before the step in its job succeeded, nothing fell, and all that people have to sign is signed.
func (a *Acceptor) inOrder(s *step) {
	for _, x := range a.jobs[s.id.Job] {
		asks := s.undoes != 0 && x.undoes != 0 && x.state == op.StatePending
		a.must(x.id.Index >= s.id.Index || !open(x.state) || asks, "in_order", "%s runs before the end of %s", s.id, x.id)
		if s.undoes == 0 {
			a.must(x == s || !x.fell(), "in_order", "%s runs, and %s is %s", s.id, x.id, x.state)
			a.must(x == s || x.undoes != 0 || x.state != op.StatePending, "in_order", "%s runs, and %s waits for people", s.id, x.id)
		}
	}
}

// compensates replays that a step is taken back: it succeeded, once, and its job fell.
func (a *Acceptor) compensates(s *step) {
	job := a.jobs[s.id.Job]
	of := idOfText(a.entry.Undoes)
	s.undoes = of.Index
	done := a.steps[of]
	a.must(done != nil && of.Job == s.id.Job && done.state == op.StateSucceeded, "in_order", "%s takes back %q, which did not succeed", s.id, a.entry.Undoes)
	a.must(over(job), "in_order", "%s takes a step back, and nothing of its job fell", s.id)
	for _, x := range job {
		a.must(x == s || x.undoes != s.undoes || s.undoes == 0, "in_order", "%s takes back %q a second time", s.id, a.entry.Undoes)
		a.must(x.state != op.StateDispatched, "in_order", "%s takes a step back while %s is under way", s.id, x.id)
	}
}

func idOfText(text string) op.StepID {
	id, err := op.ParseStepID(text)
	if err != nil {
		return op.StepID{}
	}
	return id
}

// rotates replays that a list of signers was committed. It counts from when its step succeeded, because the gate answers then, or
// from when a daemon starts with it.
func (a *Acceptor) rotates() {
	a.rotation[a.entry.Step] = append(a.rotation[a.entry.Step], a.entry.Keys...)
}

// inForce replays that the list of a rotation counts.
func (a *Acceptor) inForce(step string) {
	for _, sign := range []string{"- ", "+ "} {
		for _, line := range a.rotation[step] {
			if text, ok := strings.CutPrefix(line, sign); ok && !strings.HasSuffix(text, " cert-authority") {
				a.removed[signerOf(text).key] = sign == "- "
			}
		}
	}
	delete(a.rotation, step)
}

// signer is what an entry says of one signature.
type signer struct{ principal, role, key string }

// signerOf takes apart what op.Signed.String and authz.Listed.String wrote: PRINCIPAL ROLE SHA256:…, and more.
func signerOf(text string) signer {
	i := strings.Index(text, " SHA256:")
	if i < 0 {
		return signer{principal: text}
	}
	who, role := text[:i], ""
	if at := strings.LastIndexByte(who, ' '); at >= 0 {
		who, role = who[:at], who[at+1:]
	}
	key, _, _ := strings.Cut(text[i+1:], " ")
	return signer{principal: who, role: role, key: key}
}

// drop takes out signatures that no longer count.
func (s *step) drop(gone []string) {
	s.signers = slices.DeleteFunc(slices.Clone(s.signers), func(text string) bool { return slices.Contains(gone, text) })
}

// met reports whether the signatures can suffice: for each demand of one way there are enough of its roles. The gate's policy
// may ask for more by then. It never asks for less.
func (s *step) met(signers []string) bool {
	if !s.need.extra {
		return len(signers) > 0
	}
	return slices.ContainsFunc(s.need.Ways, func(w op.Way) bool {
		return !slices.ContainsFunc(w.Demands, func(d op.Demand) bool {
			have := 0
			for _, text := range signers {
				if slices.Contains(d.Roles, op.Role(signerOf(text).role)) {
					have++
				}
			}
			return have < d.Threshold
		})
	})
}
