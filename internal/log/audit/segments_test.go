package audit_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// errUndo drops what a test changed.
var errUndo = errors.New("undo")

// archived is a log of 600 entries whose first two tiles are in one segment alone. Its first entry is of a kind that is kept.
func archived(t *testing.T, fails func() error) (l *log, s audit.Segment, texts [][]byte) {
	migrations := append(slices.Clone(schema), store.Migration{Version: 3, Name: "segments", SQL: audit.SchemaSegments + audit.SchemaCounted})
	l = &log{t, storetest.Open(t, filepath.Join(t.TempDir(), "audit.db"), store.Options{Migrations: migrations, Fails: fails}, whole)}
	l.sign()
	l.append(audit.Entry{Time: when, Kind: audit.Started})
	l.fill(599, 100)
	l.view(func(tx *store.Tx) error {
		texts = must.Get(audit.Bodies(tx, 0, 2*audit.TileWidth))(t)
		last := must.Get(audit.After(tx, 2*audit.TileWidth, 1))(t)[0]
		s = audit.Segment{Number: 1, First: 1, Last: 2 * audit.TileWidth, Hash: last.Prev, At: when, Kept: 1}
		return nil
	})
	l.update(func(tx *store.Tx) error {
		if err := audit.AddSegment(tx, s); err != nil {
			return err
		}
		for range 2 {
			if err := audit.RemoveTile(tx, s, texts); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, l.verify())
	return l, s, texts
}

// undone does something that the log does not keep.
func (l *log) undone(fn func(*store.Tx) error) {
	l.t.Helper()
	require.ErrorIs(l.t, l.store.Update(l.t.Context(), func(tx *store.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		return errUndo
	}), errUndo)
}

func TestTheNewestOfAKind(t *testing.T) {
	l, _, _ := archived(t, nil)
	for _, c := range []struct {
		kind audit.Kind
		seq  int64
	}{{audit.Planned, 600}, {audit.Started, 1}, {audit.Rotated, 0}} {
		l.view(func(tx *store.Tx) error {
			require.Equal(t, c.seq, must.Get(audit.Newest(tx, c.kind))(t).Seq, c.kind)
			return nil
		})
	}
}

// TestSegmentsThatDoNotFollow: a segment is recorded only if it is the next one, of whole tiles, below the signed head, and ends as
// the log does there.
func TestSegmentsThatDoNotFollow(t *testing.T) {
	l, first, _ := archived(t, nil)
	l.fill(512, 100)
	hash := func(tx *store.Tx, seq int64) string { return must.Get(audit.After(tx, seq, 1))(t)[0].Prev }
	for name, change := range map[string]func(tx *store.Tx, s *audit.Segment){
		"another number":                func(_ *store.Tx, s *audit.Segment) { s.Number = 3 },
		"a gap":                         func(_ *store.Tx, s *audit.Segment) { s.First++ },
		"an overlap":                    func(_ *store.Tx, s *audit.Segment) { s.First-- },
		"no entry":                      func(_ *store.Tx, s *audit.Segment) { s.Last = first.Last; s.Hash = first.Hash },
		"half a tile":                   func(tx *store.Tx, s *audit.Segment) { s.Last -= 128; s.Hash = hash(tx, s.Last) },
		"one entry more than its tiles": func(tx *store.Tx, s *audit.Segment) { s.Last++; s.Hash = hash(tx, s.Last) },
		"another end":                   func(tx *store.Tx, s *audit.Segment) { s.Hash = hash(tx, s.Last-1) },
		"an end that is no entry":       func(_ *store.Tx, s *audit.Segment) { s.Last = 8192 },
		"more than the signed head has": func(tx *store.Tx, s *audit.Segment) {
			for i := range 300 {
				_ = must.Get(audit.Append(tx, audit.Entry{Time: when, Kind: audit.Planned, Detail: fmt.Sprint(i)}))(t)
			}
			s.Last += audit.TileWidth
			s.Hash = hash(tx, s.Last)
		},
	} {
		l.undone(func(tx *store.Tx) error {
			s := audit.Segment{Number: 2, First: 513, Last: 1024, At: when, Hash: hash(tx, 1024)}
			change(tx, &s)
			require.Error(t, audit.AddSegment(tx, s), name)
			return nil
		})
	}
	l.undone(func(tx *store.Tx) error {
		require.NoError(t, audit.AddSegment(tx, audit.Segment{Number: 2, First: 513, Last: 1024, At: when, Hash: hash(tx, 1024)}))
		return nil
	})
}

// TestATileThatIsInNoSegment: only the tiles of the segment go, and none after its last.
func TestATileThatIsInNoSegment(t *testing.T) {
	l, s, texts := archived(t, nil)
	l.fill(512, 100)
	l.undone(func(tx *store.Tx) error {
		require.ErrorContains(t, audit.RemoveTile(tx, s, texts), "the tile from entry 513 on is not in segment 1 of entries 1 to 512")
		return nil
	})
}

// TestWhatIsLeftOfArchivedTiles: what the database has of archived tiles is checked without their file.
func TestWhatIsLeftOfArchivedTiles(t *testing.T) {
	l, _, _ := archived(t, nil)
	for _, c := range []struct {
		sql  string
		seq  int64
		says string
	}{
		{`UPDATE audit_leaves SET hashes = substr(hashes, 33) WHERE tile = 1`, 257, "its tile of leaf hashes is none of an archived tile"},
		{`INSERT INTO audit_leaves SELECT 2, hashes FROM audit_leaves WHERE tile = 1`, 513, "its tile of leaf hashes is none of an archived tile"},
		{`UPDATE audit_leaves SET hashes = zeroblob(8192) WHERE tile = 1`, 257, "the stored tree differs from the leaf hashes of its tile"},
		{`DELETE FROM audit_leaves; UPDATE audit_tree SET hash = substr(hash, 2) WHERE level = 8 AND n = 1`, 257, "the stored tree lacks the hash of its tile"},
		{`DELETE FROM audit_leaves; UPDATE audit_tree SET n = 7 WHERE level = 8 AND n = 1`, 257, "the stored tree lacks the hash of its tile"},
		{`DELETE FROM audit_leaves; DELETE FROM audit_tree WHERE level = 8 AND n = 1`, 257, "the stored tree lacks the hash of its tile"},
		{`UPDATE audit_kept SET path = zeroblob(256)`, 1, "is kept as another one than its tile has"},
	} {
		l.undone(func(tx *store.Tx) error {
			for sql := range strings.SplitSeq(c.sql, ";") {
				if _, err := tx.Exec(sql); err != nil {
					return err
				}
			}
			_, err := audit.Verify(tx, nil)
			var broken *audit.BrokenError
			require.ErrorAs(t, err, &broken, c.sql)
			require.Equal(t, c.seq, broken.Seq, c.sql)
			require.ErrorContains(t, err, c.says, c.sql)
			return nil
		})
	}
}

// TestEveryReadOfTheLogThatFails: a question does not answer with a part, and no log counts as whole. If a statement of it fails, so
// does the question.
func TestEveryReadOfTheLogThatFails(t *testing.T) {
	var fault storetest.Fault
	l, _, _ := archived(t, fault.Next)
	read := func(_ any, err error) error { return err }
	fault.EachReadFails(t, l.store, map[string]func(*store.Tx) error{
		"after":        func(tx *store.Tx) error { return read(audit.After(tx, 520, 10)) },
		"bodies":       func(tx *store.Tx) error { return read(audit.Bodies(tx, 520, 10)) },
		"newest":       func(tx *store.Tx) error { return read(audit.Newest(tx, audit.Started)) },
		"kept":         func(tx *store.Tx) error { return read(audit.KeptEntries(tx)) },
		"bound":        func(tx *store.Tx) error { return read(audit.Bound(tx)) },
		"segments":     func(tx *store.Tx) error { return read(audit.Segments(tx)) },
		"last segment": func(tx *store.Tx) error { return read(audit.LastSegment(tx)) },
		"segment":      func(tx *store.Tx) error { return read(audit.ReadSegment(tx, 1)) },
		"segment with": func(tx *store.Tx) error { return read(audit.SegmentWith(tx, 7)) },
		"root":         func(tx *store.Tx) error { return read(audit.RootOf(tx, 600)) },
		"edge":         func(tx *store.Tx) error { return read(audit.EdgeAt(tx, 512)) },
		"signed head":  func(tx *store.Tx) error { return read(audit.SignedHead(tx)) },
		"check head":   audit.CheckHead,
		"verify":       func(tx *store.Tx) error { return read(audit.Verify(tx, func(audit.Entry) error { return nil })) },
		"verify end":   func(tx *store.Tx) error { return read(audit.VerifyEnd(tx, 50, func(audit.Entry) {})) },
	})
}

// TestADamagedTree: a page of the tree that was overwritten is a log that was changed, and no disk that cannot be read.
func TestADamagedTree(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.db")
	open := func() *store.Store {
		//fsck:none a page of it is overwritten
		return must.Get(store.Open(t.Context(), path, store.Options{Migrations: schema}))(t)
	}
	s := open()
	l := &log{t, s}
	l.sign()
	l.fill(40, 10)
	var root, size int64
	l.view(func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'audit_tree'`).Scan(&root, &size)
	})
	require.NoError(t, s.Close())
	f := must.Get(os.OpenFile(path, os.O_RDWR, 0))(t)
	must.Get(f.WriteAt(bytes.Repeat([]byte{0xff}, int(size)), (root-1)*size))(t)
	require.NoError(t, f.Close())
	s = open()
	defer s.Close()
	var broken *audit.BrokenError
	require.ErrorAs(t, s.View(t.Context(), audit.CheckHead), &broken)
}
