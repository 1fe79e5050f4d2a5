package gate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

// limited is a world whose gate has quotas.
func limited(t *testing.T, q gate.Quotas, room gate.Room) *world {
	t.Helper()
	w := newWorld(t)
	w.quotas, w.room = q, room
	w.restart()
	return w
}

// spent is how many bytes the gate counted for a requester within the last hour.
func (w *world) spent(who string) (n int64) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) (err error) {
		n, err = journal.Spent(tx, who, w.clock.Now().Now.Add(-time.Hour))
		return err
	}))
	return n
}

// size is how many bytes the database has on disk.
func (w *world) size() (n int64) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT page_count * page_size FROM pragma_page_count, pragma_page_size`).Scan(&n)
	}))
	return n
}

// heavy is a submission of a guest with labels of so many bytes.
func heavy(by op.Requester, i, bytes int) op.Submission {
	labels := map[string]any{}
	for n := 0; n < bytes; n += 256 {
		labels[fmt.Sprintf("l%d", n)] = strings.Repeat("x", 250)
	}
	return op.Submission{Requester: by, Reason: "test", Steps: []op.Ask{ask("guest.create", fmt.Sprintf("n%d", i), "labels", labels)}}
}

func TestJournalQuotaBelowAtAndAbove(t *testing.T) {
	w := limited(t, gate.Quotas{JournalBytes: 1 << 40}, nil)
	must.Get(w.gate.Submit(w.ctx, heavy(hub, 0, 16<<10)))(t)
	one := w.spent("uid:1000")
	require.Greater(t, one, int64(32<<10), "the labels are in the journal and in the audit log")

	w.quotas.JournalBytes = 3 * one
	w.restart()
	_, err := w.gate.Submit(w.ctx, heavy(hub, 1, 16<<10))
	require.NoError(t, err, "below")
	_, err = w.gate.Submit(w.ctx, heavy(hub, 2, 16<<10))
	require.NoError(t, err, "at")
	require.Equal(t, 3*one, w.spent("uid:1000"))
	_, err = w.gate.Submit(w.ctx, heavy(hub, 3, 16<<10))
	require.ErrorIs(t, err, refusal.OverLimit, "above")
	require.NotEmpty(t, refusal.As(err).Hint)
	w.restart()
	must.Fail(w.gate.Submit(w.ctx, heavy(hub, 3, 0)))(t, refusal.OverLimit, "a restart gives no new quota")

	for _, agent := range []string{"a#1", "b#2"} {
		by := hub
		by.Agent = agent
		must.Fail(w.gate.Submit(w.ctx, heavy(by, 3, 0)))(t, refusal.OverLimit, "an agent has a part of its uid's quota")
	}
	other := op.Requester{Source: op.SourceAPI, UID: 1001}
	must.Get(w.gate.Submit(w.ctx, heavy(other, 4, 16<<10)))(t, "another uid has its own")
	must.Get(w.gate.Want(w.ctx, "fleet", ask("guest.create", "wished")))(t, "a desired set has its own")
	require.NotZero(t, w.spent("desired:fleet"))

	w.Pass(time.Hour + journal.SpentSlot)
	must.Get(w.gate.Submit(w.ctx, heavy(hub, 5, 16<<10)))(t, "an hour later")
}

func TestNoLookForACallerWithoutQuota(t *testing.T) {
	w := limited(t, gate.Quotas{JournalBytes: 1}, nil)
	require.NoError(t, w.store.Update(w.ctx, func(tx *store.Tx) error { return journal.Spend(tx, "uid:1000", w.clock.Now().Now, 1) }))
	w.observer = nil // a look would panic
	w.restart()
	must.Fail(w.submit(ask("guest.create", "web")))(t, refusal.OverLimit)
}

// The counted bytes are at least the bytes that the disk loses.
func TestTheQuotaCountsWhatIsWritten(t *testing.T) {
	for name, c := range map[string]struct{ jobs, bytes int }{"small jobs": {400, 10}, "labels of 16 KiB": {150, 16 << 10}} {
		t.Run(name, func(t *testing.T) {
			w := limited(t, gate.Quotas{JournalBytes: 1 << 40}, nil)
			before := w.size()
			for i := range c.jobs {
				must.Get(w.gate.Submit(w.ctx, heavy(hub, i, c.bytes)))(t)
			}
			w.run()
			w.run()
			grown, counted := w.size()-before, w.spent("uid:1000")
			t.Logf("%d jobs: %d bytes a job on disk, %d counted", c.jobs, grown/int64(c.jobs), counted/int64(c.jobs))
			require.LessOrEqual(t, grown, counted)
			require.Greater(t, 4*grown, counted, "the count is no more than four times of it")
		})
	}
}

func TestRequestsAreCountedWithWhatTheyShow(t *testing.T) {
	w := limited(t, gate.Quotas{JournalBytes: 1 << 40}, nil)
	guests := []string{"web", "db"} // one guest has no room for as many
	for _, g := range guests {
		w.back.put(g)
	}
	before := w.size()
	for i := range 120 {
		must.Get(w.submit(ask("guest.snapshot-delete", guests[i%2], "snapshot", fmt.Sprint("s", i))))(t)
	}
	require.LessOrEqual(t, w.size()-before, w.spent("uid:1000"))
}

// A signed step goes on, whatever the gate has written for its requester.
func TestApprovalsNeedNoQuota(t *testing.T) {
	w := limited(t, gate.Quotas{JournalBytes: 1 << 20}, nil)
	w.back.put("web")
	w.back.put("db")
	r, rejected := w.request(ask("guest.destroy", "web")), w.request(ask("guest.destroy", "db"))
	for i := 0; ; i++ {
		if _, err := w.gate.Submit(w.ctx, heavy(hub, i, 16<<10)); err != nil {
			require.ErrorIs(t, err, refusal.OverLimit)
			break
		}
	}
	must.Get(w.approve(r))(t)
	must.Get(w.gate.Reject(w.ctx, hub, rejected.ID, w.rejection(rejected, alice)))(t)
	w.run()
	require.False(t, w.back.has("web"))
	require.Equal(t, op.StateRejected, w.job(rejected.ID.Job).Steps[0].State)
}

// New agent names and new idempotency keys do not let a flood of refusals write
// more.
func TestRefusalsCountForTheUID(t *testing.T) {
	w := limited(t, gate.Quotas{JournalBytes: 256 << 10}, nil)
	entries := func() (n int) {
		for _, k := range w.kinds() {
			if k == audit.Refused {
				n++
			}
		}
		return n
	}
	for i := range 200 {
		by := hub
		by.Agent = fmt.Sprintf("a#%d", i+1)
		_, err := w.gate.Submit(w.ctx, op.Submission{Requester: by, Steps: []op.Ask{ask("guest.start", "none")}})
		require.ErrorIs(t, err, refusal.UnknownTarget)
	}
	require.Equal(t, 10, entries())

	before := w.size()
	for i := range 3000 {
		must.Err(w.gate.Submit(w.ctx, op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.start", "none")},
			IdempotencyKey: fmt.Sprintf("%d%s", i, strings.Repeat("k", 200))}))(t)
	}
	require.Less(t, w.size()-before, int64(256<<10), "answers that are kept for keys are bounded, too")

	w.Pass(2 * time.Minute)
	must.Err(w.submit(ask("guest.start", "none")))(t)
	require.LessOrEqual(t, entries(), 12, "without quota they are counted alone")
}

func TestSnapshotsOfARequesterAreBounded(t *testing.T) {
	w := limited(t, gate.Quotas{Snapshots: 3}, nil)
	w.back.put("web")
	w.back.put("db")
	take := func(by op.Requester, guest, name string) error {
		_, err := w.gate.Submit(w.ctx, op.Submission{Requester: by, Steps: []op.Ask{ask("guest.snapshot", guest, "snapshot", name)}})
		return err
	}
	for i := range 2 {
		require.NoError(t, take(hub, "web", fmt.Sprint("s", i)))
		w.run()
	}
	require.NoError(t, take(hub, "web", "s2"), "at the bound")
	require.ErrorIs(t, take(hub, "web", "s3"), refusal.OverLimit, "one that waits counts")
	w.run()
	w.restart()
	require.ErrorIs(t, take(hub, "web", "s3"), refusal.OverLimit, "above")
	by := hub
	by.Agent = "a#1"
	require.ErrorIs(t, take(by, "web", "s3"), refusal.OverLimit, "an agent counts for its uid")
	require.NoError(t, take(hub, "db", "s3"), "another guest")
	require.NoError(t, take(op.Requester{Source: op.SourceAPI, UID: 1001}, "web", "s3"), "another uid")
	w.run()

	r := w.request(ask("guest.snapshot-delete", "web", "snapshot", "s1"))
	must.Get(w.approve(r))(t)
	w.run()
	require.NoError(t, take(hub, "web", "s4"), "one less, one more")
	w.run()
	require.ErrorIs(t, take(hub, "web", "s5"), refusal.OverLimit)
}

func TestSnapshotsOfOneJobAreBounded(t *testing.T) {
	w := limited(t, gate.Quotas{Snapshots: 2}, nil)
	w.back.put("web")
	three := []op.Ask{ask("guest.snapshot", "web", "snapshot", "a"), ask("guest.snapshot", "web", "snapshot", "b"),
		ask("guest.snapshot", "web", "snapshot", "c")}
	must.Fail(w.submit(three...))(t, refusal.OverLimit)
	must.Get(w.submit(three[:2]...))(t)
}

// tight is a room that tests can fill.
type tight struct {
	low   bool
	made  int
	asked int
}

func (r *tight) Admit(int64) error {
	if r.asked++; r.low {
		return refusal.New(refusal.Unavailable, "the disk is low")
	}
	return nil
}
func (r *tight) Make(full bool) bool { r.made++; return full && r.made < 10 }
func (r *tight) Committed()          {}

func TestUnsignedWorkWaitsForRoom(t *testing.T) {
	room := &tight{}
	w := limited(t, gate.Quotas{}, room)
	w.back.put("web")
	w.back.put("db")
	r, rejected := w.request(ask("guest.destroy", "web")), w.request(ask("guest.destroy", "db"))
	begun := w.mustSubmit(ask("guest.start", "db"))
	room.low = true
	must.Fail(w.submit(ask("guest.create", "more")))(t, refusal.Unavailable)
	must.Fail(w.submit(ask("guest.destroy", "db")))(t, refusal.Unavailable, "it is unsigned")
	must.Fail(w.gate.Want(w.ctx, "fleet", ask("guest.create", "wished")))(t, refusal.Unavailable)
	must.Fail(w.gate.PutSet(w.ctx, hub, "fleet", "", []byte("x")))(t, refusal.Unavailable)
	require.ErrorIs(t, w.execute(begun.Steps[0].ID), refusal.Unavailable, "a benign step waits")
	require.Equal(t, op.StatePlanned, w.job(begun.ID).Steps[0].State)

	must.Get(w.approve(r))(t)
	require.NoError(t, w.execute(r.ID))
	require.False(t, w.back.has("web"))
	must.Get(w.gate.Reject(w.ctx, hub, rejected.ID, w.rejection(rejected, alice)))(t)

	room.low = false
	require.NoError(t, w.execute(begun.Steps[0].ID))
}

func TestNothingUnsignedTakesFromTheReserve(t *testing.T) {
	room := &tight{low: true}
	w := limited(t, gate.Quotas{}, room)
	r := w.back.put("web")
	room.made = 0
	must.Fail(w.submit(ask("guest.snapshot", "web", "snapshot", "s")))(t, refusal.Unavailable)
	must.Fail(w.gate.Cancel(w.ctx, hub, 99))(t, refusal.UnknownTarget)
	must.Err(w.gate.Approve(w.ctx, hub, op.RequestID{Job: 9, Index: 1}, mallory.envelope(t, []byte("x"))))(t)
	w.gate.NoteRefused(context.Background(), hub, "GET /", refusal.New(refusal.Malformed, "x"))
	require.Zero(t, room.made)
	require.True(t, r.Present)
}

// TestARefusalWithoutQuotaHasNoEntry: it is counted alone.
func TestARefusalWithoutQuotaHasNoEntry(t *testing.T) {
	w := limited(t, gate.Quotas{JournalBytes: 1}, nil)
	require.NoError(t, w.store.Update(w.ctx, func(tx *store.Tx) error { return journal.Spend(tx, "uid:1000", w.clock.Now().Now, 1) }))
	before := w.kinds()
	for range 3 {
		must.Fail(w.submit(ask("guest.create", "web")))(t, refusal.OverLimit)
	}
	require.Equal(t, before, w.kinds())
	w.Pass(61 * time.Second)
	require.NoError(t, w.gate.Tick(w.ctx))
	require.Equal(t, 3, w.lastRefusal().Count)
}

// TestACompensationNeedsNoRoom: the gate takes back what a job made, although the disk is low.
func TestACompensationNeedsNoRoom(t *testing.T) {
	room := &tight{}
	w := limited(t, gate.Quotas{}, room)
	w.back.put("a")
	j := w.mustSubmit(ask("guest.create", "one"), ask("guest.start", "a"))
	w.back.fail = func(s op.Step) error {
		if s.Op == "guest.start" {
			room.low = true
			return errors.New("no")
		}
		return nil
	}
	w.run()
	require.True(t, room.low)
	require.Equal(t, []op.State{op.StateSucceeded, op.StateFailed, op.StateSucceeded}, w.states(j.ID))
	require.False(t, w.back.has("one"))
}
