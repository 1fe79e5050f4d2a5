package matrix_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/host/fsck"
	"gated/internal/host/life"
	"gated/internal/host/retention"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

// archivingHeld is what archiving ends as if it does not go on, and says why.
const archivingHeld refusal.Code = "held"

// archiving has a gate that archives what is a day old, with a job of which all rows are in a segment alone.
func (w *world) archiving() (gone op.JobID) {
	w.t.Helper()
	w.keyed()
	r := w.requestBy(other, ask("guest.destroy", "bystander"))
	w.cancel(other, r.ID.Job)
	w.fillTile()
	w.pastDay()
	w.archiveAll()
	must.Fail(w.gate.Job(w.ctx, r.ID.Job))(w.t, refusal.UnknownTarget)
	return r.ID.Job
}

// segmentFiles is the directory of the segment files, without what was read before.
func (w *world) segmentFiles() *archive.Dir {
	w.segments = filepath.Join(w.dir, life.ArchiveName)
	return archive.NewDir(w.segments)
}

// fillTile writes a tile of entries, and so many that the keeper leaves.
func (w *world) fillTile() {
	w.t.Helper()
	require.NoError(w.t, w.store.Update(w.ctx, func(tx *store.Tx) error {
		return w.gate.Append(tx, make300()...)
	}))
}

func make300() (out []audit.Entry) {
	for range 300 {
		out = append(out, audit.Entry{Kind: audit.Stopped, By: "gate"})
	}
	return out
}

// pastDay lets a day and an hour go by, as a gate that runs does.
func (w *world) pastDay() {
	w.t.Helper()
	for range 26 {
		w.pass(time.Hour)
		w.ticks()
	}
}

// keeper archives for the gate that is open now.
func (w *world) keeper(in *archive.Dir) *retention.Keeper {
	w.t.Helper()
	return must.Get(retention.New(retention.Config{Store: w.store, Dir: in, After: 24 * time.Hour, Keep: 16, Gate: w.gate.ID(),
		Schema: len(gate.Migrations()), Append: w.gate.Append, Moment: w.gate.Moment, Up: func() time.Duration { return w.read().Elapsed },
		Admit: func(int64) error {
			if begins := w.begins; begins != nil {
				w.begins = nil
				begins()
			}
			return nil
		}, Rest: func(context.Context, time.Duration) {}}))(w.t)
}

// archiveAll archives what may go.
func (w *world) archiveAll() {
	w.t.Helper()
	k, did, err := w.keeper(w.segmentFiles()), true, error(nil)
	for n := 0; did; n++ {
		require.Less(w.t, n, 1000)
		did, err = k.Step(w.ctx)
		require.NoError(w.t, err)
	}
	require.Empty(w.t, k.State().Held)
	require.Positive(w.t, k.State().Jobs, k.State())
}

// recorded returns the segments that the database names.
func (w *world) recorded() (all []audit.Segment) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) (err error) { all, err = audit.Segments(tx); return err }))
	require.NotEmpty(w.t, all)
	return all
}

// readsArchive reads and checks each file.
func (w *world) readsArchive() (err error) {
	w.t.Helper()
	for _, s := range w.recorded() {
		err = errors.Join(err, failure(w.segmentFiles().Read(s)))
	}
	return err
}

// badFile is a row in which the file of a segment is not what the gate wrote. Whoever needs it is refused and told its name. The
// database alone stays whole, and once the file is back, all is well again.
func badFile(id, what string, want refusal.Code, damage func(w *world, path string, text []byte)) attack {
	return attack{id: id, what: "a segment file " + what, want: want, run: func(w *world) error {
		gone := w.archiving()
		w.armUnlogged("it is the reader of the files that refuses")
		path := filepath.Join(w.segmentFiles().Path(), w.recorded()[0].File())
		text := must.Get(os.ReadFile(path))(w.t)
		damage(w, path, bytes.Clone(text))
		err := w.notTheirs(want, w.recorded()[0])
		must.Fail(w.gate.Job(w.ctx, gone))(w.t, refusal.UnknownTarget)
		require.NoError(w.t, os.RemoveAll(path))
		require.NoError(w.t, os.WriteFile(path, text, 0o600))
		require.NoError(w.t, w.readsArchive())
		return err
	}}
}

