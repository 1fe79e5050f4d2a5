package witness

import (
	"fmt"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// whyWords says in words how a log contradicts the stored head.
var whyWords = map[Why]string{
	Shorter:   "entries are missing that it had",
	OtherRoot: "it says other things than it did",
	NoProof:   "the gate does not prove that it goes on from what it was",
	OtherKey:  "it is signed with another key",
}

// String returns the words for people.
func (w Why) String() string { return whyWords[w] }

// contradicted stores the new head as evidence, and refuses with both heads.
func (c check) contradicted(why Why) error {
	r := c.is
	r.Why, r.Against = why, &c.was.Head.Signed
	kept := c.cannot
	if kept == nil {
		kept = c.dir.keep(*c.was, r)
	}
	what := "was cut, rewritten or rolled back"
	remembered := c.was.Head.words()
	if why == OtherKey {
		what, remembered = "is not the one that is remembered", remembered+", key "+op.Shown(c.was.Head.Key)
	}
	text := fmt.Sprintf("the audit log of gate %s on %s %s: %s\nremembered:  %s\nanswers now: %s",
		c.of.ID, op.Shown(c.of.Host), what, why, remembered, r.words())
	if kept == nil {
		text += "\nboth are kept in " + op.Shown(c.was.Path)
	} else {
		text += "\nthe latter could not be kept: " + op.Shown(kept.Error()) + "\n" + op.Shown(r.Note)
	}
	return refusal.New(refusal.BindingMismatch, "%s", text).WithHint("%s", c.hint(why))
}

// words describes a head for people.
func (r Record) words() string {
	head, key := r.Head(), ""
	if r.Why == OtherKey {
		key = ", key " + op.Shown(r.Key)
	}
	return fmt.Sprintf("%d entries, root %s, seen %s at %s%s", head.Size, head.Root, r.Seen.Format("2006-01-02 15:04:05Z"), op.Shown(r.Address), key)
}

// hint says what to do about a log that contradicts the stored head.
func (c check) hint(why Why) string {
	if why == OtherKey {
		return fmt.Sprintf("nothing was signed. A gate keeps its key as long as its id: what answered at %s when it was seen first, or what answers "+
			"at %s now, is not the gate. Run gated audit head on the gate's host itself: if its key is the remembered one, something else answers now, "+
			"so tell whoever runs the gate. If it is the other one, the first sight was false: opsign witness replace %s --key KEY, with the key "+
			"that the host printed; the old head stays, as evidence",
			op.Shown(c.was.Head.Address), op.Shown(c.of.Address), c.of.ID)
	}
	return fmt.Sprintf("nothing was signed. Somebody changed the log, or put an older copy of the gate's database or machine in its place: "+
		"what was decided since is gone, and what was spent may count again. Ask whoever runs the gate, and give them the evidence: "+
		"opsign witness export %s\nIf it was put back on purpose, the gate goes on under a new id: gated backup, then gated restore of "+
		"that file on its host. It is met anew after opsign forget %s; what is remembered of the old id stays, as evidence",
		c.of.ID, op.Shown(c.of.Address))
}

// elsewhere refuses a gate that must first be checked at its known address.
func (c check) elsewhere() error {
	return refusal.New(refusal.NotAllowed,
		"gate %s is known at %s, where its audit log was not seen yet, and %s is a new address: nothing is remembered from there",
		c.of.ID, op.Shown(c.of.Known), op.Shown(c.of.Address)).
		WithHint("nothing was signed. Anybody can claim a gate's id: run opsign list at the address at which it is known, then here again, where it is "+
			"held to what was seen there. If the gate is not there any more, compare what answers here with gated status and gated audit head on "+
			"its host, then opsign forget %s", op.Shown(c.of.Known))
}

// unsigned refuses a gate that does not sign the head of its present log.
func (c check) unsigned(how string) error {
	if c.was == nil {
		return &Unsigned{c.of.ID}
	}
	return refusal.New(refusal.BindingMismatch, "gate %s on %s signed heads of its audit log, and now %s\nremembered:  %s",
		c.of.ID, op.Shown(c.of.Host), how, c.was.Head.words()).
		WithHint("nothing was signed. The log is broken, or an older gated or something else answers. Ask whoever runs the gate: "+
			"gated audit verify and gated --version on its host; and give them the evidence: opsign witness export %s", c.of.ID)
}

// unfounded refuses a head that proves nothing, and so is no evidence either.
func (c check) unfounded(err error) error {
	r := refusal.As(err)
	text := fmt.Sprintf("what gate %s on %s shows as the signed head of its audit log is none: %s", c.of.ID, op.Shown(c.of.Host), r.Detail)
	if c.was != nil {
		text += "\nremembered:  " + c.was.Head.words()
	}
	return refusal.New(r.Code, "%s", text).
		WithHint("nothing was signed. Something else than the gate may answer: ask whoever runs it, " +
			"and compare with gated audit head on its host")
}
