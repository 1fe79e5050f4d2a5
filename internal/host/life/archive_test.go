package life

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/host/retention"
	"gated/internal/host/signers"
	"gated/internal/log/audit"
	"gated/internal/log/checkpoint"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// guests are targets that are there.
type guests struct{}

func (guests) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	return op.Observed{Target: l.Target, Present: true, Incarnation: "i1", Running: "stopped", Fingerprint: op.FingerprintOf(nil), Spec: op.Params{}}, nil
}

// archivedState is a state directory of which a part is archived, with a job that is. seq is an archived entry.
func archivedState(t *testing.T) (dir string, job op.JobID, bound int64) {
	dir = filepath.Join(t.TempDir(), "state")
	must.Get(Init(t.Context(), InitOptions{StateDir: dir, Host: "pve1",
		Operators: []signers.KeyArg{{Path: "../../../testdata/keys/alice.pub", Principal: "alice@example.com"}}}))(t)
	fscktest.Watch(t, filepath.Join(dir, "gated.db"), Migrations())
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	o := must.Get(Open(t.Context(), dir, log))(t)
	key := must.Get(checkpoint.NewKey(o.ID.Gate))(t)
	var clock gateworld.Clock
	require.NoError(t, o.Store.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`DELETE FROM time_mark`)
		return err
	}))
	ahead := time.Since(gateworld.Noon) // what init wrote is of today
	clock.Set(ahead)
	g := gateworld.New(t, o.Store, clock.Read, gate.Config{Observer: guests{}, Host: "pve1", ID: o.ID.Gate, Key: key.Signer, Trust: gateworld.Trust(t, text(t, filepath.Join(dir, "allowed_signers"))), Epoch: 1})
	if known := keyOf(t, o); known == "" {
		require.NoError(t, o.Store.Update(t.Context(), func(tx *store.Tx) error {
			if err := audit.SetPublicKey(tx, o.ID.Gate, key.Public); err != nil {
				return err
			}
			return g.Append(tx, audit.Entry{Kind: audit.Keyed, By: "gate", Parts: audit.Parts{HeadKey: key.Public}})
		}))
	}
	by := op.Requester{Source: op.SourceAPI, UID: 1000, PID: 7}
	j := must.Get(g.Submit(t.Context(), op.Submission{Requester: by, Steps: []op.Ask{gateworld.Ask("guest.destroy", "web")}, Reason: "why not"}))(t)
	must.Get(g.Cancel(t.Context(), by, j.ID))(t)
	for range 300 {
		require.NoError(t, g.Log(t.Context(), audit.Entry{Kind: audit.Stopped}))
	}
	for range 27 {
		clock.Pass(time.Hour)
		require.NoError(t, g.Tick(t.Context()))
	}
	k := must.Get(retention.New(retention.Config{Store: o.Store, Dir: archiveOf(dir), After: 24 * time.Hour, Keep: 10, Gate: o.ID.Gate, Schema: len(Migrations()),
		Append: g.Append, Moment: g.Moment, Up: func() time.Duration { return 0 }, Admit: o.Room.Admit, Rest: func(context.Context, time.Duration) {}, Logger: log}))(t)
	for did := true; did; {
		did = must.Get(k.Step(t.Context()))(t)
	}
	require.Empty(t, k.State().Held)
	require.NoError(t, o.Close())
	return dir, j.ID, k.State().Entries
}

func keyOf(t *testing.T, o *Opened) (public string) {
	require.NoError(t, o.Store.View(t.Context(), func(tx *store.Tx) (err error) {
		public, err = audit.PublicKey(tx, o.ID.Gate)
		return err
	}))
	return public
}

// TestAnArchivedState: each command says what it read, and none says more.
func TestAnArchivedState(t *testing.T) {
	dir, job, bound := archivedState(t)
	require.EqualValues(t, 256, bound)

	r := must.Get(VerifyAuditWith(t.Context(), dir, AuditCheck{}))(t)
	require.Equal(t, []int64{bound, 0}, []int64{r.Archived, r.NotRead})
	report := must.Get(Fsck(t.Context(), dir))(t)
	require.True(t, report.Sound, report.Problems)
	require.EqualValues(t, 1, report.Checked["archived jobs"])
	quick := must.Get(FsckQuick(t.Context(), dir))(t)
	require.True(t, quick.Sound, quick.Problems)
	for _, whole := range []bool{false, true} {
		listed := must.Get(Archive(t.Context(), dir, "", whole))(t)
		require.True(t, listed.Sound)
		require.Equal(t, bound, listed.Bound)
		require.Len(t, listed.Segments, 1)
		require.Equal(t, 1, listed.Segments[0].Jobs)
	}
	shown := must.Get(ShowJob(t.Context(), dir, "", job))(t)
	require.Equal(t, "why not", shown.Rows["jobs"][0]["reason"])
	require.Len(t, shown.Rows["requests"], 1)
	_, err := ShowJob(t.Context(), dir, "", job+1)
	require.ErrorIs(t, err, refusal.UnknownTarget)
	e := must.Get(audit.Decode(must.Get(ShowEntry(t.Context(), dir, "", 7))(t)))(t)
	require.EqualValues(t, 7, e.Seq)
	for _, seq := range []int64{-1, 0, bound + 1} {
		_, err = ShowEntry(t.Context(), dir, "", seq)
		require.ErrorIs(t, err, refusal.UnknownTarget, seq)
	}

	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, Backup(t.Context(), dir, backup))
	b := must.Get(CheckBackup(t.Context(), backup, "", func(int64) {}))(t)
	require.Equal(t, []string{shown.File}, b.Segments, "a backup names the files that it needs")
	require.False(t, b.SegmentsRead)

	elsewhere := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.Rename(filepath.Join(dir, ArchiveName), elsewhere))
	_, err = VerifyAudit(t.Context(), dir)
	require.ErrorIs(t, err, refusal.Unavailable)
	require.ErrorContains(t, err, shown.File)
	r = must.Get(VerifyAuditWith(t.Context(), dir, AuditCheck{Recent: true}))(t)
	require.Equal(t, []int64{bound, bound}, []int64{r.Archived, r.NotRead})
	must.Get(VerifyAuditWith(t.Context(), dir, AuditCheck{Archive: elsewhere}))(t)
	report = must.Get(Fsck(t.Context(), dir))(t)
	require.False(t, report.Sound)
	require.Contains(t, report.Problems[0].Detail, shown.File)
	require.True(t, must.Get(FsckWith(t.Context(), dir, elsewhere, nil))(t).Sound)
	require.False(t, must.Get(Archive(t.Context(), dir, "", false))(t).Sound)
	require.False(t, must.Get(Archive(t.Context(), dir, "", true))(t).Sound)
	require.True(t, must.Get(Archive(t.Context(), dir, elsewhere, true))(t).Sound)
	must.Get(CheckBackup(t.Context(), backup, "", func(int64) {}))(t)
	require.NoError(t, os.Rename(elsewhere, filepath.Join(dir, ArchiveName)))
}

