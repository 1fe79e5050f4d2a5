package matrix_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/test/must"
)

// holds is a row in which archiving has to stop by itself, of the first segment or a later one: nothing leaves the database, the state says why, and afterwards all goes on.
func holds(id, what, says string, later bool, disk int64, wrong func(w *world) (in *archive.Dir, right func())) attack {
	return attack{id: id, what: what, want: archivingHeld, disk: disk, run: func(w *world) error {
		w.keyed()
		if later {
			w.archivesMore()
		}
		bound := w.boundOf()
		r := w.requestBy(other, ask("guest.destroy", "bystander"))
		w.cancel(other, r.ID.Job)
		w.fillTile()
		w.pastDay()
		require.NoError(w.t, os.MkdirAll(w.segmentFiles().Path(), 0o700))
		w.armUnlogged("archiving is no request")
		in, right := wrong(w)
		k := w.keeper(in)
		for range 3 {
			_, err := k.Step(w.ctx)
			why := k.State().Held
			require.Contains(w.t, why, says, "%v", err)
			require.NotNil(w.t, must.Get(w.gate.Job(w.ctx, r.ID.Job))(w.t))
			require.Equal(w.t, bound, w.boundOf())
		}
		why := k.State().Held
		right()
		w.archiveAll()
		must.Fail(w.gate.Job(w.ctx, r.ID.Job))(w.t, refusal.UnknownTarget)
		return refusal.New(archivingHeld, "%s", why)
	}}
}

// ownDisk gives the segment files a disk of their own, of so many bytes, and returns what changes its size. Before the state is
// checked, the files are where they would be without it.
func (w *world) ownDisk(size int) (resize func(int)) {
	w.t.Helper()
	path, keep := w.segmentFiles().Path(), w.t.TempDir()
	require.NoError(w.t, unix.Mount("gated-archive", path, "tmpfs", 0, fmt.Sprintf("mode=0700,size=%d", size)), "the state has such a disk too")
	w.t.Cleanup(func() {
		require.NoError(w.t, os.CopyFS(keep, os.DirFS(path)))
		require.NoError(w.t, unix.Unmount(path, unix.MNT_DETACH))
		require.NoError(w.t, os.CopyFS(path, os.DirFS(keep)))
	})
	return func(size int) {
		require.NoError(w.t, unix.Mount("", path, "", unix.MS_REMOUNT, fmt.Sprintf("mode=0700,size=%d", size)))
	}
}

// segmentNames are the names of the segment files that are there, whether a row names them or not.
func (w *world) segmentNames() []string {
	w.t.Helper()
	return must.Get(filepath.Glob(filepath.Join(w.segments, "*segment*.t*")))(w.t)
}

// boundOf is up to which entry the texts are in segments alone.
func (w *world) boundOf() (seq int64) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) error {
		h, err := audit.Bound(tx)
		seq = h.Seq
		return err
	}))
	return seq
}

// clockBy is a row in which somebody sets the clock.
func clockBy(id, what string, by time.Duration) attack {
	return holds(id, "somebody sets the clock "+what+", so that records look older than they are", "does not trust its clock", false, 0, func(w *world) (*archive.Dir, func()) {
		w.setClock(by)
		return w.segmentFiles(), func() { w.setClock(-by); w.ticks() }
	})
}

// kept is a row on what was archived: before makes something, and a day later the attack wants it forgotten.
func kept(id, what string, want refusal.Code, before func(w *world) (attack func() error)) attack {
	return attack{id: id, what: "records are archived, and " + what, want: want, run: func(w *world) error {
		w.keyed()
		attack := before(w)
		w.archivesMore()
		w.arm()
		return attack()
	}}
}

// archivesMore archives all that there is now, and a job that may go.
func (w *world) archivesMore() {
	w.t.Helper()
	r := w.requestBy(other, ask("guest.destroy", "bystander"))
	w.cancel(other, r.ID.Job)
	w.fillTile()
	w.pastDay()
	w.archiveAll()
	require.Positive(w.t, w.inSegment(r.ID.Job))
}

