package witness

import (
	"fmt"

	"gated/internal/op"
)

// whyWords say how a log contradicts what is remembered of it.
var whyWords = map[Why]string{
	Shorter:   "entries are missing that it had",
	OtherRoot: "it says other things than it did",
	NoProof:   "the gate does not prove that it goes on from what it was",
	OtherKey:  "it is signed with another key",
}

// String words it.
func (w Why) String() string { return whyWords[w] }

// contradicted keeps the head that was shown as evidence, and refuses with both.
func (c check) contradicted(why Why) error {
	r := c.is
	r.Why, r.Against = why, &c.was.Head.Signed
	kept := c.cannot
	if kept == nil {
		kept = c.dir.keep(*c.was, r)
	}
	text := fmt.Sprintf("the audit log of gate %s on %s was cut, rewritten or rolled back: %s\nremembered:  %s\nanswers now: %s",
		c.of.ID, op.Shown(c.of.Host), why, c.was.Head.words(), r.words())
	if kept == nil {
		text += "\nboth are kept in " + op.Shown(c.was.Path)
	} else {
		text += "\nthe latter could not be kept: " + op.Shown(kept.Error()) + "\n" + op.Shown(r.Note)
	}
	return op.Refuse(op.BindingMismatch, "%s", text).WithHint("%s", c.hint())
}

// words are a head for people.
func (r Record) words() string {
	head, key := r.Head(), ""
	if r.Why == OtherKey {
		key = ", key " + op.Shown(r.Key)
	}
	return fmt.Sprintf("%d entries, root %s, seen %s at %s%s", head.Size, head.Root, r.Seen.Format("2006-01-02 15:04:05Z"), op.Shown(r.Address), key)
}

// hint says what to do about a log that is not the one that was seen.
func (c check) hint() string {
	return fmt.Sprintf("nothing was signed. Somebody changed the log, or put an older copy of the gate's database or machine in its place: "+
		"what was decided since is gone, and what was spent may count again. Ask whoever runs the gate, and give them the evidence: "+
		"opsign witness export %s\nIf it was put back on purpose, the gate goes on under a new id: gated backup, then gated restore of "+
		"that file on its host. It is met anew after opsign forget %s; what is remembered of the old id stays, as evidence",
		c.of.ID, op.Shown(c.of.Address))
}

// unsigned is a gate that does not sign for its log as it is.
func (c check) unsigned(how string) error {
	if c.was == nil {
		return &Unsigned{c.of.ID}
	}
	return op.Refuse(op.BindingMismatch, "gate %s on %s signed heads of its audit log, and now %s\nremembered:  %s",
		c.of.ID, op.Shown(c.of.Host), how, c.was.Head.words()).
		WithHint("nothing was signed. The log is broken, or an older gated or something else answers. Ask whoever runs the gate: "+
			"gated audit verify and gated --version on its host; and give them the evidence: opsign witness export %s", c.of.ID)
}

// unfounded is a head that proves nothing, so that it is no evidence either.
func (c check) unfounded(err error) error {
	r := op.AsRefusal(err)
	text := fmt.Sprintf("what gate %s on %s shows as the signed head of its audit log is none: %s", c.of.ID, op.Shown(c.of.Host), r.Detail)
	if c.was != nil {
		text += "\nremembered:  " + c.was.Head.words()
	}
	return op.Refuse(r.Code, "%s", text).WithHint("nothing was signed. Something else than the gate may answer: ask whoever runs it, " +
		"and compare with gated audit head on its host")
}
