package audit_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/log/audit"
)

var when = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("x", 3600))

// schema is the log's own, in the two versions in which it was added.
var schema = []store.Migration{{Version: 1, Name: "audit", SQL: audit.Schema}, {Version: 2, Name: "tree", SQL: audit.SchemaTree}}

// log is a log in a store of its own.
type log struct {
	t     *testing.T
	store *store.Store
}

// whole is the check after each test, because the store has nothing but the log.
func whole(tx *store.Tx, _ []store.Object) ([]storetest.Problem, error) {
	if _, err := audit.Verify(tx, nil); err != nil {
		return []storetest.Problem{{Rule: "audit-log", Says: err.Error()}}, nil
	}
	return nil, nil
}

func newLog(t *testing.T) *log {
	s := storetest.Open(t, filepath.Join(t.TempDir(), "audit.db"), store.Options{Migrations: schema}, whole)
	s.OnGroup(audit.Seal)
	return &log{t, s}
}

// filled is a log of n entries, each in its own group.
func filled(t *testing.T, n int) *log {
	l := newLog(t)
	for i := range n {
		l.append(audit.Entry{Time: when, Kind: audit.Planned, By: "uid:1000", Detail: fmt.Sprintf("entry %d", i+1)})
	}
	require.NoError(t, l.verify())
	return l
}

func (l *log) update(fn func(*store.Tx) error) {
	l.t.Helper()
	require.NoError(l.t, l.store.Update(l.t.Context(), fn))
}