var archiveRows = []attack{
	clockBy("E04a", "a year ahead", 365*24*time.Hour),
	clockBy("E04b", "two hours ahead", 2*time.Hour),
	clockBy("E04c", "two hours back", -2*time.Hour),
	{id: "E04d", what: "the log has an entry of a year that is not yet, of a clock that was wrong", want: archivingHeld, run: func(w *world) error {
		w.keyed()
		later := w.now().Add(365 * 24 * time.Hour)
		require.NoError(w.t, w.store.Update(w.ctx, func(tx *store.Tx) error {
			return failure(audit.Append(tx, audit.Entry{Time: later, Kind: audit.Stopped, Gate: w.gate.ID()}))
		}))
		w.fillTile()
		w.pastDay()
		w.armUnlogged("archiving is no request")
		k := w.keeper(w.segmentFiles())
		require.False(w.t, must.Get(k.Step(w.ctx))(w.t))
		require.Contains(w.t, k.State().Held, "is not yet")
		require.NoDirExists(w.t, w.segments)
		return refusal.New(archivingHeld, "%s", k.State().Held)
	}},
	holds("E05a", "the disk with the state and the segments is full before a second segment is begun", "no space left", true, diskSize, func(w *world) (*archive.Dir, func()) {
		return w.segmentFiles(), w.full()
	}),
	holds("E05b", "the disk with the state and the segments is full before the first segment is begun", "no space left", false, diskSize, func(w *world) (*archive.Dir, func()) {
		return w.segmentFiles(), w.full()
	}),
	holds("E05c", "the disk of the segments fills while the file of one is written", "write segment-00000001-", false, diskSize, func(w *world) (*archive.Dir, func()) {
		room := w.ownDisk(2 * os.Getpagesize()) // the id of the directory, and a part of the file
		return w.segmentFiles(), func() {
			require.Empty(w.t, w.segmentNames(), "the part is gone")
			room(diskSize)
		}
	}),
	holds("E05d", "the disk of the state fills before a segment is recorded whose file is written", "no space left", false, diskSize, func(w *world) (*archive.Dir, func()) {
		w.ownDisk(diskSize)
		free := func() {}
		w.begins = func() { free = w.full() }
		return w.segmentFiles(), func() {
			require.Len(w.t, w.segmentNames(), 1, "it is written, and nothing names it")
			free()
		}
	}),
	{id: "E07a", what: "an agent, a submitter and a uid that only observes ask by operations to archive and to delete what is archived", want: refusal.UnknownOp, run: func(w *world) (err error) {
		w.archiving()
		w.arm()
		files := must.Get(os.ReadDir(w.segments))(w.t)
		for _, by := range []op.Requester{builder, hub, other} {
			for _, name := range []string{"archive.run", "archive.delete", "archive.show", "job.delete", "audit.delete", "retention.set"} {
				_, err = w.submit(by, ask(name, "victim"))
				require.ErrorIs(w.t, err, refusal.UnknownOp)
			}
		}
		require.Equal(w.t, len(files), len(must.Get(os.ReadDir(w.segments))(w.t)))
		return err
	}},
	{id: "E07b", what: "a stranger on the socket calls for a job that is archived to be shown and deleted, and for archiving itself", want: refusal.UnknownTarget, run: func(w *world) (err error) {
		gone := w.archiving()
		w.armUnlogged("these are no calls of the gate")
		socket := w.serve()
		for _, call := range [][2]string{{"DELETE", "/v1/jobs/" + gone.String()}, {"POST", "/v1/archive"}, {"DELETE", "/v1/archive"}, {"GET", "/v1/archive/1"}, {"POST", "/v1/retention"}} {
			require.Error(w.t, problem(w.t, w.callAs(socket, call[0], call[1], "{}", "application/json")), call)
		}
		require.NoError(w.t, w.readsArchive())
		return problem(w.t, w.callAs(socket, "GET", "/v1/jobs/"+gone.String(), "", ""))
	}},
	kept("E08a", "the approval of a step that ran is handed in again", refusal.Expired, func(w *world) func() error {
		r := w.request(ask("guest.destroy", "bystander"))
		w.mustApprove(r)
		require.NoError(w.t, w.runAll())
		w.makeGuest("bystander")
		return func() error { return w.send(r.ID, w.envelopeOf(r)) }
	}),
	kept("E08b", "its key of idempotency is used for another wish", refusal.Conflict, func(w *world) func() error {
		sub := op.Submission{Requester: hub, Steps: []op.Ask{ask("guest.destroy", "victim")}, IdempotencyKey: "k"}
		j := must.Get(w.gate.Submit(w.ctx, sub))(w.t)
		w.cancel(hub, j.ID)
		return func() error {
			require.Equal(w.t, j.ID, must.Get(w.gate.Submit(w.ctx, sub))(w.t).ID, "the same wish gets the same answer")
			sub.Steps = []op.Ask{ask("guest.destroy", "bystander")}
			return failure(w.gate.Submit(w.ctx, sub))
		}
	}),
	kept("E08c", "what an operator rejected is signed with the payload of that time; the rejection stays for 30 days", refusal.Expired, func(w *world) func() error {
		j := must.Get(w.says(other, "clean up", wipe))(w.t)
		r := w.reread(j.Steps[0].ID)
		w.turnDown(r)
		return func() error {
			require.Zero(w.t, w.inSegment(j.ID))
			return w.send(r.ID, w.envelopeOf(r))
		}
	}),
	kept("E08d", "somebody whom nobody lists signs the request that still waits", refusal.UnknownSigner, func(w *world) func() error {
		id := w.destroyRequest().ID
		return func() error {
			require.Zero(w.t, w.inSegment(id.Job))
			r := w.reread(id)
			return w.send(id, authz.Envelope{Payload: r.Payload, Signatures: []string{w.mallory.sign(w.t, op.Operational, r.Payload)}})
		}
	}),
	kept("E08e", "somebody else destroys, unsigned, a guest whose making is archived", refusal.PendingSignature, func(w *world) func() error {
		w.makeFor(hub, "decoy", "labels", labels("tier", "scratch"))
		w.allow.finale = []string{"decoy"}
		return func() error { return w.waits(w.submit(other, ask("guest.destroy", "decoy"))) }
	}),
	kept("E08f", "a rejection that was signed for an archived request is handed in for it again", refusal.Expired, func(w *world) func() error {
		r := w.requestBy(other, ask("guest.destroy", "bystander"))
		e := w.rejection(r, w.alice)
		w.cancel(other, r.ID.Job)
		return func() error {
			require.Positive(w.t, w.inSegment(r.ID.Job))
			return failure(w.gate.Reject(w.ctx, hub, r.ID, e))
		}
	}),
}
