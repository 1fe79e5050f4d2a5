package life

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/config"
	"gated/internal/host/fsck"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// ArchiveName is the directory with segment files in a state directory, if the settings name no other.
const ArchiveName = "archive"

// ArchiveDir returns the directory with a gate's segment files.
func ArchiveDir(stateDir string, c config.Config) *archive.Dir {
	return archive.NewDir(cmp.Or(c.Retention.Archive, filepath.Join(stateDir, ArchiveName)))
}

// archiveOf is ArchiveDir by the settings of a state directory. If they cannot be read, it is the directory within it: a segment that
// is missed there is a refusal that names it.
func archiveOf(stateDir string) *archive.Dir {
	c, err := Settings(stateDir)
	if err != nil {
		c = config.Config{}
	}
	return ArchiveDir(stateDir, c)
}

// theirs refuses a directory that an operator named, if a segment file in it is not that of the database.
func theirs(dir *archive.Dir, segments []audit.Segment) error {
	for _, s := range segments {
		if err := dir.Compare(s); err != nil {
			return refusal.New(refusal.Conflict, "the backup cannot be checked with these segment files: %s", refusal.As(err).Detail).
				WithHint("that says nothing against the backup: put a copy of the file there, or leave --archive out to check what needs no segment file")
		}
	}
	return nil
}

// soundCopy refuses a database in which fsck finds anything. If it has segments, and dir, with their files, is nil, it checks what
// needs no segment file.
func soundCopy(tx *store.Tx, segments []audit.Segment, dir *archive.Dir) error {
	check := func() (FsckReport, error) { return checkAll(tx, dir, nil) }
	if len(segments) > 0 && dir == nil {
		check = func() (FsckReport, error) { return checkWithoutSegments(tx) }
	}
	report, err := check()
	if err != nil || report.Sound {
		return err
	}
	p := report.Problems[0]
	return refusal.New(refusal.Conflict, "the backup is not sound: %s: %s: %s", p.Rule, p.Where, p.Detail)
}

// everything is more than any database has of anything.
const everything = 1 << 40

// checkWithoutSegments checks what a database shows without its segment files: the log from the first entry that it has on, with the
// hashes of all earlier tiles, and the steps that these entries tell of.
func checkWithoutSegments(tx *store.Tx) (FsckReport, error) {
	_, err := audit.Verify(tx, nil)
	var broken *audit.BrokenError
	if errors.As(err, &broken) {
		return FsckReport{}, refusal.New(refusal.Conflict, "the backup is not sound: %v", broken)
	}
	if err != nil {
		return FsckReport{}, err
	}
	c, err := checker(context.Background(), nil)
	if err != nil {
		return FsckReport{}, err
	}
	return c.Quick(tx, fsck.Bounds{Entries: everything, Steps: everything})
}

// SegmentState is a segment as the database has it, and what is wrong with its file.
type SegmentState struct {
	Number  int64     `json:"number"`
	File    string    `json:"file"`
	First   int64     `json:"first"` // entries
	Last    int64     `json:"last"`
	Jobs    int       `json:"jobs"`
	Bytes   int64     `json:"bytes"` // of the file
	SHA256  string    `json:"sha256"`
	At      time.Time `json:"at"`
	Problem string    `json:"problem,omitempty"`
}

// ArchiveReport is what is archived.
type ArchiveReport struct {
	Dir      string         `json:"dir"`
	Bound    int64          `json:"bound"` // entries up to this one are in segment files alone
	Segments []SegmentState `json:"segments"`
	Sound    bool           `json:"sound"` // no file has a problem, as far as was looked
}

