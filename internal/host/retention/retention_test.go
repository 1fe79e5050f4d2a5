package retention_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/test/must"
)

// TestRecordsEnd: what is old enough goes into a segment, all else stays, and the log goes on as one log. fsck looks at all
// of it when the test ends.
func TestRecordsEnd(t *testing.T) {
	w := newWorld(t)
	jobs := w.busy(220)
	require.Zero(t, w.archive(), "nothing is old")
	require.Empty(t, w.files())
	w.pass(25 * time.Hour)
	heads := w.heads()
	require.Positive(t, w.archive())
	require.NotEmpty(t, w.files())
	bound := w.bound()
	require.Positive(t, bound)
	require.Zero(t, bound%audit.TileWidth)
	state := w.keeper.State()
	require.Empty(t, state.Held)
	require.NotEmpty(t, state.Waits)

	for _, o := range w.guests {
		must.Get(w.gate.CanGo(t.Context(), o))(t) // also of a guest whose job is archived
	}
	archived, there := 0, 0
	for _, j := range jobs {
		got, err := w.gate.Job(t.Context(), j.ID)
		if err == nil {
			require.Equal(t, j, got)
			there++
			continue
		}
		require.ErrorIs(t, err, refusal.UnknownTarget)
		require.Contains(t, err.Error(), "archived in segment")
		archived++
	}
	require.Positive(t, archived)
	require.Positive(t, there)
	require.Less(t, w.count("audit"), int64(3*256))
	next := w.do("guest.start", "busy")
	require.Greater(t, next.ID, jobs[len(jobs)-1].ID, "a number is never given again")
	w.proofs(heads)
}

// head is a signed head as an operator keeps it.
func (w *world) head() (c checkpoint.Checkpoint) {
	w.view(func(tx *store.Tx) error {
		s, err := audit.SignedHead(tx)
		c = s.Checkpoint
		return err
	})
	return c
}

// heads are heads of many sizes of the log as it is, which a proof from the start makes.
func (w *world) heads() (out map[int64]checkpoint.Checkpoint) {
	out = map[int64]checkpoint.Checkpoint{}
	now := w.head()
	w.view(func(tx *store.Tx) error {
		for size := int64(1); size < now.Size; size += 37 {
			out[size] = checkpoint.Checkpoint{Gate: now.Gate, Size: size, Root: must.Get(audit.RootOf(tx, size))(w.t)}
		}
		return nil
	})
	out[now.Size] = now
	return out
}

// proofs checks proofs from each head to the present one, and of entries, without and with the segments.
func (w *world) proofs(heads map[int64]checkpoint.Checkpoint) {
	w.t.Helper()
	now := w.head()
	bound := w.bound()
	w.view(func(tx *store.Tx) error {
		for size, head := range heads {
			proof := must.Get(audit.Proofs{}.Consistency(tx, size, now.Size))(w.t)
			require.NoError(w.t, head.Continues(now, proof), "of leaf hashes that the database keeps")
			if size <= bound {
				_, _, err := audit.Proofs{}.Inclusion(tx, size, now.Size)
				require.ErrorIs(w.t, err, refusal.Unavailable)
				require.ErrorContains(w.t, err, "segment-0000000")
			}
			text, proof, err := audit.Proofs{Older: w.older()}.Inclusion(tx, size, now.Size)
			require.NoError(w.t, err)
			require.NoError(w.t, now.Includes(size, text, proof))
		}
		var kept []checkpoint.Checkpoint
		for _, c := range heads {
			kept = append(kept, c)
		}
		for _, older := range []audit.Older{nil, w.older()} {
			got, err := audit.Checker{Older: older, Kept: kept}.Verify(tx)
			require.NoError(w.t, err)
			require.Equal(w.t, now.Size, got.Seq)
		}
		return audit.CheckHead(tx)
	})
}

// TestTheTreeWithoutLeafHashes: if the leaf hashes of a tile are no longer kept, the segment makes the proof, and without it
// the refusal names the file.
func TestTheTreeWithoutLeafHashes(t *testing.T) {
	w := newWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	heads := w.heads()
	w.archive()
	w.update(func(tx *store.Tx) error { _, err := tx.Exec(`DELETE FROM audit_leaves`); return err })
	now := w.head()
	w.view(func(tx *store.Tx) error {
		for size, head := range heads {
			proof := must.Get(audit.Proofs{Older: w.older()}.Consistency(tx, size, now.Size))(t)
			require.NoError(t, head.Continues(now, proof))
			if size < w.bound() && size%audit.TileWidth != 0 {
				_, err := audit.Proofs{}.Consistency(tx, size, now.Size)
				require.ErrorContains(t, err, "segment-0000000")
				_, err = audit.Checker{Kept: []checkpoint.Checkpoint{head}}.Verify(tx)
				require.ErrorContains(t, err, "segment-0000000")
			}
		}
		return nil
	})
}

// TestWhatIsNeededStays: requests that wait, nonces, keys of submissions, rejections and what provenance reads.
func TestWhatIsNeededStays(t *testing.T) {
	w := newWorld(t)
	w.do("guest.create", "open")
	w.do("guest.create", "gone")
	w.do("guest.create", "no")
	waits := w.submit(ask("guest.destroy", "open"))
	signed := w.submit(ask("guest.destroy", "gone"))
	w.approve(signed.Steps[0].ID)
	rejected := w.submit(ask("guest.destroy", "no"))
	w.reject(rejected.Steps[0].ID)
	keyed := must.Get(w.gate.Submit(t.Context(), op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.start", "no")}, Reason: "keyed", IdempotencyKey: "a-key"}))(t)
	w.run()
	w.busy(220)
	w.pass(26 * time.Hour)
	w.archive()
	require.Positive(t, w.bound())
	state := w.keeper.State()
	require.Positive(t, state.Left)
	require.NotEmpty(t, state.Why)
	for _, id := range []op.JobID{waits.ID, rejected.ID, keyed.ID} {
		must.Get(w.gate.Job(t.Context(), id))(t)
	}
	_, err := w.gate.Job(t.Context(), signed.ID)
	require.ErrorIs(t, err, refusal.UnknownTarget, "its nonce expired and is forgotten")
	again := must.Get(w.gate.Submit(t.Context(), op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.start", "no")}, Reason: "keyed", IdempotencyKey: "a-key"}))(t)
	require.Equal(t, keyed.ID, again.ID)
	require.Zero(t, w.outputsOf(signed.ID))
}

func (w *world) outputsOf(id op.JobID) (n int) {
	w.view(func(tx *store.Tx) error {
		return tx.QueryRow(`SELECT count(*) FROM outputs WHERE job = ?`, int64(id)).Scan(&n)
	})
	return n
}
