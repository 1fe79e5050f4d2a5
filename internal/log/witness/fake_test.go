package witness_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/checkpoint"
	"gated/internal/log/witness"
	"gated/internal/test/must"
)

const gate = op.GateID("0123456789abcdef0123456789abcdef")

var of = witness.Gate{ID: gate, Host: "pve1", Address: "unix:/run/gated/gated.sock"}

// fake is a gate's log in memory. It gives true proofs, unless a test tells it to
// show something else.
type fake struct {
	mu    sync.Mutex
	key   checkpoint.Key
	texts []string
	tree  []tlog.Hash

	show   func(witness.Shown) witness.Shown
	proof  func([]string, error) ([]string, error)
	asked  int // how many proofs it was asked for
	before func()
}

// ReadHashes implements tlog.HashReader.
func (f *fake) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		out[i] = f.tree[at]
	}
	return out, nil
}

func newFake(t require.TestingT, texts ...string) *fake {
	k := must.Get(checkpoint.NewKey(gate))(t)
	f := &fake{key: k}
	f.grow(t, texts...)
	return f
}

// grow appends entries.
func (f *fake) grow(t require.TestingT, texts ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, text := range texts {
		more := must.Get(tlog.StoredHashes(int64(len(f.texts)), []byte(text), f))(t)
		f.texts, f.tree = append(f.texts, text), append(f.tree, more...)
	}
}

// become replaces the history.
func (f *fake) become(t require.TestingT, texts ...string) {
	f.mu.Lock()
	f.texts, f.tree = nil, nil
	f.mu.Unlock()
	f.grow(t, texts...)
}

func (f *fake) head() (checkpoint.Checkpoint, error) {
	n := int64(len(f.texts))
	root, err := tlog.TreeHash(n, f)
	return checkpoint.Checkpoint{Gate: gate, Size: n, Root: root}, err
}

// Head implements witness.Log.
func (f *fake) Head(context.Context) (witness.Shown, error) {
	if f.before != nil {
		f.before()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.head()
	if err != nil {
		return witness.Shown{}, err
	}
	note, err := c.Sign(f.key)
	s := witness.Shown{Seq: c.Size, Note: note, Key: f.key.Public}
	if f.show != nil {
		s = f.show(s)
	}
	return s, err
}

// Consistency implements witness.Log.
func (f *fake) Consistency(_ context.Context, old, size int64) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	hashes, err := f.prove(old, size)
	if f.proof != nil {
		return f.proof(checkpoint.EncodeHashes(hashes), err)
	}
	return checkpoint.EncodeHashes(hashes), err
}

func (f *fake) prove(old, size int64) ([]tlog.Hash, error) {
	if old < 1 || old > size || size > int64(len(f.texts)) {
		return nil, refusal.New(refusal.BadParams, "the log has %d entries", len(f.texts))
	}
	return tlog.ProveTree(size, old, f)
}

// entries are n texts of the history with that name.
func entries(name string, from, to int) []string {
	var out []string
	for i := from; i <= to; i++ {
		out = append(out, fmt.Sprintf(`{"seq":%d,"of":%q}`, i, name))
	}
	return out
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)

func dirIn(t *testing.T) witness.Dir {
	return witness.Dir{Path: t.TempDir() + "/opsign/witness", Now: func() time.Time { return noon }}
}

// sees runs a check that must accept what the gate shows.
func sees(t *testing.T, d witness.Dir, f *fake) witness.Checked {
	t.Helper()
	c := must.Get(d.Check(context.Background(), of, f))(t)
	require.Equal(t, c.Head, must.Get(d.Remembered(gate))(t).Head.Head(), "what was shown is remembered")
	return c
}

// refuses runs a check that must refuse what the gate shows and keep the stored
// head.
func refuses(t *testing.T, d witness.Dir, f *fake, code refusal.Code) *refusal.Refusal {
	t.Helper()
	before := must.Get(d.Remembered(gate))(t)
	_, refused := d.Check(context.Background(), of, f)
	require.ErrorIs(t, refused, code)
	require.Equal(t, before.Head, must.Get(d.Remembered(gate))(t).Head, "the head that is remembered stays")
	return refusal.As(refused)
}
