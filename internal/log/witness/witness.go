// Package witness is an operator's memory of what gates said about their audit logs:
// the last signed head of each, and the heads that contradicted it. If a log does
// not continue from the stored head, it was cut, rewritten or rolled back.
//
// Each gate has a file of its own, with lines of JSON (docs/formats/witness.md). An
// export of these lines is evidence that others can check.
package witness

import (
	"context"
	"path/filepath"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
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
	dir := getenv("XDG_STATE_HOME")
	if home := getenv("HOME"); !filepath.IsAbs(dir) && filepath.IsAbs(home) {
		dir = filepath.Join(home, ".local", "state")
	}
	if !filepath.IsAbs(dir) {
		return Dir{Now: now}
	}
	return Dir{Path: filepath.Join(dir, "opsign", "witness"), Now: now}
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
