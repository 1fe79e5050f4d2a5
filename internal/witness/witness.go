// Package witness is an operator's memory of what gates said of their audit
// logs: the last signed head of each, and what contradicted one. A log that does
// not go on from the head that is remembered was cut, rewritten or rolled back.
//
// Each gate has a file of its own, lines of JSON in the form that docs/formats/witness.md
// describes; exported, they are evidence that others can check.
package witness

import (
	"context"
	"path/filepath"
	"time"

	"gated/internal/checkpoint"
	"gated/internal/op"
	"gated/internal/ownfile"
)

const (
	// extension ends the name of a gate's file; its id is the rest.
	extension = ".jsonl"
	// maxFile is the largest file that is read or written, in bytes.
	maxFile = 1 << 20
	// patience is how long a check waits for others of the same gate.
	patience = 30 * time.Second
)

// Dir is the directory with the witness files of one user. Its methods may be
// used at the same time, by several programs too.
type Dir struct {
	Path string // empty: there is no place for one
	Now  func() time.Time
}

// DirOf returns $XDG_STATE_HOME/opsign/witness, else the one below
// ~/.local/state. It is no part of a gate's state, which may be a neighbour of it:
// what puts a gate back must not put back what is remembered of it.
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

// File returns the path of a gate's file, empty if there is no place for one.
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
	// Head returns the newest entry's number, and the signed head with the key
	// for it, both empty if the gate signs none.
	Head(ctx context.Context) (Shown, error)
	// Consistency returns the proof that the first old entries are among the first
	// size, as checkpoint.EncodeHashes writes it.
	Consistency(ctx context.Context, old, size int64) ([]string, error)
}

// Shown is what a gate shows of its log.
type Shown struct {
	Seq  int64 // of the newest entry
	Note string
	Key  string
}

// Gate is which gate answers, and where.
type Gate struct {
	ID      op.GateID
	Host    string // that it guards, as it says
	Address string // at which it answered
	// Known is another address at which a gate of this id is known while this
	// address is new, empty if there is none: nobody's id is a secret, so what is
	// seen first is not seen here.
	Known string
	// Meet is called once nothing was found wrong and before anything is
	// remembered, where that is possible: it pins the gate. May be nil; what it
	// returns ends the check.
	Meet func() error
}

// Checked is how a check ended that found nothing wrong.
type Checked struct {
	Head  checkpoint.Checkpoint // what is remembered from now on
	Key   string                // that it is signed with
	First bool                  // nothing was remembered before
}
