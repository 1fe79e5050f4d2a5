package audit_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/test/must"
)

const gateID = op.GateID("0123456789abcdef0123456789abcdef")

// signing is a log whose heads are signed.
func signing(t *testing.T) (*log, checkpoint.Key) {
	l := &log{t, storetest.Open(t, filepath.Join(t.TempDir(), "audit.db"), store.Options{Migrations: schema}, whole)}
	return l, l.sign()
}

// sign has the heads of a log signed from now on.
func (l *log) sign() checkpoint.Key {
	l.t.Helper()
	key := must.Get(checkpoint.NewKey(gateID))(l.t)
	l.store.OnGroup(audit.Sealer{Gate: gateID, Key: key.Signer}.Seal)
	l.update(func(tx *store.Tx) error { return audit.SetPublicKey(tx, gateID, key.Public) })
	return key
}

// fill appends n entries, so many in each group.
func (l *log) fill(n, group int) {
	l.t.Helper()
	for done := 0; done < n; done += group {
		var entries []audit.Entry
		for i := range min(group, n-done) {
			entries = append(entries, audit.Entry{Time: when, Kind: audit.Planned, Detail: fmt.Sprintf("entry %d", done+i+1)})
		}
		l.append(entries...)
	}
}

// signed is the last signed head.
func (l *log) signed(key checkpoint.Key) (c checkpoint.Checkpoint) {
	l.t.Helper()
	l.view(func(tx *store.Tx) error {
		s, err := audit.SignedHead(tx)
		require.NoError(l.t, err)
		require.Equal(l.t, key.Public, s.Key)
		c, err = checkpoint.Open(s.Note, s.Key)
		require.NoError(l.t, err)
		require.Equal(l.t, c, s.Checkpoint)
		return nil
	})
	return c
}

// TestTheTreeIsRFC6962s: roots and proofs are those of a tree that keeps every node,
// at sizes around the stored levels.
func TestTheTreeIsRFC6962s(t *testing.T) {
	l, key := signing(t)
	var all []tlog.Hash
	reader := tlog.HashReaderFunc(func(at []int64) (out []tlog.Hash, err error) {
		for _, i := range at {
			out = append(out, all[i])
		}
		return out, nil
	})
	sizes := map[int64]bool{1: true, 2: true, 3: true, 15: true, 16: true, 17: true, 31: true, 33: true, 255: true, 256: true, 257: true, 600: true}
	heads := map[int64]checkpoint.Checkpoint{}
	for n := int64(1); n <= 600; n++ {
		l.append(audit.Entry{Time: when, Kind: audit.Planned, Detail: fmt.Sprint(n)})
		l.view(func(tx *store.Tx) error {
			bodies, err := audit.Bodies(tx, n-1, 1)
			require.NoError(t, err)
			more, err := tlog.StoredHashes(n-1, bodies[0], reader)
			require.NoError(t, err)
			all = append(all, more...)
			return nil
		})
		if sizes[n] {
			root, err := tlog.TreeHash(n, reader)
			require.NoError(t, err)
			heads[n] = l.signed(key)
			require.Equal(t, checkpoint.Checkpoint{Gate: gateID, Size: n, Root: root}, heads[n])
		}
	}
	for old, was := range heads {
		for size, is := range heads {
			if old > size {
				continue
			}
			l.view(func(tx *store.Tx) error {
				proof, err := audit.Proofs{}.Consistency(tx, old, size)
				require.NoError(t, err)
				require.NoError(t, was.Continues(is, proof))
				text, proof, err := audit.Proofs{}.Inclusion(tx, old, size)
				require.NoError(t, err)
				require.NoError(t, is.Includes(old, text, proof))
				return nil
			})
		}
	}
	require.NoError(t, l.verify())
	l.view(func(tx *store.Tx) error {
		var kept []checkpoint.Checkpoint
		for _, c := range heads {
			kept = append(kept, c)
		}
		_, err := audit.Verify(tx, nil, kept...)
		require.NoError(t, err)
		forged := heads[33]
		forged.Root[3] ^= 1
		_, err = audit.Verify(tx, nil, heads[600], forged)
		var b *audit.BrokenError
		require.ErrorAs(t, err, &b)
		require.EqualValues(t, 33, b.Seq)
		later := heads[600]
		later.Size++
		_, err = audit.Verify(tx, nil, later)
		require.ErrorAs(t, err, &b)
		require.EqualValues(t, 601, b.Seq)
		return nil
	})
}