// copyArchive copies the segment files of a state directory, and returns the copy and its first file.
func copyArchive(t *testing.T, dir string) (copied, file string) {
	copied = filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(filepath.Join(dir, ArchiveName))))
	names := must.Get(filepath.Glob(filepath.Join(copied, "segment-*")))(t)
	require.NotEmpty(t, names)
	return copied, names[0]
}

// spoiled are the ways in which a copy of the archive is not whole.
var spoiled = map[string]func(t *testing.T, file string){
	"missing": func(t *testing.T, file string) { require.NoError(t, os.Remove(file)) },
	"cut": func(t *testing.T, file string) {
		require.NoError(t, os.Truncate(file, must.Get(os.Stat(file))(t).Size()-1))
	},
	"changed": func(t *testing.T, file string) {
		b := must.Get(os.ReadFile(file))(t)
		b[len(b)/2] ^= 1
		require.NoError(t, os.WriteFile(file, b, 0o600))
	},
}

// TestABackupIsCheckedWithItsSegmentFiles: with them, as strictly as a backup that needs none.
func TestABackupIsCheckedWithItsSegmentFiles(t *testing.T) {
	dir, _, _ := archivedState(t)
	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, Backup(t.Context(), dir, backup))
	whole, _ := copyArchive(t, dir)
	r := must.Get(CheckBackup(t.Context(), backup, whole, func(int64) {}))(t)
	require.True(t, r.SegmentsRead)
	require.Contains(t, r.Checked, "its segment files")
	require.Contains(t, r.Checked, "everything that gated fsck checks")

	for what, spoil := range spoiled {
		copied, file := copyArchive(t, dir)
		spoil(t, file)
		_, err := CheckBackup(t.Context(), backup, copied, func(int64) {})
		require.Error(t, err, what)
		require.ErrorContains(t, err, filepath.Base(file), what)
		require.Contains(t, refusal.As(err).Hint, "says nothing against the backup", what)
		_, err = RestoreWith(t.Context(), dir, Restoring{File: backup, Archive: copied})
		require.Error(t, err, what)
		require.NoFileExists(t, filepath.Join(dir, "gated.db.before-restore"), what)
	}

	// A row that only the segment's file contradicts.
	forged := filepath.Join(t.TempDir(), "forged")
	require.NoError(t, Backup(t.Context(), dir, forged))
	//fsck:none it is made unsound here
	s := must.Get(store.Open(t.Context(), forged, store.Options{Migrations: Migrations(), Leaves: true}))(t)
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE segments SET jobs = jobs + 1`)
		return err
	}))
	require.NoError(t, s.Close())
	_, err := CheckBackup(t.Context(), forged, whole, func(int64) {})
	require.ErrorIs(t, err, refusal.Conflict)
}

// TestARestoreSaysWhichSegmentFilesAreMissing: and reads those that are there.
func TestARestoreSaysWhichSegmentFilesAreMissing(t *testing.T) {
	dir, _, _ := archivedState(t)
	backup := filepath.Join(t.TempDir(), "backup")
	require.NoError(t, Backup(t.Context(), dir, backup))
	copied, file := copyArchive(t, dir)
	own := filepath.Join(dir, ArchiveName)

	r := must.Get(Restore(t.Context(), backup, dir))(t)
	require.Equal(t, []string{filepath.Base(file)}, r.Segments)
	require.Empty(t, r.Missing)
	require.Equal(t, own, r.Archive)

	// Of the right length, and damaged: that says nothing against the backup, and the restore goes on as without the file.
	for what, spoil := range spoiled {
		require.NoError(t, os.RemoveAll(own))
		require.NoError(t, os.CopyFS(own, os.DirFS(copied)))
		spoil(t, filepath.Join(own, filepath.Base(file)))
		r = must.Get(Restore(t.Context(), backup, dir))(t, what)
		require.Equal(t, r.Segments, r.Missing, what)
	}

	require.NoError(t, os.RemoveAll(own))
	r = must.Get(RestoreWith(t.Context(), dir, Restoring{File: backup, Archive: copied}))(t)
	require.Equal(t, r.Segments, r.Missing)
	must.Fail(VerifyAudit(t.Context(), dir))(t, refusal.Unavailable)
	require.NoError(t, os.CopyFS(own, os.DirFS(copied)))
	must.Get(VerifyAudit(t.Context(), dir))(t)
	report := must.Get(Fsck(t.Context(), dir))(t)
	require.True(t, report.Sound, report.Problems)
}