// Archive lists the segments of a state directory, beside a running daemon. With whole, each file is read and checked; else only
// whether it is there with its length. dir is the directory of the files; empty means the gate's own.
func Archive(ctx context.Context, stateDir, dir string, whole bool) (r ArchiveReport, err error) {
	d := segmentsIn(stateDir, dir)
	r = ArchiveReport{Dir: d.Path(), Segments: []SegmentState{}, Sound: true}
	var all []audit.Segment
	err = viewing(ctx, stateDir, func(tx *store.Tx) error {
		bound, err := audit.Bound(tx)
		if err != nil {
			return err
		}
		r.Bound = bound.Seq
		all, err = audit.Segments(tx)
		return err
	})
	for _, s := range all {
		if err != nil || ctx.Err() != nil {
			break
		}
		state := SegmentState{s.Number, s.File(), s.First, s.Last, s.Jobs, s.Bytes, s.SHA256, s.At, ""}
		if wrong := lookAtSegment(d, s, whole); wrong != nil {
			state.Problem, r.Sound = refusal.As(wrong).Detail, false
		}
		r.Segments = append(r.Segments, state)
	}
	return r, errors.Join(err, ctx.Err())
}

// lookAtSegment returns what is wrong with a file.
func lookAtSegment(d *archive.Dir, s audit.Segment, whole bool) error {
	if whole {
		_, err := d.Read(s)
		return err
	}
	return d.Look(s)
}

// segmentsIn is a directory with segment files; empty means that of the state directory's gate.
func segmentsIn(stateDir, dir string) *archive.Dir {
	if dir != "" {
		return archive.NewDir(dir)
	}
	return archiveOf(stateDir)
}

// viewing reads the database of a state directory, beside a running daemon.
func viewing(ctx context.Context, stateDir string, do func(*store.Tx) error) error {
	o, err := look(ctx, stateDir)
	if err != nil {
		return err
	}
	return errors.Join(o.Store.View(ctx, do), o.Close())
}

// ArchivedJob is a job in a segment, with all its rows.
type ArchivedJob struct {
	Job     op.JobID                    `json:"job"`
	Segment int64                       `json:"segment"`
	File    string                      `json:"file"`
	Rows    map[string][]map[string]any `json:"rows"` // by table; bytes are in base64
}

// ShowJob reads an archived job from its segment, whose file is checked whole. A job that no segment has is UnknownTarget.
func ShowJob(ctx context.Context, stateDir, dir string, job op.JobID) (out ArchivedJob, err error) {
	s, err := segmentFor(ctx, stateDir, func(tx *store.Tx) (audit.Segment, error) {
		number, err := journal.SegmentOf(tx, job)
		if err == nil && number == 0 {
			err = refusal.New(refusal.UnknownTarget, "no segment has job %s", job).WithHint("gated jobs %s prints a job that is not archived", job)
		}
		if err != nil {
			return audit.Segment{}, err
		}
		return audit.ReadSegment(tx, number)
	})
	if err != nil {
		return out, err
	}
	read, err := segmentsIn(stateDir, dir).Read(s)
	if err != nil {
		return out, err
	}
	out = ArchivedJob{Job: job, Segment: s.Number, File: s.File(), Rows: map[string][]map[string]any{}}
	for _, d := range read.Of(job) {
		for _, row := range d.Rows {
			named := map[string]any{}
			for i, v := range row {
				named[d.Columns[i]] = v
			}
			out.Rows[d.Table] = append(out.Rows[d.Table], named)
		}
	}
	return out, nil
}

// ShowEntry reads the text of an archived entry from its segment, whose file is checked whole.
func ShowEntry(ctx context.Context, stateDir, dir string, seq int64) (text []byte, err error) {
	s, err := segmentFor(ctx, stateDir, func(tx *store.Tx) (audit.Segment, error) { return audit.SegmentWith(tx, seq) })
	if err != nil {
		return nil, err
	}
	texts, err := segmentsIn(stateDir, dir).Texts(s)
	if err != nil {
		return nil, err
	}
	return texts[seq-s.First], nil
}

func segmentFor(ctx context.Context, stateDir string, which func(*store.Tx) (audit.Segment, error)) (s audit.Segment, err error) {
	return s, viewing(ctx, stateDir, func(tx *store.Tx) error {
		s, err = which(tx)
		return err
	})
}
