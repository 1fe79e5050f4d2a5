package canary_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/canary"
)

// world is a log in a store and a canary that watches it.
type world struct {
	t       *testing.T
	path    string
	store   *store.Store
	canary  *canary.Canary
	now     time.Time
	trusted bool
	n       int
	fail    error // of the next Append
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, path: filepath.Join(t.TempDir(), "gated.db"), now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), trusted: true}
	w.open()
	return w
}

// open starts a new canary, which has only the database of the one before.
func (w *world) open() {
	if w.store != nil {
		require.NoError(w.t, w.store.Close())
	}
	var err error
	//fsck:none entries by hand, for what they say alone
	w.store, err = store.Open(w.t.Context(), w.path, store.Options{Migrations: []store.Migration{
		{Version: 1, Name: "audit", SQL: audit.Schema}, {Version: 2, Name: "tree", SQL: audit.SchemaTree}, {Version: 3, Name: "canary", SQL: canary.Schema}}})
	require.NoError(w.t, err)
	s := w.store
	w.t.Cleanup(func() { _ = s.Close() })
	s.OnGroup(audit.Seal)
	w.canary = canary.New(canary.Config{Store: s, Rules: canary.Rules{Decisions: 100, Days: 7, Minimum: 10, Floor: 20},
		Now:  func() (time.Time, bool) { return w.now, w.trusted },
		Back: func(was, is canary.Identity) string { return "back to " + was.Policy },
		Append: func(tx *store.Tx, entries ...audit.Entry) error {
			if w.fail != nil {
				return w.fail
			}
			return w.append(tx, entries...)
		}})
}

func (w *world) append(tx *store.Tx, entries ...audit.Entry) error {
	for i := range entries {
		entries[i].Time = w.now
	}
	_, err := audit.Append(tx, entries...)
	return err
}

func (w *world) write(entries ...audit.Entry) {
	w.t.Helper()
	require.NoError(w.t, w.store.Update(w.t.Context(), func(tx *store.Tx) error { return w.append(tx, entries...) }))
}

func (w *world) policy(p string) {
	w.write(audit.Entry{Kind: audit.Trusted, Policy: p, Parts: audit.Parts{SignersFile: audit.SignersFile{SHA256: "s"}}})
}

func (w *world) decide(kind audit.Kind, n int) {
	w.t.Helper()
	var out []audit.Entry
	for range n {
		w.n++
		out = append(out, audit.Entry{Kind: kind, By: "uid:1", Op: "guest.start", Target: fmt.Sprintf("guest/%d", w.n), Code: refusal.NotAllowed})
	}
	w.write(out...)
}

func (w *world) step() *canary.State {
	w.t.Helper()
	require.NoError(w.t, w.canary.Step(w.t.Context()))
	return w.canary.Shown()
}

// verdicts returns the log's entries of canaries.
func (w *world) verdicts() (out []string) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.t.Context(), func(tx *store.Tx) error {
		_, err := audit.Verify(tx, func(e audit.Entry) error {
			if e.Kind == audit.Canary {
				out = append(out, e.Verdict)
			}
			return nil
		})
		return err
	}))
	return out
}

// TestItGoesOnAfterAStart counts each decision once, however often it is started
// again, also in logs longer than one round.
func TestItGoesOnAfterAStart(t *testing.T) {
	w := newWorld(t)
	require.Nil(t, w.canary.Shown())
	w.policy("good")
	w.decide(audit.Planned, 1234)
	require.Len(t, w.step().Recent, 100)
	require.EqualValues(t, 1235, w.canary.Shown().Cursor)
	w.policy("bad")
	for range 3 {
		w.decide(audit.Refused, 3)
		w.step()
		require.Len(t, w.step().Recent, canary.Answers(w.canary.Shown().Recent))
		w.open()
	}
	require.Len(t, w.step().Recent, 9)
	require.Empty(t, w.verdicts())
	w.decide(audit.Refused, 1)
	w.open()
	require.Equal(t, canary.Alert, w.step().Watch.Verdict)
	require.Equal(t, "back to good", w.canary.Shown().Watch.Back)
	w.open()
	w.step()
	w.step()
	require.Equal(t, []string{"alert"}, w.verdicts())
}

// TestAVerdictAndItsEntryAreOne: if the entry cannot be written, nothing is counted,
// and the next round counts it.
func TestAVerdictAndItsEntryAreOne(t *testing.T) {
	w := newWorld(t)
	w.policy("good")
	w.decide(audit.Planned, 100)
	w.policy("bad")
	w.step()
	cursor := w.canary.Shown().Cursor
	w.decide(audit.Refused, 10)
	w.fail = errors.New("the disk is full")
	require.ErrorIs(t, w.canary.Step(t.Context()), w.fail)
	require.Equal(t, cursor, w.canary.Shown().Cursor)
	require.Empty(t, w.verdicts())
	w.fail = nil
	w.open()
	require.Equal(t, canary.Alert, w.step().Watch.Verdict)
	require.Equal(t, []string{"alert"}, w.verdicts())
}

