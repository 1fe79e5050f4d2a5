package witness_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/log/witness"
	"gated/internal/test/must"
)

// realLog is a gate's own log in a store, signed with the gate's key.
type realLog struct {
	t     *testing.T
	store *store.Store
	key   checkpoint.Key
}

func newRealLog(t *testing.T, n int) *realLog {
	key := must.Get(checkpoint.NewKey(gate))(t)
	//fsck:none a log by itself, which the test verifies
	s, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "audit.db"), store.Options{
		Migrations: []store.Migration{{Version: 1, Name: "audit", SQL: audit.Schema}, {Version: 2, Name: "tree", SQL: audit.SchemaTree}}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	s.OnGroup(audit.Sealer{Gate: gate, Key: key}.Seal)
	l := &realLog{t, s, key}
	l.update(func(tx *store.Tx) error { return audit.SetPublicKey(tx, gate, key.Public) })
	for i := range n {
		l.append(fmt.Sprint(i))
	}
	return l
}

func (l *realLog) update(fn func(*store.Tx) error) {
	if err := l.store.Update(context.Background(), fn); err != nil {
		l.t.Error(err)
	}
}

func (l *realLog) append(detail string) {
	l.update(func(tx *store.Tx) error {
		_, err := audit.Append(tx, audit.Entry{Time: noon, Kind: audit.Planned, Detail: detail, Gate: gate})
		return err
	})
}

// Head implements witness.Log as the daemon does.
func (l *realLog) Head(ctx context.Context) (s witness.Shown, err error) {
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
func (l *realLog) Consistency(ctx context.Context, old, size int64) (out []string, err error) {
	return out, l.store.View(ctx, func(tx *store.Tx) error {
		hashes, err := audit.Proofs{}.Consistency(tx, old, size)
		out = checkpoint.EncodeHashes(hashes)
		return err
	})
}

// forge writes the log anew from texts. It is consistent and signed with the gate's
// key, as an attacker with both could do.
func (l *realLog) forge(edit func(texts []string) []string) {
	l.update(func(tx *store.Tx) error {
		bodies, err := audit.Bodies(tx, 0, 1000)
		if err != nil {
			return err
		}
		texts := make([]string, len(bodies))
		for i, b := range bodies {
			texts[i] = string(b)
		}
		for _, q := range []string{`DELETE FROM audit`, `DELETE FROM audit_head`, `DELETE FROM audit_tree`} {
			if _, err := tx.Exec(q); err != nil {
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
	})
}

// whole asserts that the log is consistent, and whether it fits the seen head.
func (l *realLog) whole(seen checkpoint.Checkpoint, ok bool) {
	l.t.Helper()
	require.NoError(l.t, l.store.View(l.t.Context(), func(tx *store.Tx) error {
		must.Get(audit.Verify(tx, nil))(l.t)
		_, err := audit.Verify(tx, nil, seen)
		var broken *audit.BrokenError
		if ok {
			require.NoError(l.t, err)
		} else {
			require.ErrorAs(l.t, err, &broken)
		}
		return nil
	}))
}

// TestALogThatWasMadeAnew: matrix row H07. The log is consistent, and it is not the
// one that was seen.
func TestALogThatWasMadeAnew(t *testing.T) {
	alter := func(texts []string) []string {
		texts[6] = strings.Replace(texts[6], `"detail":"6"`, `"detail":"x"`, 1)
		return texts
	}
	for name, edit := range map[string]func([]string) []string{
		"cut":              func(texts []string) []string { return texts[:15] },
		"cut in the front": func(texts []string) []string { return texts[1:] },
		"altered":          alter,
		"altered, longer":  func(texts []string) []string { return append(alter(texts), texts[3], texts[4]) },
		"one taken out":    func(texts []string) []string { return append(append(texts[:4:4], texts[5:]...), texts[0], texts[1]) },
		"two changed over": func(texts []string) []string { texts[3], texts[4] = texts[4], texts[3]; return texts },
	} {
		t.Run(name, func(t *testing.T) {
			d, l := dirIn(t), newRealLog(t, 20)
			seen := must.Get(d.Check(t.Context(), of, l))(t)
			l.whole(seen.Head, true)
			l.forge(edit)
			l.whole(seen.Head, false)
			must.Fail(d.Check(t.Context(), of, l))(t, refusal.BindingMismatch)
			again := must.Get(d.Remembered(gate))(t)
			require.Equal(t, seen.Head, again.Head.Head())
			require.Len(t, again.Contradictions, 1)
		})
	}
	// The same texts make the same log, however they were written.
	d, l := dirIn(t), newRealLog(t, 20)
	seen := must.Get(d.Check(t.Context(), of, l))(t)
	l.forge(func(texts []string) []string { return texts })
	l.append("more")
	must.Get(d.Check(t.Context(), of, l))(t)
	l.whole(seen.Head, true)
}

// TestManyOperatorsOfOneGate: operators check the gate at the same time while it
// decides, each with an own witness.
func TestManyOperatorsOfOneGate(t *testing.T) {
	l := newRealLog(t, 3)
	var all, writers sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	writers.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			l.append(fmt.Sprint("while they look ", n))
		}
	})
	shared := dirIn(t) // of several programs of one operator
	for i := range 16 {
		d := shared
		if i%2 == 0 {
			d = dirIn(t)
		}
		all.Go(func() {
			for range 6 {
				if _, err := d.Check(ctx, of, l); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	stop()
	writers.Wait()
}