// TestProofsAtRandom: proofs verify with any groups, and a head of each size
// continues every earlier one.
func TestProofsAtRandom(t *testing.T) {
	l, key := signing(t)
	var heads []checkpoint.Checkpoint
	rapid.Check(t, func(r *rapid.T) {
		l.fill(rapid.IntRange(1, 40).Draw(r, "entries"), rapid.IntRange(1, 40).Draw(r, "group"))
		heads = append(heads, l.signed(key))
		was, is := heads[rapid.IntRange(0, len(heads)-1).Draw(r, "old")], heads[len(heads)-1]
		l.view(func(tx *store.Tx) error {
			proof, err := audit.Proofs{}.Consistency(tx, was.Size, is.Size)
			require.NoError(r, err)
			require.NoError(r, was.Continues(is, proof))
			return nil
		})
	})
	require.NoError(t, l.verify())
}

// TestWhatStandsUnderTheHead: before a gate signs again, it checks the last signed
// head.
func TestWhatStandsUnderTheHead(t *testing.T) {
	check := func(l *log) (err error) {
		l.view(func(tx *store.Tx) error { err = audit.CheckHead(tx); return nil })
		return err
	}
	require.NoError(t, check(newLog(t)), "nothing was signed")
	for name, tamper := range map[string]string{
		"":                      ``,
		"the newest altered":    `UPDATE audit SET body = CAST(body || ' ' AS BLOB) WHERE seq = 300`,
		"the newest cut off":    `DELETE FROM audit WHERE seq > 298`,
		"a node":                `UPDATE audit_tree SET hash = zeroblob(32) WHERE level = 8`,
		"the edge":              `UPDATE audit_head SET edge = randomblob(length(edge))`,
		"the edge's length":     `UPDATE audit_head SET edge = substr(edge, 1, 32)`,
		"the number":            `UPDATE audit_head SET seq = 299`,
		"the signature's owner": `UPDATE audit_key SET public = replace(public, '+', '-')`,
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := signing(t)
			l.fill(300, 7)
			l = offline(l)
			if tamper == "" {
				require.NoError(t, check(l))
				l.append(audit.Entry{Time: when, Kind: audit.Planned})
				l.store.OnGroup(audit.Seal)
				l.append(audit.Entry{Time: when, Kind: audit.Planned})
				require.NoError(t, check(l), "what was written without the key stands on it")
				return
			}
			l.exec(tamper)
			storetest.Breaks(t, l.store.Path(), "audit-log")
			require.Error(t, check(l))
		})
	}
}

func TestProofsOfWhatIsNotThere(t *testing.T) {
	l, _ := signing(t)
	l.fill(20, 5)
	l.view(func(tx *store.Tx) error {
		for _, c := range [][2]int64{{0, 5}, {-1, 5}, {6, 5}, {5, 21}, {1, 1 << 62}} {
			_, err := audit.Proofs{}.Consistency(tx, c[0], c[1])
			require.ErrorIs(t, err, refusal.BadParams, c)
		}
		for _, c := range [][2]int64{{0, 5}, {-1, 5}, {6, 5}, {21, 21}} {
			_, _, err := audit.Proofs{}.Inclusion(tx, c[0], c[1])
			require.ErrorIs(t, err, refusal.UnknownTarget, c)
		}
		return nil
	})
}

