package retention_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/retention"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// held does one step, which has to be none.
func (w *world) held() string {
	w.t.Helper()
	did, _ := w.keeper.Step(w.t.Context())
	require.False(w.t, did)
	return w.keeper.State().Held
}

// TestAClockThatJumps: a year ahead, nothing goes, and once the clock is right again all goes on.
func TestAClockThatJumps(t *testing.T) {
	w := newWorld(t)
	w.busy(110)
	for _, jump := range []time.Duration{365 * 24 * time.Hour, nonce.MaxJump + time.Second, -2 * time.Hour} {
		w.clock.Set(jump)
		require.Contains(t, w.held(), "does not trust its clock", jump)
		require.Empty(t, w.files())
		w.clock.Set(-jump)
	}
	require.Empty(t, w.held())
	require.Contains(t, w.keeper.State().Waits, "is not old enough")
	w.pass(25 * time.Hour)
	require.Positive(t, w.archive())
}

// TestAClockThatJumpedOverABoot: up to 30 days are believed, so archiving waits for a day of another clock.
func TestAClockThatJumpedOverABoot(t *testing.T) {
	for away, waits := range map[time.Duration]bool{24 * time.Hour: false, 24*time.Hour + time.Second: true, 30 * 24 * time.Hour: true} {
		w := newWorld(t)
		w.busy(110)
		w.pass(time.Minute)
		w.clock.Set(25 * time.Hour)
		require.NoError(t, w.store.Close())
		w.away = away
		w.open()
		if !waits {
			require.Positive(t, w.archive(), away)
			continue
		}
		require.Contains(t, w.held(), "archiving waits until it ran for a day", away)
		require.Empty(t, w.files())
		w.pass(24*time.Hour - time.Minute)
		require.Contains(t, w.held(), "archiving waits until it ran for a day", away)
		w.pass(time.Minute)
		require.Positive(t, w.archive(), away)
	}
}

// TestAClockThatIsAheadOverManyStarts: it jumps by a year in steps that a start believes. The wait outlasts starts, so nothing goes
// before the gate ran for a day, and each long step begins the day anew.
func TestAClockThatIsAheadOverManyStarts(t *testing.T) {
	w := newWorld(t)
	w.busy(110)
	w.pass(time.Minute)
	jump := func(by time.Duration) {
		w.clock.Set(by)
		w.away = by
		w.restart()
	}
	for range 13 {
		jump(29 * 24 * time.Hour)
		require.Contains(t, w.held(), "archiving waits until it ran for a day")
		w.pass(2 * time.Hour)
		require.Contains(t, w.held(), "archiving waits")
		w.restart() // of the daemon alone
		require.Contains(t, w.held(), "it ran for 2h0m0s")
	}
	require.Empty(t, w.files())
	for range 10 { // what ran before a start counts
		w.pass(2 * time.Hour)
		require.Contains(t, w.held(), "archiving waits")
		w.restart()
	}
	jump(23 * time.Hour)
	w.pass(time.Hour)
	require.Contains(t, w.held(), "archiving waits")
	w.pass(time.Hour)
	require.Positive(t, w.archive())
	jump(23 * time.Hour)
	require.Empty(t, w.held())
	jump(2 * time.Hour)
	require.Contains(t, w.held(), "did not run for 25h0m0s", "short ones add up")
}

// TestADayWithAnUntrustedClockIsNone: while the clock is not trusted, the wait does not go on.
func TestADayWithAnUntrustedClockIsNone(t *testing.T) {
	w := newWorld(t)
	w.busy(110)
	w.pass(time.Minute)
	w.clock.Set(25 * time.Hour)
	w.away = 25 * time.Hour
	w.restart()
	require.Contains(t, w.held(), "archiving waits")
	w.clock.Set(2 * time.Hour)
	require.Contains(t, w.held(), "does not trust its clock")
	w.clock.Pass(25 * time.Hour)
	require.Contains(t, w.held(), "does not trust its clock")
	w.clock.Set(-2 * time.Hour)
	require.Contains(t, w.held(), "archiving waits")
}

// TestTimesThatAreNotYet: entries and jobs of a wrong clock that was set back hold what comes after them, and the state says so.
func TestTimesThatAreNotYet(t *testing.T) {
	w := newWorld(t)
	w.busy(20)
	later := w.clock.Now().Add(365 * 24 * time.Hour)
	w.update(func(tx *store.Tx) error {
		_, err := audit.Append(tx, audit.Entry{Time: later, Kind: audit.Stopped, Gate: gateworld.ID})
		return err
	})
	w.busy(110)
	w.pass(25 * time.Hour)
	held := w.held()
	require.Contains(t, held, "is not yet")
	require.Contains(t, held, later.Format("2006-01-02"))
	require.Empty(t, w.files())
}