func (l *log) append(entries ...audit.Entry) {
	l.t.Helper()
	l.update(func(tx *store.Tx) error {
		for _, e := range entries {
			if _, err := audit.Append(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *log) view(fn func(*store.Tx) error) {
	l.t.Helper()
	require.NoError(l.t, l.store.View(l.t.Context(), fn))
}

func (l *log) verify() (err error) {
	l.view(func(tx *store.Tx) error { _, err = audit.Verify(tx, nil); return nil })
	return err
}

func (l *log) head() (h audit.Head) {
	l.view(func(tx *store.Tx) (err error) { h, err = audit.ReadHead(tx); return err })
	return h
}

// broken asserts that Verify names the entry.
func (l *log) broken(seq int64) {
	l.t.Helper()
	storetest.Breaks(l.t, l.store.Path(), "audit-log")
	var b *audit.BrokenError
	require.ErrorAs(l.t, l.verify(), &b)
	require.Equal(l.t, seq, b.Seq, b.Error())
	require.Contains(l.t, b.Error(), fmt.Sprintf("entry %d", seq))
}

func TestEmptyLog(t *testing.T) {
	l := newLog(t)
	require.NoError(t, l.verify())
	require.Equal(t, audit.Head{}, l.head())
	l.view(func(tx *store.Tx) error {
		es, err := audit.After(tx, 0, 10)
		require.NoError(t, err)
		require.Empty(t, es)
		return nil
	})
}

func TestEntriesComeBackAsTheyWere(t *testing.T) {
	l := newLog(t)
	full := audit.Entry{Time: when, Kind: audit.Succeeded, By: "agent:x", PID: 7, Job: "j1", Step: "j1.1", Op: "guest.create",
		Target: "guest/web", Incarnation: "i1", Class: op.Benign, Rule: "create-new", Code: refusal.Conflict, Stage: refusal.StageNonce,
		Detail: "π \u2028 <&>", Payload: op.SHA256(nil), Signers: []string{"alice operational SHA256:x"}, Count: 3,
		Made: &audit.Made{Creator: "agent:x", Scratch: true, ScratchUntil: when.UTC(), Storage: []op.StorageID{"data:1"}}, Gate: "g",
		Parts: audit.Parts{SignersFile: audit.SignersFile{Epoch: 3, SHA256: "s", How: "j1.1"}, Edited: true, HeadKey: "k", Member: audit.Member{Name: "node1", Era: 7, Lease: 15}, ShownSHA256: "f",
			OutputSHA256: "o", Undoes: "j1.1", Set: audit.Set{Name: "web", SHA256: "d"},
			Ended:        audit.Ended{Registrations: 2, Reservations: 1},
			Registration: audit.Registration{ID: 7, Name: "builder", PID: 4711, Token: true, SHA256: "b"}}}
	l.append(full, audit.Entry{Time: when, Kind: audit.Started, Seq: 99, Prev: "forged"})
	l.view(func(tx *store.Tx) error {
		es, err := audit.After(tx, 0, 10)
		require.NoError(t, err)
		require.Len(t, es, 2)
		want := full
		want.Seq, want.Time = 1, when.UTC()
		require.Equal(t, want, es[0])
		require.EqualValues(t, 2, es[1].Seq, "the number and the link are the log's")
		bodies, err := audit.Bodies(tx, 0, 1)
		require.NoError(t, err)
		require.Len(t, bodies, 1)
		require.Contains(t, string(bodies[0]), `{"seq":1,"v":2,"time":`)
		require.Equal(t, op.SHA256(bodies[0]), es[1].Prev)
		es, err = audit.After(tx, 1, 10)
		require.NoError(t, err)
		require.Len(t, es, 1)
		return nil
	})
	require.NoError(t, l.verify())
}

// TestWhatIsNoTextIsWrittenAllTheSame: a back end's error may have a file name of
// any bytes. The decision about it must still be recorded.
func TestWhatIsNoTextIsWrittenAllTheSame(t *testing.T) {
	l := newLog(t)
	l.append(audit.Entry{Time: when, Kind: audit.Failed, Detail: "open data/\xff\xfe: denied"})
	require.NoError(t, l.verify())
	l.view(func(tx *store.Tx) error {
		es, err := audit.After(tx, 0, 1)
		require.NoError(t, err)
		require.Equal(t, "open data/\ufffd\ufffd: denied", es[0].Detail)
		return nil
	})
}

func TestHeadIsRecordedOncePerGroup(t *testing.T) {
	l := newLog(t)
	recorded := func() (seq int64) {
		l.view(func(tx *store.Tx) error { return tx.QueryRow(`SELECT seq FROM audit_head`).Scan(&seq) })
		return seq
	}
	l.append(audit.Entry{Time: when, Kind: audit.Started}, audit.Entry{Time: when, Kind: audit.Planned})
	require.EqualValues(t, 2, recorded())
	require.Equal(t, l.head().Seq, recorded())
	l.update(func(*store.Tx) error { return nil })
	require.EqualValues(t, 2, recorded(), "a group without an entry leaves it")
	require.Error(t, l.store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := audit.Append(tx, audit.Entry{Time: when, Kind: audit.Planned})
		require.NoError(t, err)
		return refusal.New(refusal.Conflict, "taken back")
	}))
	require.EqualValues(t, 2, recorded())
	l.append(audit.Entry{Time: when, Kind: audit.Stopped})
	require.EqualValues(t, 3, recorded(), "the number of what was taken back is used again")
	require.NoError(t, l.verify())
}

func TestVerifyShowsEveryEntry(t *testing.T) {
	l := filled(t, 5)
	l.view(func(tx *store.Tx) error {
		var seen []int64
		head, err := audit.Verify(tx, func(e audit.Entry) error { seen = append(seen, e.Seq); return nil })
		require.NoError(t, err)
		require.Equal(t, []int64{1, 2, 3, 4, 5}, seen)
		require.EqualValues(t, 5, head.Seq)
		_, err = audit.Verify(tx, func(e audit.Entry) error { return refusal.New(refusal.Conflict, "stop") })
		require.ErrorIs(t, err, refusal.Conflict, "the caller's error is returned")
		return nil
	})
	require.EqualValues(t, 5, l.head().Seq)
}

// row is one row of the table as an editor of the database sees it.
func (l *log) row(seq int64) (body, hash []byte) {
	l.view(func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT body, hash FROM audit WHERE seq = ?`, seq).Scan(&body, &hash)
	})
	return body, hash
}

// TestEverySingleBit flips each bit of one entry's text and of its hash (H07).
func TestEverySingleBit(t *testing.T) {
	l := filled(t, 3)
	body, hash := l.row(2)
	flips := 0
	err := l.store.Update(t.Context(), func(tx *store.Tx) error {
		for column, value := range map[string][]byte{"body": body, "hash": hash} {
			for bit := range len(value) * 8 {
				changed := bytes.Clone(value)
				changed[bit/8] ^= 1 << (bit % 8)
				query := `UPDATE audit SET body = ? WHERE seq = 2`
				if column == "hash" {
					query = `UPDATE audit SET hash = ? WHERE seq = 2`
				}
				if _, err := tx.Exec(query, changed); err != nil {
					return err
				}
				_, err := audit.Verify(tx, nil)
				if b, ok := err.(*audit.BrokenError); !ok || b.Seq != 2 {
					return fmt.Errorf("%s, bit %d: %w", column, bit, err)
				}
				flips++
			}
			if _, err := tx.Exec(`UPDATE audit SET body = ?, hash = ? WHERE seq = 2`, body, hash); err != nil {
				return err
			}
		}
		return errUntouched
	})
	require.ErrorIs(t, err, errUntouched)
	require.Greater(t, flips, 1000)
	require.NoError(t, l.verify())
}

var errUntouched = refusal.New(refusal.Conflict, "everything is taken back")

func TestTampering(t *testing.T) { // H07
	rewrite := func(l *log, seq int64) {
		body, _ := l.row(seq)
		body = bytes.Replace(body, []byte("entry"), []byte("ENTRY"), 1)
		sum := sha256.Sum256(body)
		l.update(func(tx *store.Tx) error {
			_, err := tx.Exec(`UPDATE audit SET body = ?, hash = ? WHERE seq = ?`, body, sum[:], seq)
			return err
		})
	}
	for name, c := range map[string]struct {
		tamper func(*log)
		seq    int64
	}{
		"first removed":  {func(l *log) { l.exec(`DELETE FROM audit WHERE seq = 1`) }, 1},
		"middle removed": {func(l *log) { l.exec(`DELETE FROM audit WHERE seq = 3`) }, 3},
		"two removed":    {func(l *log) { l.exec(`DELETE FROM audit WHERE seq IN (2, 3)`) }, 2},
		"removed and renumbered": {func(l *log) {
			l.exec(`DELETE FROM audit WHERE seq = 3`)
			l.exec(`UPDATE audit SET seq = seq - 1 WHERE seq > 3`)
		}, 3},
		"reordered": {func(l *log) {
			l.exec(`UPDATE audit SET seq = 100 WHERE seq = 2`)
			l.exec(`UPDATE audit SET seq = 2 WHERE seq = 3`)
			l.exec(`UPDATE audit SET seq = 3 WHERE seq = 100`)
		}, 2},
		"rewritten with its hash":        {func(l *log) { rewrite(l, 2) }, 3},
		"newest rewritten with its hash": {func(l *log) { rewrite(l, 5) }, 5},
		"newest cut off":                 {func(l *log) { l.exec(`DELETE FROM audit WHERE seq = 5`) }, 5},
		"three newest cut off":           {func(l *log) { l.exec(`DELETE FROM audit WHERE seq > 2`) }, 3},
		"all cut off":                    {func(l *log) { l.exec(`DELETE FROM audit`) }, 1},
		"one inserted at the front": {func(l *log) {
			l.exec(`INSERT INTO audit(seq, body, hash) SELECT 0, body, hash FROM audit WHERE seq = 1`)
		}, 0},
		"one inserted below": {func(l *log) {
			l.exec(`INSERT INTO audit(seq, body, hash) SELECT -7, body, hash FROM audit WHERE seq = 1`)
		}, -7},
		"a copy inserted behind": {func(l *log) {
			l.exec(`INSERT INTO audit(seq, body, hash) SELECT 6, body, hash FROM audit WHERE seq = 5`)
		}, 6},
		"a well-formed one behind": {func(l *log) {
			var seq int64
			var hash []byte
			l.update(func(tx *store.Tx) error { return tx.QueryRow(`SELECT seq, hash FROM audit_head`).Scan(&seq, &hash) })
			l.append(audit.Entry{Time: when, Kind: audit.Approved})
			l.update(func(tx *store.Tx) error {
				_, err := tx.Exec(`UPDATE audit_head SET seq = ?, hash = ?`, seq, hash)
				return err
			})
		}, 6},
		"no text":          {func(l *log) { l.exec(`UPDATE audit SET body = x'' WHERE seq = 4`) }, 4},
		"head removed":     {func(l *log) { l.exec(`DELETE FROM audit_head`) }, 5},
		"head moved back":  {func(l *log) { l.exec(`UPDATE audit_head SET seq = 4`) }, 5},
		"head moved ahead": {func(l *log) { l.exec(`UPDATE audit_head SET seq = 9`) }, 6},
		"head's hash":      {func(l *log) { l.exec(`UPDATE audit_head SET hash = zeroblob(32)`) }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			l := offline(filled(t, 5))
			c.tamper(l)
			l.broken(c.seq)
		})
	}
}

// TestGoingOnHidesNothing: a daemon starts on a log that was changed, and writes
// more entries. Verify still finds the change.
func TestGoingOnHidesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		tamper string
		seq    int64
	}{
		"newest cut off":      {`DELETE FROM audit WHERE seq = 5`, 5},
		"newest two cut off":  {`DELETE FROM audit WHERE seq > 3`, 4},
		"all cut off":         {`DELETE FROM audit`, 1},
		"newest hash altered": {`UPDATE audit SET hash = zeroblob(32) WHERE seq = 5`, 5},
	} {
		t.Run(name, func(t *testing.T) {
			l := offline(filled(t, 5))
			l.exec(c.tamper)
			l = online(l)
			l.append(audit.Entry{Time: when, Kind: audit.Started}, audit.Entry{Time: when, Kind: audit.Planned})
			l.append(audit.Entry{Time: when, Kind: audit.Planned})
			l.broken(c.seq)
		})
	}
	t.Run("newest rewritten with its hash", func(t *testing.T) {
		l := offline(filled(t, 5))
		body, _ := l.row(5)
		body = bytes.Replace(body, []byte("entry"), []byte("ENTRY"), 1)
		sum := sha256.Sum256(body)
		l.update(func(tx *store.Tx) error {
			_, err := tx.Exec(`UPDATE audit SET body = ?, hash = ? WHERE seq = 5`, body, sum[:])
			return err
		})
		l = online(l)
		l.append(audit.Entry{Time: when, Kind: audit.Started})
		l.broken(6)
	})
}

// offline opens the log as another program does, so no head is sealed.
func offline(l *log) *log {
	require.NoError(l.t, l.store.Close())
	s := storetest.Open(l.t, l.store.Path(), store.Options{Migrations: schema}, whole)
	return &log{l.t, s}
}

// online opens it as the daemon does.
func online(l *log) *log {
	l = offline(l)
	l.store.OnGroup(audit.Seal)
	return l
}

func (l *log) exec(statement string) {
	l.t.Helper()
	l.update(func(tx *store.Tx) error { _, err := tx.Exec(statement); return err })
}