// TestTheTreeIsPartOfTheLog: Verify finds a change of any part of the tree.
func TestTheTreeIsPartOfTheLog(t *testing.T) {
	other, err := checkpoint.NewKey(gateID)
	require.NoError(t, err)
	for name, tamper := range map[string]string{
		"a node altered":         `UPDATE audit_tree SET hash = zeroblob(32) WHERE level = 4 AND n = 1`,
		"a higher node altered":  `UPDATE audit_tree SET hash = zeroblob(32) WHERE level = 8`,
		"a node that is no hash": `UPDATE audit_tree SET hash = x'00' WHERE level = 4 AND n = 1`,
		"a node removed":         `DELETE FROM audit_tree WHERE level = 4 AND n = 2`,
		"the last node removed":  `DELETE FROM audit_tree WHERE level = 4 AND n = 17`,
		"a node added":           `INSERT INTO audit_tree SELECT 4, 99, hash FROM audit_tree WHERE level = 4 AND n = 1`,
		"a level added":          `INSERT INTO audit_tree SELECT 5, n, hash FROM audit_tree WHERE level = 4 AND n = 1`,
		"the edge altered":       `UPDATE audit_head SET edge = zeroblob(length(edge))`,
		"the edge removed":       `UPDATE audit_head SET edge = x''`,
		"the edge cut":           `UPDATE audit_head SET edge = substr(edge, 1, 32)`,
		"the signature altered":  `UPDATE audit_head SET note = replace(note, char(10) || char(10), char(10) || 'x' || char(10) || char(10))`,
		"the key exchanged":      `UPDATE audit_key SET public = '` + other.Public + `'`,
		"the key removed":        `DELETE FROM audit_key`,
		"no note at all":         `UPDATE audit_head SET note = 'signed'`,
	} {
		t.Run(name, func(t *testing.T) {
			l, _ := signing(t)
			l.fill(300, 7)
			require.NoError(t, l.verify())
			l = offline(l)
			storetest.Breaks(t, l.store.Path(), "audit-log")
			l.exec(tamper)
			require.Error(t, l.verify())
		})
	}
}

