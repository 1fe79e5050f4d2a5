package witness

import (
	"context"
	"errors"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/checkpoint"
)

// Unsigned is the error for a gate that shows no signed head of its whole log and
// never showed one before. It is an older gated, or its log is broken.
type Unsigned struct{ Gate op.GateID }

func (u *Unsigned) Error() string {
	return "gate " + string(u.Gate) + " signs no head of its audit log"
}

// NotKept is the error for a sound head that could not be stored.
type NotKept struct{ Err error }

func (n *NotKept) Error() string {
	return "the head of its audit log cannot be remembered: " + n.Err.Error()
}

// Unwrap returns why the head could not be stored.
func (n *NotKept) Unwrap() error { return n.Err }

// errNoHome says why there is no place for witness files.
var errNoHome = errors.New("neither XDG_STATE_HOME nor HOME is set")

// Check asks a gate for its head, demands the proof that its log continues from the
// stored one, and stores the new one. A head that contradicts the stored one is
// BindingMismatch, and is stored beside it. If a gate that showed a head before
// shows none, that is BindingMismatch too. A head that proves nothing is Malformed,
// BadSignature or TargetMismatch (checkpoint.Open). NotAllowed means that no head of
// the gate is stored, its address is new, and its id is known at another address.
// Other errors: *Unsigned, *NotKept, those of Remembered, Unavailable if others keep
// the gate's file locked, and the errors of log and of.Meet.
//
// Check reads the stored head before it asks the gate, under a lock that it holds
// until the new head is on disk. So a sound log never seems to go backwards, however
// many programs check it.
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

// lock takes the gate's lock. If there is no place for a lock, cannot says why. Then
// no head can be stored, but a stored one can be compared.
func (d Dir) lock(ctx context.Context, gate op.GateID) (unlock func(), cannot, err error) {
	none := func() {}
	if d.Path == "" {
		return none, errNoHome, nil
	}
	file := d.file(gate)
	if err := file.MakeDir(); err != nil {
		if refusal.CodeOf(err) == refusal.NotAllowed {
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
		return none, nil, refusal.New(refusal.Unavailable,
			"another opsign has been asking gate %s about its audit log for %s", gate, patience).
			WithHint("it may wait for ssh; wait for it or end it, then try again")
	}
	return none, err, nil
}

// check is one run of Check.
type check struct {
	dir    Dir
	of     Gate
	was    *Memory // nil: no head is stored
	is     Record
	cannot error // why no head can be stored
}

// compare demands that the log continues from the stored head.
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

// proves demands the proof that the log of an earlier head continues to a later one.
// If the gate refuses it, there is no proof.
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

// accept calls Meet and stores the head. If the head cannot be stored, it does not
// call Meet, and the caller decides whether that matters.
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

// remember stores the new head, unless it is stored already.
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