// notTheirs asserts that each reader of a segment refuses, and names the file.
func (w *world) notTheirs(want refusal.Code, of audit.Segment) error {
	w.t.Helper()
	name := of.File()
	err := w.readsArchive()
	require.ErrorIs(w.t, err, want)
	require.ErrorContains(w.t, err, name)
	r := w.fsck()
	require.False(w.t, r.Sound)
	require.Contains(w.t, r.Problems[0].Detail, name)
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) error {
		_, err := audit.Checker{Older: w.segmentFiles()}.Verify(tx)
		require.ErrorIs(w.t, err, want)
		require.ErrorContains(w.t, err, name)
		_, _, err = audit.Proofs{Older: w.segmentFiles()}.Inclusion(tx, of.First+2, of.Last)
		require.ErrorIs(w.t, err, want)
		_, err = audit.Verify(tx, nil)
		return err
	}), "what the database has is whole")
	return err
}

// repacked writes the tar in a segment file anew, with a change to its bytes.
func repacked(w *world, path string, text []byte, change func(content []byte)) {
	w.t.Helper()
	content := must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(text)))(w.t)))(w.t)
	change(content)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	must.Get(z.Write(content))(w.t)
	require.NoError(w.t, z.Close())
	require.NoError(w.t, os.WriteFile(path, b.Bytes(), 0o600))
}

// partsOf returns where the files in a segment's tar begin and end.
func partsOf(w *world, text []byte) (names []string, at [][2]int64) {
	w.t.Helper()
	content := must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(text)))(w.t)))(w.t)
	in := bytes.NewReader(content)
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names, at
		}
		require.NoError(w.t, err)
		from := int64(len(content) - in.Len())
		names, at = append(names, h.Name), append(at, [2]int64{from, from + h.Size})
	}
}

