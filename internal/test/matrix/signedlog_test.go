package matrix_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/log/witness"
	"gated/internal/test/must"
)

// keyed has the gate sign the heads of its log from now on, with a key of its
// own in the file that the daemon keeps it in.
func (w *world) keyed() {
	w.t.Helper()
	w.key = must.Get(checkpoint.NewKey(w.gate.ID()))(w.t)
	require.NoError(w.t, os.WriteFile(w.keyFile(), []byte(w.key.Text()), 0o600))
	w.restart()
	require.NoError(w.t, w.store.Update(w.ctx, func(tx *store.Tx) error {
		if err := audit.SetPublicKey(tx, w.gate.ID(), w.key.Public); err != nil {
			return err
		}
		return w.gate.Append(tx, audit.Entry{Kind: audit.Keyed, By: "gate", Parts: audit.Parts{HeadKey: w.key.Public}})
	}))
}

func (w *world) keyFile() string { return filepath.Join(w.dir, "gate.key") }

// gateLog is what operators are shown of the gate's log, as the daemon shows it.
type gateLog struct{ *world }

// Head implements witness.Log.
func (l gateLog) Head(ctx context.Context) (s witness.Shown, err error) {
	return s, l.store.View(ctx, func(tx *store.Tx) error {
		head, err := audit.ReadHead(tx)
		if err != nil {
			return err
		}
		signed, err := audit.SignedHead(tx)
		s = witness.Shown{Seq: head.Seq, Note: signed.Note, Key: signed.Key}
		return err
	})
}

// Consistency implements witness.Log.
func (l gateLog) Consistency(ctx context.Context, old, size int64) (out []string, err error) {
	return out, l.store.View(ctx, func(tx *store.Tx) error {
		proof, err := audit.Proofs{}.Consistency(tx, old, size)
		out = checkpoint.EncodeHashes(proof)
		return err
	})
}

// relay stands between opsign and the gate, and answers as it likes.
type relay struct {
	head  func(witness.Shown) witness.Shown
	proof func([]string) []string
	log   witness.Log
}

// Head implements witness.Log.
func (r relay) Head(ctx context.Context) (witness.Shown, error) {
	s, err := r.log.Head(ctx)
	if r.head != nil {
		s = r.head(s)
	}
	return s, err
}

// Consistency implements witness.Log.
func (r relay) Consistency(ctx context.Context, old, size int64) ([]string, error) {
	p, err := r.log.Consistency(ctx, old, size)
	if r.proof != nil {
		return r.proof(p), nil
	}
	return p, err
}

// operators is the directory in which an operator's opsign remembers heads.
func (w *world) operators() witness.Dir {
	w.t.Helper()
	return witness.Dir{Path: filepath.Join(w.t.TempDir(), "witness"), Now: w.now}
}

const socketAddress = "unix:/run/gated/gated.sock"

// asks is what opsign does before it shows or signs anything.
func (w *world) asks(d witness.Dir, log witness.Log) error {
	return failure(d.Check(w.ctx, witness.Gate{ID: w.gate.ID(), Host: w.gate.Host(), Address: socketAddress}, log))
}

// sees is asks where nothing is wrong; it returns what the operator was shown.
func (w *world) sees(d witness.Dir) witness.Shown {
	w.t.Helper()
	require.NoError(w.t, w.asks(d, gateLog{w}))
	return must.Get(gateLog{w}.Head(w.ctx))(w.t)
}

// works has the gate write an entry more.
func (w *world) works() {
	w.t.Helper()
	w.reload()
}

// whileStopped changes files of the state while no daemon has them, and goes on with
// what is there then. What it returns puts the database and the key back, byte
// for byte, in the same files.
func (w *world) whileStopped(change func()) (putBack func()) {
	w.t.Helper()
	w.shut()
	was := map[string][]byte{}
	for _, name := range []string{"gated.db", "gate.key"} {
		was[name] = must.Get(os.ReadFile(filepath.Join(w.dir, name)))(w.t)
	}
	change()
	return func() {
		w.shut()
		for name, text := range was {
			w.overwrite(filepath.Join(w.dir, name), text)
		}
		w.open()
	}
}

// overwrite writes a file in its place, as whoever restores a disk does.
func (w *world) overwrite(path string, text []byte) {
	w.t.Helper()
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		require.NoError(w.t, os.Remove(path))
	}
	f := must.Get(os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|os.O_CREATE, 0o600))(w.t)
	must.Get(f.Write(text))(w.t)
	require.NoError(w.t, f.Close())
}

// remake makes the whole log anew from its texts, so that it agrees with itself:
// what somebody can who may write the database. Nothing is signed for it.
func remake(edit func(texts []string) []string) func(tx *store.Tx) error {
	return func(tx *store.Tx) error {
		bodies, err := audit.Bodies(tx, 0, 10000)
		if err != nil {
			return err
		}
		texts := make([]string, len(bodies))
		for i, b := range bodies {
			texts[i] = string(b)
		}
		for _, table := range []string{"audit", "audit_head", "audit_tree"} {
			if _, err := tx.Exec(`DELETE FROM ` + table); err != nil {
				return err
			}
		}
		prev := ""
		for i, text := range edit(texts) {
			head, _, _ := strings.Cut(text, `"prev":`)
			_, rest, _ := strings.Cut(head, `,`)
			text = fmt.Sprintf(`{"seq":%d,%s"prev":%q}`, i+1, rest, prev)
			sum := sha256.Sum256([]byte(text))
			prev = hex.EncodeToString(sum[:])
			if _, err := tx.Exec(`INSERT INTO audit(seq, body, hash) VALUES(?, ?, ?)`, i+1, []byte(text), sum[:]); err != nil {
				return err
			}
		}
		return nil
	}
}

// resigned is remake by somebody who has gate.key as well.
func (w *world) resigned(edit func(texts []string) []string) func(tx *store.Tx) error {
	seal := audit.Sealer{Gate: w.signsFor(), Key: w.key.Signer}.Seal
	return func(tx *store.Tx) error {
		if err := remake(edit)(tx); err != nil {
			return err
		}
		return seal(tx)
	}
}

// signsFor is the gate that the key is of.
func (w *world) signsFor() op.GateID { return op.GateID(strings.TrimPrefix(w.key.Name(), "gated/")) }

// otherCaller has entry number seq say that somebody else asked.
func otherCaller(seq int) func([]string) []string {
	return func(texts []string) []string {
		texts[seq-1] = strings.Replace(texts[seq-1], "uid:1000", "uid:2000", 1)
		return texts
	}
}

// wholeAgain asserts that the log of the database agrees with itself, so that
// nobody finds anything who has seen nothing.
func (w *world) wholeAgain() {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) error {
		return failure(audit.Verify(tx, nil))
	}))
}

func (w *world) fileText(path string) []byte {
	w.t.Helper()
	return must.Get(os.ReadFile(path))(w.t)
}
