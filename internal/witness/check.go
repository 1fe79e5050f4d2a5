package witness

import (
	"context"
	"errors"
	"time"

	"gated/internal/checkpoint"
	"gated/internal/op"
)

// Unsigned is returned for a gate that shows no signed head of all its log, and
// of which none is remembered: an older gated, or a log that is broken.
type Unsigned struct{ Gate op.GateID }

func (u *Unsigned) Error() string {
	return "gate " + string(u.Gate) + " signs no head of its audit log"
}

// NotKept is returned for a head in which nothing was found wrong and that could
// not be remembered.
type NotKept struct{ Err error }

func (n *NotKept) Error() string {
	return "the head of its audit log cannot be remembered: " + n.Err.Error()
}

// Unwrap returns why.
func (n *NotKept) Unwrap() error { return n.Err }

// errNoHome is the reason where there is no place for witness files.
var errNoHome = errors.New("neither XDG_STATE_HOME nor HOME is set")

// Check asks a gate for its head, demands the proof that its log goes on from the
// one that is remembered, and remembers the new one. A head that contradicts what
// is remembered is BindingMismatch, and kept beside it; so is no head of a gate
// that showed one before. A head that proves nothing is Malformed, BadSignature or
// TargetMismatch (checkpoint.Open). NotAllowed is a gate of which nothing is
// remembered, at a new address, that is known at another one. Other errors:
// *Unsigned, *NotKept, those of Remembered, Unavailable if others keep the gate's
// file locked, and what log and of.Meet return.
//
// What is remembered is read before the gate is asked, under a lock that is held
// until the new head is on disk: so a sound log never seems to go backwards,
// however many ask.
func (d Dir) Check(ctx context.Context, of Gate, log Log) (Checked, error) {
	unlock, cannot, err := d.lock(ctx, of.ID)
	if err != nil {
		return Checked{}, err
	}
	defer unlock()
	was, err := d.Remembered(of.ID)
	if err != nil {
		return Checked{}, err
	}
	shown, err := log.Head(ctx)
	if err != nil {
		return Checked{}, err
	}
	c := check{dir: d, of: of, was: was, cannot: cannot}
	if shown.Note == "" {
		return Checked{}, c.unsigned("signs none")
	}
	c.is = Record{Type: recordType, Gate: of.ID, Host: of.Host, Address: of.Address,
		Signed: Signed{Seen: d.Now().UTC().Truncate(time.Second), Key: shown.Key, Note: shown.Note}}
	head, err := c.is.open(of.ID)
	switch {
	case err != nil:
		return Checked{}, c.unfounded(err)
	case head.Size != shown.Seq:
		return Checked{}, c.unsigned("has other entries beside those that it signs for")
	}
	if was != nil {
		if err := c.compare(ctx, head, log); err != nil {
			return Checked{}, err
		}
	}
	return Checked{Head: head, Key: shown.Key, First: was == nil}, c.accept()
}

// lock takes the gate's lock. Where there is no place for one, cannot says why:
// nothing can be remembered then, but what is can be compared.
func (d Dir) lock(ctx context.Context, gate op.GateID) (unlock func(), cannot, err error) {
	none := func() {}
	if d.Path == "" {
		return none, errNoHome, nil
	}
	file := d.file(gate)
	if err := file.MakeDir(); err != nil {
		if op.CodeOf(err) == op.NotAllowed {
			return none, nil, err
		}
		return none, err, nil
	}
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	unlock, err = file.Lock(limit)
	switch {
	case err == nil:
		return unlock, nil, nil
	case ctx.Err() != nil:
		return none, nil, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return none, nil, op.Refuse(op.Unavailable, "another opsign has been asking gate %s about its audit log for %s", gate, patience).
			WithHint("it may wait for ssh; wait for it or end it, then try again")
	}
	return none, err, nil
}

// check is one of them.
type check struct {
	dir    Dir
	of     Gate
	was    *Memory // nil: nothing is remembered
	is     Record
	cannot error // why nothing can be remembered
}

// compare demands that the log goes on from what is remembered.
func (c check) compare(ctx context.Context, is checkpoint.Checkpoint, log Log) error {
	was := c.was.Head.checkpoint()
	if why := contradicts(was, is, c.was.Head.Key == c.is.Key); why != "" {
		return c.contradicted(why)
	}
	if is.Size == was.Size {
		return nil
	}
	proven, err := proves(ctx, was, is, log)
	if err == nil && !proven {
		err = c.contradicted(NoProof)
	}
	return err
}

// proves demands the proof that the log of an earlier head goes on to a later
// one. A gate that refuses one has none.
func proves(ctx context.Context, was, is checkpoint.Checkpoint, log Log) (bool, error) {
	hashes, err := log.Consistency(ctx, was.Size, is.Size)
	if refusesProof(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	proof, err := checkpoint.DecodeHashes(hashes)
	return err == nil && was.Continues(is, proof) == nil, nil
}

// accept meets the gate and remembers the head. What cannot be remembered meets
// nobody: whether that matters, the caller knows.
func (c check) accept() error {
	switch {
	case c.cannot != nil && (c.was == nil || c.was.Head.Note != c.is.Note):
		return &NotKept{c.cannot}
	case c.was == nil && c.of.Known != "":
		return c.elsewhere()
	case c.of.Meet != nil:
		if err := c.of.Meet(); err != nil {
			return err
		}
	}
	return c.remember()
}

// remember writes the new head, unless it is the one that is remembered.
func (c check) remember() error {
	if c.was != nil && c.was.Head.Note == c.is.Note {
		return nil
	}
	m := Memory{Head: c.is}
	if c.was != nil {
		m.Contradictions = c.was.Contradictions
	}
	if err := c.dir.write(c.of.ID, m); err != nil {
		return &NotKept{err}
	}
	return nil
}