// TestARewrittenLogIsFoundByItsHead: an attacker who can write the database, and
// does not have the gate's key, can make all consistent except the signed head.
func TestARewrittenLogIsFoundByItsHead(t *testing.T) {
	l, key := signing(t)
	l.fill(40, 4)
	kept := l.signed(key)
	forged, _ := signing(t)
	forged.fill(39, 4)
	forged.append(audit.Entry{Time: when, Kind: audit.Planned, Detail: "another"})
	require.NoError(t, forged.verify(), "by itself it is a whole log")
	forged.view(func(tx *store.Tx) error {
		_, err := audit.Verify(tx, nil, kept)
		var b *audit.BrokenError
		require.ErrorAs(t, err, &b)
		require.EqualValues(t, 40, b.Seq)
		return nil
	})
	var last audit.NotedHead
	l.view(func(tx *store.Tx) (err error) { last, err = audit.SignedHead(tx); return err })
	forged = offline(forged)
	forged.update(func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE audit_head SET note = ?`, last.Note)
		if err == nil {
			_, err = tx.Exec(`UPDATE audit_key SET public = ?`, key.Public)
		}
		return err
	})
	forged.broken(40)
}

// TestLogsFromBeforeTheTree: the first group after the upgrade makes the tree, over
// all earlier entries.
func TestLogsFromBeforeTheTree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	//fsck:none it is checked when the next one has it
	old, err := store.Open(t.Context(), path, store.Options{Migrations: schema[:1]})
	require.NoError(t, err)
	old.OnGroup(func(tx *store.Tx) error {
		_, err := tx.Exec(`INSERT OR REPLACE INTO audit_head(id, seq, hash) SELECT 1, seq, hash FROM audit ORDER BY seq DESC LIMIT 1`)
		return err
	})
	(&log{t, old}).fill(300, 50)
	require.NoError(t, old.Close())

	s := storetest.Open(t, path, store.Options{Migrations: schema}, whole)
	l := &log{t, s}
	require.NoError(t, l.verify(), "before anything was written")
	key, err := checkpoint.NewKey(gateID)
	require.NoError(t, err)
	s.OnGroup(audit.Sealer{Gate: gateID, Key: key.Signer}.Seal)
	l.update(func(tx *store.Tx) error {
		if err := audit.SetPublicKey(tx, gateID, key.Public); err != nil {
			return err
		}
		_, err := audit.Append(tx, audit.Entry{Time: when, Kind: audit.Keyed})
		return err
	})
	require.NoError(t, l.verify())
	require.EqualValues(t, 301, l.signed(key).Size)
	l.view(func(tx *store.Tx) error {
		text, proof, err := audit.Proofs{}.Inclusion(tx, 17, 301)
		require.NoError(t, err)
		require.NoError(t, l.signed(key).Includes(17, text, proof))
		return nil
	})
}

// TestAWriterWithoutTheKey: the last signed head stays, and the next signed one
// covers what was written in between.
func TestAWriterWithoutTheKey(t *testing.T) {
	l, key := signing(t)
	l.fill(20, 4)
	l = online(l) // with the zero Sealer
	l.fill(5, 1)
	require.EqualValues(t, 20, l.signed(key).Size)
	require.NoError(t, l.verify())
	l = offline(l)
	l.store.OnGroup(audit.Sealer{Gate: gateID, Key: key.Signer}.Seal)
	l.fill(1, 1)
	require.EqualValues(t, 26, l.signed(key).Size)
	require.NoError(t, l.verify())
}

// TestNothingSignsForABrokenLog: if entries are visibly missing, the gate continues
// to log and no longer signs.
func TestNothingSignsForABrokenLog(t *testing.T) {
	l, key := signing(t)
	l.fill(20, 4)
	l = offline(l)
	storetest.Breaks(t, l.store.Path(), "audit-log")
	l.exec(`UPDATE audit_head SET edge = substr(edge, 1, 32)`)
	l.store.OnGroup(audit.Sealer{Gate: gateID, Key: key.Signer}.Seal)
	l.fill(5, 1)
	require.EqualValues(t, 20, l.signed(key).Size)
	require.Error(t, l.verify())
	require.EqualValues(t, 25, l.head().Seq, "what happens is logged all the same")
}

// TestAGroupThatCannotBeSealedIsNotKept: the stored tree already has the node that the group would complete.
func TestAGroupThatCannotBeSealedIsNotKept(t *testing.T) {
	l := offline(filled(t, 15))
	storetest.Breaks(t, l.store.Path(), "audit-log")
	l.exec(`INSERT INTO audit_tree VALUES(4, 0, zeroblob(32))`)
	l.store.OnGroup(audit.Seal)
	err := l.store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := audit.Append(tx, audit.Entry{Time: when, Kind: audit.Planned})
		return err
	})
	require.ErrorContains(t, err, "grow the tree of the audit log")
	l.view(func(tx *store.Tx) error {
		require.Len(t, must.Get(audit.Bodies(tx, 0, 20))(t), 15)
		return nil
	})
}

// TestABoundOfAWholeLog: while the log has its first entry, no row of the table says that entries are in a segment alone.
func TestABoundOfAWholeLog(t *testing.T) {
	segments := store.Migration{Version: 3, Name: "segments", SQL: audit.SchemaSegments}
	s := storetest.Open(t, filepath.Join(t.TempDir(), "audit.db"), store.Options{Migrations: append(slices.Clone(schema), segments)}, whole)
	s.OnGroup(audit.Seal)
	l := &log{t, s}
	l.fill(5, 1)
	l.exec(`INSERT INTO audit_bound VALUES(1, 3, zeroblob(32))`)
	l.view(func(tx *store.Tx) error {
		require.Zero(t, must.Get(audit.Bound(tx))(t))
		return nil
	})
	require.NoError(t, l.verify())
}

func TestProgressIsCalled(t *testing.T) {
	l := filled(t, 20)
	var told []int64
	l.view(func(tx *store.Tx) error {
		head, err := audit.Checker{Progress: func(done int64) error { told = append(told, done); return nil }}.Verify(tx)
		require.EqualValues(t, 20, head.Seq)
		return err
	})
	require.NotEmpty(t, told)
	require.EqualValues(t, 20, told[len(told)-1])
}
