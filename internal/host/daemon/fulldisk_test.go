package daemon_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/life"
	"gated/internal/test/must"
)

// H03: a disk that is full, under the real program.
func TestFullDisk(t *testing.T) { inNamespace(t, "TestFullDiskChild") }

// saysFull is how a program says that a disk has no room: SQLite, or the kernel.
const saysFull = "no room|is full|no space"

func TestFullDiskChild(t *testing.T) {
	if os.Getenv(diskProgram) == "" {
		return // the work of TestFullDisk
	}
	for what, test := range map[string]func(*testing.T) int{
		"while it decides": fullWhileDeciding, "at a start": fullAtStart, "at a backup": fullAtBackup, "at a migration": fullAtMigration,
		"at a stop": fullAtStop, "with the reserve, by another program": fullBesideTheGate, "with the reserve, through the gate": fullThroughTheGate,
		"with the reserve, at a start": fullAtStartWithReserve,
	} {
		t.Run(what, func(t *testing.T) {
			runs := test(t)
			t.Logf("reliability: the disk is full | the daemon, %s | runs %d | lost 0 | twice 0", what, runs)
		})
	}
}

// noReserve has a daemon know nothing of free space.
const noReserve = "limits: {keep_free: 0, reserve: 0}"

// decided is what callers were told while there was ever less room.
type decided struct {
	jobs    map[string]bool
	refused int
}

// press submits until nothing is taken any more, three times in a row.
func (w *world) press() (d decided) {
	w.t.Helper()
	d.jobs = map[string]bool{}
	for row := 0; row < 3; {
		j, err := w.client.Submit(w.t.Context(), ask("guest.create", fmt.Sprint("n", len(d.jobs)+d.refused)), "")
		if err == nil {
			require.False(w.t, d.jobs[j.ID])
			d.jobs[j.ID] = true
			row = 0
			continue
		}
		require.ErrorIs(w.t, err, refusal.Unavailable)
		d.refused++
		row++
		require.Less(w.t, len(d.jobs), 5000, "the disk does not get full")
	}
	return d
}

// startedOnDisk is a daemon on a disk of its own, with a request that waits to destroy the guest web.
func startedOnDisk(t *testing.T) (w *world, s *served, request string) {
	t.Helper()
	w = newDiskWorld(t)
	w.init()
	w.config(noReserve)
	s = w.start()
	return w, s, w.waiting("web")
}

func fullWhileDeciding(t *testing.T) int {
	w, s, request := startedOnDisk(t)
	envelope := w.envelope(request)
	require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", "idle")).State)
	require.True(t, w.health("journal").OK)

	rounds := 0
	for range 3 {
		w.fill(0)
		told := w.press()
		rounds += told.refused
		must.Fail(w.client.Approve(t.Context(), request, envelope))(t, refusal.Unavailable)
		must.Fail(w.client.Submit(t.Context(), ask("guest.stop", "idle"), ""))(t, refusal.Unavailable)
		// Nothing ran, and it can be asked what is.
		require.Equal(t, op.StatePending, must.Get(w.client.Request(t.Context(), request))(t).State)
		g := must.Get(w.client.Guest(t.Context(), "web"))(t)
		require.NotEqual(t, "absent", g.State)
		h := w.health("journal")
		require.False(t, h.OK)
		require.Contains(t, h.Detail, "no space left in "+w.state)
		require.NotContains(t, h.Detail, "(13)")
		w.free()
		for id := range told.jobs {
			must.Get(w.client.Job(t.Context(), id))(t, "what was told is there")
		}
		j := w.submit(ask("guest.stop", "idle"))
		require.NotEqual(t, op.StatePending, j.State)
		require.True(t, w.health("journal").OK, "it works again without a restart")
		require.Equal(t, w.accepted(told), len(told.jobs))
	}
	must.Get(w.client.Approve(t.Context(), request, envelope))(t)
	must.Fail(w.client.Approve(t.Context(), request, envelope))(t, refusal.Replayed)
	require.Equal(t, op.StateSucceeded, w.endOf(request).State)
	code, log := s.stop()
	require.Zero(t, code, log)
	w.sound()
	return rounds
}

