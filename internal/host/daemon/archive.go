package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"gated/client/api"
	"gated/internal/base/headroom"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/retention"
	"gated/internal/host/state"
	"gated/internal/nonce"
)

// keptEntries is how many of the newest entries stay in the database, however old they are. fsck --quick and the canary look
// back so far.
const keptEntries = 10_000

// openArchive makes what archives records that ended, if the settings ask for it. A gate with a ledger has none.
func (d *daemon) openArchive() (err error) {
	after := d.config.Retention.After
	if after == 0 || d.member != nil {
		return nil
	}
	guests := cmp.Or(d.config.Local.Root, filepath.Join(d.opened.Dir.Path(), state.GuestsName))
	if err := errors.Join(d.segments.Outside(guests), d.segments.Lasting(d.opened.Dir.Database())); err != nil {
		return err
	}
	started := nonce.SinceBoot()
	d.archives, err = retention.New(retention.Config{Store: d.opened.Store, Dir: d.segments, Named: d.config.Retention.Archive != "", After: after, Keep: keptEntries,
		Gate: d.gate.ID(), Schema: len(life.Migrations()), Append: d.gate.Append, Moment: d.gate.Moment,
		Up:    func() time.Duration { return nonce.SinceBoot() - started },
		Admit: d.roomForSegment, Rest: rest, Logger: d.log})
	return err
}

// roomForSegment refuses so many bytes, as Unavailable, if they would leave too little room for the database or for the segment
// files, which may be on another disk. It books nothing, because unsigned work would be refused for what archiving only may write.
func (d *daemon) roomForSegment(bytes int64) error {
	if err := leaves(d.opened.Room, bytes, d.opened.Dir.Path()); err != nil {
		return err
	}
	room, err := headroom.Open(d.segments.Path(), filepath.Join(d.segments.Path(), state.ReserveName), headroom.Options{})
	if err == nil {
		err = room.Configure(headroom.Options{Keep: -1})
	}
	if err != nil {
		return err
	}
	return leaves(room, bytes, d.segments.Path())
}

// leaves refuses so many bytes if they would leave less free than a room keeps, which is that of dir.
func leaves(room *headroom.Room, bytes int64, dir string) error {
	s, err := room.State()
	if err == nil && s.Free-bytes < s.Keep {
		err = refusal.New(refusal.Unavailable, "the disk of %s has %d MiB of free space; the next segment needs up to %d, and archiving leaves %d free",
			dir, s.Free>>20, bytes>>20+1, s.Keep>>20).WithHint("free some space on that disk")
	}
	return err
}

// openFiles makes what looks whether the segment files are there, also if nothing is archived any more.
func (d *daemon) openFiles() {
	if d.member == nil {
		d.files = retention.NewFiles(retention.FilesConfig{Store: d.opened.Store, Dir: d.segments, Elapsed: nonce.SinceBoot, Rest: rest, Logger: d.log})
	}
}

func (d *daemon) archiveParts() (out []part) {
	if d.archives != nil {
		out = append(out, part{"the archive", func(ctx context.Context) error {
			err := d.archives.Run(ctx)
			d.segments.Drop()
			return err
		}})
	}
	if d.files != nil {
		out = append(out, part{"the segment files", d.files.Run})
	}
	return out
}

// archiveHealth says how far archiving is, why it does not go on, and whether the files are there.
func (d *daemon) archiveHealth() []api.Health {
	var files retention.FilesState
	if d.files != nil {
		files = d.files.State()
	}
	if d.archives == nil {
		if files.Segments == 0 && files.Bad == 0 {
			return nil
		}
		return []api.Health{filesHealth(files, "archiving is off")}
	}
	s := d.archives.State()
	if s.Held != "" {
		h := filesHealth(files, "held: "+s.Held)
		h.OK = false
		return []api.Health{h}
	}
	detail := fmt.Sprintf("%d segments, with entries up to %d and %d jobs", s.Segments, s.Entries, s.Jobs)
	if s.Waits != "" {
		detail += "; " + s.Waits
	}
	if s.Left > 0 {
		detail += fmt.Sprintf("; %d jobs of archived entries stay, such as %s", s.Left, s.Why)
	}
	if s.Large != "" {
		detail += "; it stays for ever: " + s.Large
	}
	if s.Odd != "" {
		detail = s.Odd + "; " + detail
	}
	h := filesHealth(files, detail)
	h.OK = h.OK && s.Odd == ""
	return []api.Health{h}
}

// filesHealth puts what is wrong with the segment files before what is said of archiving, and else behind it that they are there.
func filesHealth(f retention.FilesState, says string) api.Health {
	switch {
	case f.Bad > 0:
		return api.Health{Name: "archive", Detail: f.Why + "; put the files back, or copies; " + says}
	case !f.Looked:
		says += "; the segment files were not looked at yet"
	case f.Segments > 0:
		says += fmt.Sprintf("; of %d segment files all are there, and %d were read since the start", f.Segments, f.Read)
	}
	return api.Health{Name: "archive", OK: true, Detail: says}
}