var archiveFileRows = []attack{
	badFile("E01a", "is deleted", refusal.Unavailable, func(w *world, path string, _ []byte) { require.NoError(w.t, os.Remove(path)) }),
	badFile("E01b", "is cut by a byte", refusal.Conflict, func(w *world, path string, text []byte) {
		require.NoError(w.t, os.WriteFile(path, text[:len(text)-1], 0o600))
	}),
	badFile("E01c", "is empty", refusal.Conflict, func(w *world, path string, _ []byte) { require.NoError(w.t, os.Truncate(path, 0)) }),
	badFile("E01d", "has a byte more", refusal.Conflict, func(w *world, path string, text []byte) {
		require.NoError(w.t, os.WriteFile(path, append(text, 0), 0o600))
	}),
	badFile("E01e", "is changed in each of its parts by turns, and compressed anew", refusal.Conflict, func(w *world, path string, text []byte) {
		names, at := partsOf(w, text)
		require.Subset(w.t, names, []string{"manifest.json", "tile/entries/000", "tile/0/000", "rows/jobs", "rows/outputs"})
		for i, p := range at {
			for _, n := range []int64{p[0], (p[0] + p[1]) / 2, p[1] - 1} {
				repacked(w, path, text, func(content []byte) { content[n] ^= 1 })
				require.ErrorIs(w.t, w.readsArchive(), refusal.Conflict, names[i])
				s, err := archive.ParseSegment(must.Get(os.ReadFile(path))(w.t))
				require.Error(w.t, err, "%s: also without the digest of the file: %v", names[i], s)
			}
		}
	}),
	badFile("E01f", "is a directory", refusal.Unavailable, func(w *world, path string, _ []byte) {
		require.NoError(w.t, os.Remove(path))
		require.NoError(w.t, os.Mkdir(path, 0o700))
	}),
	badFile("E01g", "is a link to nowhere", refusal.Unavailable, func(w *world, path string, _ []byte) {
		require.NoError(w.t, os.Remove(path))
		require.NoError(w.t, os.Symlink(path+".moved", path))
	}),
	{id: "E01h", what: "a segment file is made anew with other rows, and the database's row is made to fit it", want: reported, run: func(w *world) error {
		gone := w.archiving()
		w.armUnlogged("it is fsck that says so")
		row := w.recorded()[0]
		s := must.Get(w.segmentFiles().Read(row))(w.t)
		forgeTarget(w, s, gone)
		forged, _, err := w.segmentFiles().Write(s)
		require.NoError(w.t, err)
		rename := func(to audit.Segment) {
			require.NoError(w.t, w.store.Update(w.ctx, func(tx *store.Tx) error {
				return failure(tx.Exec(`UPDATE segments SET sha256 = ?, bytes = ? WHERE number = ?`, to.SHA256, to.Bytes, to.Number))
			}))
		}
		rename(forged)
		require.NoError(w.t, w.readsArchive(), "each file is what the database says")
		return w.foundByFsck(func() { rename(row) })
	}},
	badFile("E02a", "is that of another gate", refusal.Conflict, func(w *world, path string, _ []byte) {
		strange := newWorld(w.t)
		strange.archiving()
		text := must.Get(os.ReadFile(filepath.Join(strange.segmentFiles().Path(), strange.recorded()[0].File())))(w.t)
		require.NoError(w.t, os.WriteFile(path, text, 0o600))
	}),
	{id: "E02b", what: "the files of two segments are exchanged", want: refusal.Conflict, run: func(w *world) error {
		w.archiving()
		w.fillTile()
		w.pastDay()
		w.archiveAll()
		all := w.recorded()
		require.Len(w.t, all, 2)
		w.armUnlogged("it is the reader of the files that refuses")
		one, two := filepath.Join(w.segments, all[0].File()), filepath.Join(w.segments, all[1].File())
		exchange := func() {
			require.NoError(w.t, os.Rename(one, one+".moved"))
			require.NoError(w.t, os.Rename(two, one))
			require.NoError(w.t, os.Rename(one+".moved", two))
		}
		exchange()
		err := w.notTheirs(refusal.Conflict, all[0])
		exchange()
		return err
	}},
	badFile("E02c", "is in the directory of another gate, which is in this one's place", refusal.Unavailable, func(w *world, path string, _ []byte) {
		strange := newWorld(w.t)
		strange.archiving()
		text := must.Get(os.ReadFile(filepath.Join(strange.segments, strange.recorded()[0].File())))(w.t)
		require.NoError(w.t, os.Remove(path))
		require.NoError(w.t, os.WriteFile(filepath.Join(w.segments, strange.recorded()[0].File()), text, 0o600))
	}),
	{id: "E03", what: "the disk goes back to a day before a segment was written, and the file of that time takes the place of the one that is written now", want: refusal.Conflict,
		run: func(w *world) error {
			w.archiving()
			w.destroyRequest()
			r := w.requestBy(other, ask("guest.destroy", "bystander"))
			w.cancel(other, r.ID.Job)
			w.fillTile()
			goBack := w.copyOfState()
			w.pastDay()
			w.archiveAll()
			was := w.recorded()[1]
			goBack()
			w.fillTile() // more is in the second segment now
			w.pastDay()
			w.archiveAll()
			now := w.recorded()[1]
			require.NotEqual(w.t, was.File(), now.File())
			require.NoError(w.t, w.segmentFiles().Look(was), "no segment replaces another")
			w.armUnlogged("it is the reader of the files that refuses")
			path := filepath.Join(w.segments, now.File())
			text := must.Get(os.ReadFile(path))(w.t)
			require.NoError(w.t, os.WriteFile(path, must.Get(os.ReadFile(filepath.Join(w.segments, was.File())))(w.t), 0o600))
			err := w.notTheirs(refusal.Conflict, now)
			require.NoError(w.t, os.WriteFile(path, text, 0o600))
			return err
		}},
}

// forgeTarget has a job of a segment be about another guest.
func forgeTarget(w *world, s *archive.Segment, job op.JobID) {
	w.t.Helper()
	for _, d := range s.Rows {
		if d.Table != "steps" {
			continue
		}
		of, name := slices.Index(d.Columns, "job"), slices.Index(d.Columns, "name")
		for _, row := range d.Rows {
			if row[of] == int64(job) {
				row[name] = "victim"
			}
		}
	}
	require.False(w.t, archive.Same(s.Rows, must.Get(w.segmentFiles().Read(w.recorded()[0]))(w.t).Rows), "nothing was forged")
}

// foundByFsck is what fsck says, before the change is taken back.
func (w *world) foundByFsck(takeBack func()) error {
	w.t.Helper()
	r := w.fsck()
	takeBack()
	if r.Sound {
		return nil
	}
	return refusal.New(reported, "%s", r.Problems[0].Detail)
}

// checker looks at a database with its segment files, where there are any.
func (w *world) checker() fsck.Checker {
	c := fsck.Checker{Migrations: life.Migrations()}
	if w.segments != "" {
		c.Archive = archive.NewDir(w.segments)
	}
	return c
}

// inSegment says which segment has a job.
func (w *world) inSegment(job op.JobID) (n int64) {
	w.t.Helper()
	require.NoError(w.t, w.store.View(w.ctx, func(tx *store.Tx) (err error) { n, err = journal.SegmentOf(tx, job); return err }))
	return n
}