// accepted counts the jobs of a press that are there.
func (w *world) accepted(d decided) (n int) {
	w.t.Helper()
	for id := range d.jobs {
		if _, err := w.client.Job(w.t.Context(), id); err == nil {
			n++
		}
	}
	return n
}

// endOf waits for the end of the job of a request.
func (w *world) endOf(request string) api.Job {
	w.t.Helper()
	id, _, _ := bytes.Cut([]byte(request), []byte("."))
	return w.await(string(id))
}

func fullAtStart(t *testing.T) int {
	w, s, request := startedOnDisk(t)
	s.stop()
	w.fill(0)
	for range 2 {
		code, log := w.program().exit()
		require.NotZero(t, code)
		require.Regexp(t, saysFull, log)
	}
	w.free()
	s = w.start()
	require.NoError(t, w.approve(request))
	require.Equal(t, op.StateSucceeded, w.endOf(request).State)
	code, log := s.stop()
	require.Zero(t, code, log)
	w.sound()
	return 2
}

func fullAtStop(t *testing.T) int {
	w, s, request := startedOnDisk(t)
	w.fill(0)
	w.press()
	code, log := s.stop()
	require.Zero(t, code, log)
	require.NotContains(t, log, "before it served")
	require.Contains(t, log, "no space left in "+w.state)
	w.free()
	s = w.start()
	require.NoError(t, w.approve(request))
	require.Equal(t, op.StateSucceeded, w.endOf(request).State)
	s.stop()
	w.sound()
	return 1
}

// fullAtBackup: the copy is made on the state's disk, and takes as much room as
// there is of the database.
func fullAtBackup(t *testing.T) int {
	w, s, request := startedOnDisk(t)
	const pages = 8
	for room := range int64(pages) {
		w.fill(room * 4096)
		var b bytes.Buffer
		must.Fail(w.client.Backup(t.Context(), &b))(t, refusal.Unavailable)
		require.Zero(t, b.Len())
		left := must.Get(filepath.Glob(filepath.Join(w.state, ".backup-*")))(t)
		require.Empty(t, left, "what was begun is taken away")
		w.free()
	}
	require.NoError(t, w.approve(request))
	require.Equal(t, op.StateSucceeded, w.endOf(request).State)
	var b bytes.Buffer
	must.Get(w.client.Backup(t.Context(), &b))(t)
	require.NotZero(t, b.Len())
	s.stop()
	w.sound()
	return pages
}

func fullAtMigration(t *testing.T) int {
	w := newDiskWorld(t)
	w.place(firstStored)
	runs := 0
	for room := int64(0); ; room += 8 { // pages, until there is enough
		w.fill(room * 4096)
		s := w.program()
		if w.readyOrNot() {
			w.free()
			code, log := s.stop()
			require.Zero(t, code, log)
			break
		}
		code, log := s.exit()
		require.NotZero(t, code)
		require.Regexp(t, saysFull, log)
		runs++
		w.free()
		// It is as before, or further by whole migrations: each is one transaction,
		// and the next start goes on from there.
		require.GreaterOrEqual(t, w.schema(w.database()), firstStored)
		require.LessOrEqual(t, w.schema(w.database()), len(life.Migrations()))
		read := must.Get(store.OpenReadOnly(t.Context(), w.database(), store.Options{Migrations: life.Migrations()}))(t)
		require.NoError(t, read.Check(t.Context()))
		require.NoError(t, read.Close())
	}
	require.Greater(t, runs, 1)
	s := w.start()
	w.states(map[string]op.State{storedRan: op.StateSucceeded, storedRejected: op.StateRejected})
	request := w.waiting("later")
	require.NoError(t, w.approve(request))
	require.Equal(t, op.StateSucceeded, w.endOf(request).State)
	s.stop()
	w.sound()
	return runs
}