// TestAJobOfALaterTime: its entries are archived, it stays, and the state names it.
func TestAJobOfALaterTime(t *testing.T) {
	w := newWorld(t)
	job := w.do("guest.create", "odd")
	w.update(func(tx *store.Tx) error {
		_, err := tx.Exec(`UPDATE jobs SET finished_at = ? WHERE id = ?`, w.clock.Now().Add(time.Hour*24*365).UnixNano(), int64(job.ID))
		return err
	})
	w.busy(110)
	w.pass(25 * time.Hour)
	w.archive()
	require.Positive(t, w.bound())
	require.Contains(t, w.keeper.State().Why, "it says that it ended at 2027")
	must.Get(w.gate.Job(t.Context(), job.ID))(t)
}

// TestADiskWithoutRoom: nothing is written, nothing is lost, and it goes on when there is room.
func TestADiskWithoutRoom(t *testing.T) {
	w := newWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	full := refusal.New(refusal.Unavailable, "the disk is full")
	w.admit = func(n int64) error {
		require.Greater(t, n, int64(256*100), "about what the file has")
		return full
	}
	_, err := w.keeper.Step(t.Context())
	require.ErrorIs(t, err, refusal.Unavailable)
	require.Contains(t, w.keeper.State().Held, "the disk is full")
	require.Empty(t, w.files())
	w.admit = func(int64) error { return nil }
	require.NoError(t, os.RemoveAll(w.dir.Path()))
	require.NoError(t, os.WriteFile(w.dir.Path(), nil, 0o600)) // a file is in the directory's place
	_, err = w.keeper.Step(t.Context())
	require.Error(t, err)
	require.NotEmpty(t, w.keeper.State().Held)
	require.NoError(t, os.Remove(w.dir.Path()))
	require.Positive(t, w.archive())
	require.Empty(t, w.keeper.State().Held)
}

// TestADiskThatFillsWhileASegmentIsWritten: the disk of the segment files has room for a part of the file, and the database has its
// own. The part is gone, nothing left the database, and archiving goes on when there is room.
func TestADiskThatFillsWhileASegmentIsWritten(t *testing.T) {
	w := newWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	require.NoError(t, os.Mkdir(w.dir.Path(), 0o700))
	if err := unix.Mount("gated-archive", w.dir.Path(), "tmpfs", 0, "mode=0700,size=8192"); err != nil { // the id of the directory and a page
		t.Skipf("needs mount(2) with CAP_SYS_ADMIN: %v", err)
	}
	keep := t.TempDir()
	t.Cleanup(func() { // before the store is checked, which reads the files
		require.NoError(t, os.CopyFS(keep, os.DirFS(w.dir.Path())))
		require.NoError(t, unix.Unmount(w.dir.Path(), unix.MNT_DETACH))
		require.NoError(t, os.CopyFS(w.dir.Path(), os.DirFS(keep)))
	})
	jobs, entries := w.count("jobs"), w.count("audit")
	for range 2 {
		_, err := w.keeper.Step(t.Context())
		require.ErrorIs(t, err, unix.ENOSPC)
		require.ErrorContains(t, err, "write segment-00000001-")
		require.Contains(t, w.keeper.State().Held, "no space left")
		require.FileExists(t, filepath.Join(w.dir.Path(), archive.MarkName), "the disk was not full before")
		require.Empty(t, w.files())
		require.Equal(t, []int64{jobs, entries, 0}, []int64{w.count("jobs"), w.count("audit"), w.count("segments")})
	}
	require.NoError(t, unix.Mount("", w.dir.Path(), "", unix.MS_REMOUNT, "size=8388608"))
	require.Positive(t, w.archive())
	require.Empty(t, w.keeper.State().Held)
	require.Less(t, w.count("audit"), entries)
}

// TestWhatACrashLeaves: a file under the temporary name, or one that no row names, is in no way.
func TestWhatACrashLeaves(t *testing.T) {
	w := newWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	require.NoError(t, os.Mkdir(w.dir.Path(), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(w.dir.Path(), ".segment.tmp"), []byte("half"), 0o600))
	unnamed := filepath.Join(w.dir.Path(), "segment-00000001-0123456789abcdef.tar.gz")
	require.NoError(t, os.WriteFile(unnamed, []byte("of a crash"), 0o600))
	require.Positive(t, w.archive())
	require.Len(t, w.files(), 2)
	require.Equal(t, "of a crash", string(must.Get(os.ReadFile(unnamed))(t)), "no segment replaces another file")
}

