package proxmox_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/drivertest"
	"gated/internal/driver/proxmox/pvetest"
	"gated/internal/test/must"
)

// Proxmox VE destroys no guest that has a replication job, so no operator is asked, and no guest is stopped for it.
func TestADestroyOfAReplicatedGuestIsRefusedAtOnce(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind, "pve1", "pve2")
		other, web := w.ours("other"), w.ours("web")
		w.Replicate(other, "pve2")
		job := w.Replicate(web, "pve2")
		w.Done(drivertest.Hub, guestAsk("start", "web"))
		_, err := w.Submit(drivertest.Hub, guestAsk("destroy", "web"))
		require.ErrorIs(t, err, refusal.Conflict)
		require.ErrorContains(t, err, "the replication job "+job)
		require.Contains(t, refusal.As(err).Hint, "pvesr delete "+job)
		require.Contains(t, refusal.As(err).Hint, "the copy on pve2 goes with it")
		w.EndReplication()
		r := w.Approved(drivertest.Hub, guestAsk("destroy", "web"))
		w.Replicate(web, "pve2")
		must.Fail(w.run(r.ID))(t, refusal.Conflict)
		require.Equal(t, "running", w.Look("web").Running, "it was stopped for a step that cannot be done")
		w.EndReplication()
		w.Done(drivertest.Hub, guestAsk("destroy", "web"))
		require.False(t, w.Exists(web))
	})
}

// A job that pvesr delete marked goes with its next run. Another delete would mark it again, and until then the guest stays.
func TestADestroyOfAGuestWhoseReplicationEnds(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind, "pve1", "pve2")
		db := w.ours("db")
		w.Done(drivertest.Hub, guestAsk("snapshot", "db", "snapshot", "first"))
		job := w.Replicate(db, "pve2")
		snapshot := guestAsk("snapshot-delete", "db", "snapshot", "first")
		r := w.Waiting(drivertest.Hub, snapshot)
		payloads := []string{string(r.Payload)}
		for how, said := range map[string]string{"local": "the copy on pve2 stays as it is", "full": "its next run deletes the copy on pve2", "of a later version": "deletes the copy"} {
			w.MarkReplication(how)
			_, err := w.Submit(drivertest.Hub, guestAsk("destroy", "db"))
			require.ErrorIs(t, err, refusal.Conflict, how)
			require.Contains(t, refusal.As(err).Hint, "ask again in a few minutes", how)
			require.Contains(t, refusal.As(err).Hint, "pvesr delete "+job+" --force 1", how)
			require.NotContains(t, refusal.As(err).Hint, "--keep", how)
			require.Contains(t, w.factsOf(snapshot)["used by"], "the replication job "+job+": marked for removal", how)
			require.Contains(t, w.factsOf(snapshot)["used by"], said, how)
			if how != "of a later version" {
				require.NoError(t, w.Refresh(t.Context(), r.Step.Target))
				now := string(must.Get(w.Request(t.Context(), r.ID))(t).Payload)
				require.NotContains(t, payloads, now, "%s: what becomes of the copy was not shown", how)
				payloads = append(payloads, now)
			}
		}
		w.EndReplication()
		w.Done(drivertest.Hub, guestAsk("destroy", "db"))
		require.False(t, w.Exists(db))
	})
}

// A job that is made right before the call keeps the guest, and its flag is back.
func TestAReplicationJobInTheMiddleOfADestroy(t *testing.T) {
	eitherWorld(t, func(t *testing.T, w *world) {
		web := w.ours("web")
		r := w.Approved(drivertest.Hub, guestAsk("destroy", "web"))
		held := w.Break(pvetest.Rule{Method: "DELETE", Fault: pvetest.HangBefore, Times: 1})
		go func() { <-held.Came(); w.Replicate(web, "pve2"); held.Release() }()
		require.ErrorContains(t, must.Err(w.run(r.ID))(t), "There is a replication job")
		require.True(t, w.Exists(web))
		require.Equal(t, "1", w.Guest(web).Config["protection"])
	})
}

// What a step takes here, the next run of a job takes from the copy: the copy is no way back. A disk that is taken off is copied on.
func TestWhatAReplicationJobTakesFromItsCopy(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind, "pve1", "pve2")
		w.ours("other")
		db := w.ours("db")
		key := secondDisk[kind]
		w.Done(drivertest.Hub, guestAsk("disk-create", "db", "disk", key, "size", int64(1024)))
		w.Done(drivertest.Hub, guestAsk("snapshot", "db", "snapshot", "first"))
		w.BackUp(db, "local")
		job := w.Replicate(db, "pve2")
		backup := w.Look("db").Backups[0]
		for _, a := range []op.Ask{guestAsk("restore", "db", "snapshot", "first"), guestAsk("snapshot-delete", "db", "snapshot", "first"),
			guestAsk("disk-delete", "db", "disk", key), guestAsk("backup-restore", "db", "backup", backup)} {
			require.Contains(t, w.factsOf(a)["used by"], "the replication job "+job, a.Op)
			require.Contains(t, w.factsOf(a)["used by"], "the copy on pve2", a.Op)
		}
		require.NotContains(t, w.factsOf(guestAsk("disk-detach", "db", "disk", key)), "used by")
		require.NotContains(t, w.factsOf(guestAsk("destroy", "other")), "used by")
		w.Break(pvetest.Rule{Method: "GET", Path: "/cluster/replication", Fault: pvetest.FailBefore, Status: 595})
		_, err := w.Submit(drivertest.Hub, guestAsk("destroy", "db"))
		require.ErrorIs(t, err, refusal.Unavailable)
	})
}

// What was signed without a job, or with another one, runs no more: the job's copy may have been meant as the way back.
func TestARequestIsIssuedAnewForANewReplicationJob(t *testing.T) {
	either(t, func(t *testing.T, kind string) {
		w := newWorld(t, kind, "pve1", "pve2", "pve3")
		db, key := w.ours("db"), secondDisk[kind]
		w.Done(drivertest.Hub, guestAsk("disk-create", "db", "disk", key, "size", int64(1024)))
		w.Done(drivertest.Hub, guestAsk("snapshot", "db", "snapshot", "first"))
		w.BackUp(db, "local")
		shown := func(r op.Request) string {
			require.NoError(t, w.Refresh(t.Context(), r.Step.Target))
			return string(must.Get(w.Request(t.Context(), r.ID))(t).Payload)
		}
		for _, a := range []op.Ask{guestAsk("restore", "db", "snapshot", "first"), guestAsk("snapshot-delete", "db", "snapshot", "first"),
			guestAsk("disk-delete", "db", "disk", key), guestAsk("backup-restore", "db", "backup", w.Look("db").Backups[0])} {
			w.EndReplication()
			r := w.Waiting(drivertest.Hub, a)
			none := shown(r)
			require.Equal(t, string(r.Payload), none, a.Op)
			w.Replicate(db, "pve2")
			one := shown(r)
			require.NotEqual(t, none, one, a.Op)
			require.Equal(t, one, shown(r), a.Op)
			w.EndReplication()
			w.Replicate(db, "pve3")
			require.NotEqual(t, one, shown(r), "%s: the job copies to another node", a.Op)
			must.Get(w.Approve(must.Get(w.Request(t.Context(), r.ID))(t)))(t)
			w.Replicate(db, "pve2")
			w.ResetCounts()
			require.ErrorIs(t, w.Execute(r.ID), refusal.StaleTarget, a.Op)
			require.Zero(t, w.Counts().Change, a.Op)
		}
	})
}
