// Package witness is an operator's memory of what gates said about their audit logs:
// the last signed head of each, and the heads that contradicted it. If a log does
// not continue from the stored head, it was cut, rewritten or rolled back.
//
// Each gate has a file of its own, with lines of JSON (docs/formats/witness.md). An
// export of these lines is evidence that others can check.
package witness

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/log/checkpoint"
)

const (
	// extension ends the name of a gate's file, after the gate id.
	extension = ".jsonl"
	// maxFile is the largest file that a witness reads or writes, in bytes.
	maxFile = 1 << 20
	// patience is how long a check waits for other checks of the same gate.
	patience = 30 * time.Second
)

// Dir is the directory with one user's witness files. Several goroutines and
// programs may use its methods at the same time.
type Dir struct {
	Path string // empty: there is no place for files
	Now  func() time.Time
}

// DirOf returns $XDG_STATE_HOME/opsign/witness, or the directory below
// ~/.local/state. It is not part of a gate's state, although that may be beside it.
// Restoring a gate must not restore the operator's memory of it.
func DirOf(getenv func(string) string, now func() time.Time) Dir {
	return Dir{Path: ownfile.StateDir(getenv, "opsign", "witness"), Now: now}
}

// File returns the path of a gate's file, or "" if there is no place for files.
func (d Dir) File(gate op.GateID) string {
	if d.Path == "" {
		return ""
	}
	return filepath.Join(d.Path, string(gate)+extension)
}

func (d Dir) file(gate op.GateID) ownfile.File {
	return ownfile.File{Path: d.File(gate), Max: maxFile, What: "the heads that are remembered", Moved: "XDG_STATE_HOME"}
}

// Log asks a gate about its audit log.
type Log interface {
	// Head returns the newest entry's number, and the signed head with its key. Both
	// texts are empty if the gate signs no head.
	Head(ctx context.Context) (Shown, error)
	// Consistency returns the proof that the first old entries are the start of the
	// first size entries, in the form of checkpoint.EncodeHashes.
	Consistency(ctx context.Context, old, size int64) ([]string, error)
}

// Shown is what a gate says about its log.
type Shown struct {
	Seq  int64 // of the newest entry
	Note string
	Key  string
}

// Gate names the gate that answers, and its address.
type Gate struct {
	ID      op.GateID
	Host    string // the host that the gate says it guards
	Address string // at which it answered
	// Known is another address at which a gate of this id is known, if this address
	// is new; else it is empty. Gate ids are no secret, so the first head of an id
	// must not come from the new address.
	Known string
	// Meet pins the gate, and may be nil. Check calls it if it found no
	// contradiction, before it stores the head. An error of Meet ends the check.
	Meet func() error
}

// Checked is the result of a check without a contradiction.
type Checked struct {
	Head  checkpoint.Checkpoint // the head that is stored now
	Key   string                // the key that signed it
	First bool                  // no head was stored before
}

// Finding says how a head of another witness fits the log that this gate shows.
type Finding struct {
	Record Record
	Why    Why // how it contradicts the log; empty if it does not
}

// Compare checks whether heads of other witnesses fit the log of a gate that Check
// has checked. So two operators notice if the gate showed them different logs. It
// demands a proof for each head of that gate, and ignores contradictions that others
// stored and heads of other gates. The records must be from before Check, because
// the log may have grown since. Its errors are those of log.
func Compare(ctx context.Context, checked Checked, records []Record, log Log) ([]Finding, error) {
	var out []Finding
	for _, r := range records {
		if r.Gate != checked.Head.Gate || r.Contradiction() {
			continue
		}
		why, err := related(ctx, r, checked, log)
		if err != nil {
			return nil, err
		}
		out = append(out, Finding{r, why})
	}
	return out, nil
}

// related demands that the checked log continues from a head.
func related(ctx context.Context, r Record, checked Checked, log Log) (Why, error) {
	was, is := r.Head(), checked.Head
	if why := contradicts(was, is, r.Key == checked.Key); why != "" || is.Size == was.Size {
		return why, nil
	}
	proven, err := proves(ctx, was, is, log)
	if err != nil || proven {
		return "", err
	}
	return NoProof, nil
}

// refusesProof reports whether a gate says that there is no such proof.
func refusesProof(err error) bool {
	code := refusal.CodeOf(err)
	return code == refusal.BadParams || code == refusal.UnknownTarget
}

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
	return fmt.Sprintf("%d entries, root %s, seen %s at %s%s", head.Size, head.Root, r.Seen.UTC().Format(time.RFC3339), op.Shown(r.Address), key)
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