// TestASegmentThatIsGoneBeforeItsRowsAre: nothing more is deleted without the file.
func TestASegmentThatIsGoneBeforeItsRowsAre(t *testing.T) {
	for name, restarts := range map[string]bool{"the keeper has it in memory": false, "after a start": true} {
		t.Run(name, func(t *testing.T) { gone(t, restarts) })
	}
}

func gone(t *testing.T, restarts bool) {
	w := newWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	w.some(3) // recorded, and some jobs are deleted
	jobs, entries := w.count("jobs"), w.count("audit")
	name := filepath.Join(w.dir.Path(), w.files()[0])
	text := must.Get(os.ReadFile(name))(t)
	require.NoError(t, os.Remove(name))
	if restarts {
		w.restart()
	}
	_, err := w.keeper.Step(t.Context())
	require.ErrorIs(t, err, refusal.Unavailable)
	require.Contains(t, w.keeper.State().Held, filepath.Base(name))
	require.Equal(t, []int64{jobs, entries}, []int64{w.count("jobs"), w.count("audit")})
	require.NoError(t, os.WriteFile(name, text, 0o600))
	require.Positive(t, w.archive())
	require.Less(t, w.count("jobs"), jobs)
}

// TestALogThatNothingSigned: what the signed head does not cover stays.
func TestALogThatNothingSigned(t *testing.T) {
	w := newWorld(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	w.update(func(tx *store.Tx) error { _, err := tx.Exec(`UPDATE audit_head SET note = ''`); return err })
	require.Contains(t, w.held(), "the head that the gate signed last has 0 entries")
	w.do("guest.create", "more")
	require.Positive(t, w.archive())
}

// TestANonceAfterItsRequestWasArchived: a payload that was signed is worth nothing any more, with its request or without.
func TestANonceAfterItsRequestWasArchived(t *testing.T) {
	w := newWorld(t)
	w.do("guest.create", "web")
	w.do("guest.create", "db")
	ran, late := w.submit(ask("guest.destroy", "web")), w.submit(ask("guest.destroy", "db"))
	spent, cancelled := w.request(ran.Steps[0].ID), w.request(late.Steps[0].ID)
	w.approve(ran.Steps[0].ID)
	must.Get(w.gate.Cancel(t.Context(), hub, late.ID))(t)
	w.busy(110)
	w.pass(26 * time.Hour)
	w.archive()
	for _, r := range []op.Request{spent, cancelled} {
		_, err := w.gate.Job(t.Context(), r.ID.Job)
		require.ErrorContains(t, err, "archived")
		signed := gateworld.Signed(t, r.Payload, w.alice)
		_, err = w.gate.Approve(t.Context(), hub, r.ID, signed)
		require.ErrorIs(t, err, refusal.Expired)
		_, err = w.gate.ApproveOffline(t.Context(), hub, signed)
		require.ErrorIs(t, err, refusal.Expired)
	}
	require.Contains(t, w.guests, "db")
}

// TestAShowingGoesFirst: the gate forgets in rounds that an operator was shown a request. Before that round its job stays, because its
// rows would not be those of the segment any more.
func TestAShowingGoesFirst(t *testing.T) {
	w := newWorld(t)
	w.do("guest.create", "web")
	shown := w.submit(ask("guest.destroy", "web"))
	must.Get(w.gate.Cancel(t.Context(), hub, shown.ID))(t)
	w.busy(110)
	w.pass(26 * time.Hour)
	w.update(func(tx *store.Tx) error { // as one that was behind all that a round looks at
		return journal.Show(tx, shown.Steps[0].ID, w.clock.Now(), time.Hour)
	})
	w.some(1) // recorded, and nothing is deleted
	require.NoError(t, w.gate.Tick(t.Context()))
	require.Zero(t, w.count("showings"))
	w.archive()
	require.Empty(t, w.keeper.State().Held)
	must.Get(w.gate.Job(t.Context(), shown.ID))(t)
	w.busy(110)
	w.pass(25 * time.Hour)
	w.archive()
	must.Fail(w.gate.Job(t.Context(), shown.ID))(t, refusal.UnknownTarget)
}

// TestRetentionIsLong: a day, and not less.
func TestRetentionIsLong(t *testing.T) {
	for after, ok := range map[time.Duration]bool{0: false, retention.Least - 1: false, retention.Least: true} {
		_, err := retention.New(retention.Config{After: after})
		require.Equal(t, ok, err == nil, after)
	}
}
