package vectors

import (
	"encoding/base64"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/op"
	"gated/internal/log/checkpoint"
	"gated/internal/test/must"
)

// merkleCase is a proof in the tree of a log: that it has an entry, or that it goes on from an older one.
type merkleCase struct {
	Name    `json:"name"`
	Seq     int64    `json:"seq,omitzero"` // of the entry, from 1
	Entry   string   `json:"entry,omitzero"`
	Old     int64    `json:"old,omitzero"` // the older size
	OldRoot string   `json:"old_root,omitzero"`
	Size    int64    `json:"size"`
	Root    string   `json:"root"` // all hashes are in base64
	Proof   []string `json:"proof"`
	Outcome
}

func (c *merkleCase) read(t *testing.T) (any, error) {
	t.Helper()
	proof, err := checkpoint.DecodeHashes(c.Proof)
	if err != nil {
		return nil, err
	}
	head := checkpoint.Checkpoint{Gate: gateID, Size: c.Size, Root: rootOf(t, c.Root)}
	if c.OldRoot == "" {
		return struct{}{}, head.Includes(c.Seq, []byte(c.Entry), proof)
	}
	old := checkpoint.Checkpoint{Gate: gateID, Size: c.Old, Root: rootOf(t, c.OldRoot)}
	return struct{}{}, old.Continues(head, proof)
}

func rootOf(t *testing.T, text string) tlog.Hash {
	t.Helper()
	return tlog.Hash(must.Get(base64.StdEncoding.DecodeString(text))(t))
}

// headCase is a signed head, and the gate's key as its reader knows it.
type headCase struct {
	Name `json:"name"`
	Key  string `json:"key"`
	Note string `json:"note"`
	Outcome
}

func (c *headCase) read(t *testing.T) (any, error) {
	t.Helper()
	head, err := checkpoint.Open(c.Note, c.Key)
	if err != nil {
		return nil, err
	}
	return struct {
		Gate op.GateID `json:"gate"`
		Size int64     `json:"size"`
		Root string    `json:"root"`
	}{head.Gate, head.Size, head.Root.String()}, nil
}