func TestTimeAlone(t *testing.T) {
	w := newWorld(t)
	w.policy("good")
	w.decide(audit.Planned, 100)
	w.policy("other")
	w.decide(audit.Planned, 9)
	w.step()
	w.trusted = false
	w.step()
	w.now = w.now.Add(8 * 24 * time.Hour)
	w.step()
	require.False(t, w.canary.Shown().Paused.IsZero())
	w.open() // the new canary still waits
	w.now = w.now.Add(24 * time.Hour)
	w.trusted = true
	require.Empty(t, w.step().Watch.Verdict)
	w.now = w.canary.Shown().Watch.Until.Add(time.Second)
	require.Equal(t, canary.Expired, w.step().Watch.Verdict)
	require.Equal(t, []string{"expired"}, w.verdicts())
}

// TestItWritesOnlyWhenThereIsSomething: without requests, the canary does not write
// every few seconds.
func TestItWritesOnlyWhenThereIsSomething(t *testing.T) {
	w := newWorld(t)
	writes := 0
	w.store.OnGroup(func(*store.Tx) error { writes++; return nil })
	w.step()
	require.Zero(t, writes)
	w.policy("good")
	w.decide(audit.Planned, 5)
	writes = 0
	for range 5 {
		w.now = w.now.Add(time.Hour)
		w.step()
	}
	require.Equal(t, 1, writes)
}

func TestAccept(t *testing.T) {
	w := newWorld(t)
	require.ErrorIs(t, w.canary.Accept(t.Context(), "uid:0", 102), refusal.UnknownTarget)
	w.policy("good")
	w.decide(audit.Planned, 100)
	w.policy("strict")
	w.decide(audit.Refused, 10)
	w.step()
	require.True(t, w.canary.Shown().Watch.Open())
	require.NoError(t, w.canary.Accept(t.Context(), "uid:0", 102))
	require.False(t, w.canary.Shown().Watch.Open())
	require.ErrorIs(t, w.canary.Accept(t.Context(), "uid:0", 102), refusal.UnknownTarget)
	require.Equal(t, []string{"alert", ""}, w.verdicts())
	w.open()
	require.Contains(t, w.step().Watch.End, "uid:0")
}

// TestOneRowOfBoundedSize: the row has a bounded size, whatever was decided.
func TestOneRowOfBoundedSize(t *testing.T) {
	w := newWorld(t)
	w.policy("good")
	for i := range 30 {
		var out []audit.Entry
		for j := range 100 {
			out = append(out, audit.Entry{Kind: audit.Requested, By: fmt.Sprintf("agent:%0100d#1", i*100+j), Step: fmt.Sprintf("j%d.1", i*100+j)},
				audit.Entry{Kind: audit.Refused, By: fmt.Sprintf("agent:%0100d#1", i*100+j), Code: refusal.Conflict})
		}
		w.write(out...)
	}
	s := w.step()
	require.Len(t, s.Steps, 1024)
	require.Contains(t, s.Steps, "j2999.1", "the newest")
	require.Len(t, s.Seen, 512)
	require.Len(t, s.Recent, 100)
	var rows, size int
	require.NoError(t, w.store.View(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT count(*), sum(length(state)) FROM canary`).Scan(&rows, &size)
	}))
	require.Equal(t, 1, rows)
	require.Less(t, size, 300_000)
}

// TestAStateThatCannotBeRead: Step says so and does nothing else.
func TestAStateThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`INSERT INTO canary(id, state) VALUES(1, X'7b')`)
		return err
	}))
	require.ErrorContains(t, w.canary.Step(t.Context()), "read the canary")
	require.Nil(t, w.canary.Shown())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, w.canary.Step(ctx), store.ErrUnavailable)
}

// TestNothingWaitsForIt: while the canary computes, however long, others decide. It
// takes one short transaction of the store a round.
func TestNothingWaitsForIt(t *testing.T) {
	w := newWorld(t)
	done, goOn := w.thinking()
	for range 10 {
		w.decide(audit.Refused, 10)
	}
	require.Nil(t, w.canary.Shown())
	close(goOn)
	require.NoError(t, <-done)
	require.Equal(t, canary.Alert, w.step().Watch.Verdict)
	require.Equal(t, []string{"alert"}, w.verdicts())
}
