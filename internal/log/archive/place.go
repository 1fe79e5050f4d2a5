package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/log/audit"
)

// MarkName is the file by which a gate knows its directory again. It has an id that the database has, too.
const MarkName = "segments.id"

// Claim checks that the directory is the one that has this id, and that nobody but root and the gate can change it. Before the first
// segment it makes the directory and the mark. A directory whose mark is not there, or empty, is believed if it has the newest
// segment's file, as a copy of the files has, and gets the mark again. Anything else is an empty place where a disk should be mounted,
// or another gate's.
func (d *Dir) Claim(id string, last audit.Segment) error {
	if last.Number == 0 {
		if err := d.make(); err != nil {
			return err
		}
	}
	if err := d.own(); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(d.path, MarkName))
	switch {
	case err == nil && string(text) == id+"\n":
		return nil
	case err == nil && len(text) > 0:
		return refusal.New(refusal.Conflict, "%s is not the directory with this gate's segment files: %s in it is of another one", d.where(), MarkName).
			WithHint("name the right directory as retention.archive, or mount the file system with it; if this gate was restored and no other gate uses the directory, make %s there an empty file",
				MarkName)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return refusal.New(refusal.Unavailable, "%s in the directory with the segment files cannot be read: %v", MarkName, err)
	}
	if last.Number > 0 && d.Look(last) != nil {
		return refusal.New(refusal.Unavailable, "%s is not the directory with this gate's segment files: it has neither %s nor %s", d.where(), MarkName, last.File()).
			WithHint("mount the file system with it, or put a copy of the files there")
	}
	crashpoint.Here(crashpoint.ArchiveNamed)
	err = ownfile.ReplaceAs(filepath.Join(d.path, MarkName), []byte(id+"\n"), func(*os.File) error { return nil })
	crashpoint.Here(crashpoint.ArchiveMarked)
	return err
}

// Marked refuses, as Unavailable, a directory without a mark, for a restored gate that knows of no segment. Its backup may be from
// before the first one, and then an empty place is one where a disk should be mounted. An empty mark says that an operator looked.
func (d *Dir) Marked() error {
	_, err := os.Lstat(filepath.Join(d.path, MarkName))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return refusal.New(refusal.Unavailable, "this gate was restored or got a new time, and may have had segment files before, but %s has no %s", d.where(), MarkName).
		WithHint("mount the file system with the files; if there are none, make an empty file %s there", MarkName)
}

// own refuses a directory that is not there, is a link, or that others than root and the gate's uid can change.
func (d *Dir) own() error {
	info, err := os.Lstat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refusal.New(refusal.Unavailable, "the directory %s with the segment files is not there", op.Shown(d.path)).
			WithHint("mount the file system with it, or put a copy of the files there")
	case err != nil:
		return refusal.New(refusal.Unavailable, "the directory with the segment files cannot be looked at: %v", err)
	case !info.IsDir():
		return refusal.New(refusal.NotAllowed, "%s is to have the segment files, and is no directory", op.Shown(d.path))
	}
	return ownfile.Own().Check(d.path)
}

// where is the directory with its device, for people who look for a disk.
func (d *Dir) where() string {
	var st unix.Stat_t
	if unix.Stat(d.path, &st) != nil {
		return op.Shown(d.path)
	}
	return fmt.Sprintf("%s (on device %d:%d)", op.Shown(d.path), unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)))
}

// Outside refuses, as NotAllowed, a directory that is the one with guests or below it: guests write there.
func (d *Dir) Outside(guests string) error {
	way, err := filepath.Rel(guests, d.path)
	if err != nil || way == ".." || strings.HasPrefix(way, "../") {
		return nil
	}
	return refusal.New(refusal.NotAllowed, "the directory %s for segment files is below %s, in which guests are", op.Shown(d.path), op.Shown(guests)).
		WithHint("name another directory as retention.archive")
}

// inMemory are the magic numbers of file systems that a boot empties (linux/magic.h: TMPFS_MAGIC, RAMFS_MAGIC).
var inMemory = map[int64]string{0x01021994: "tmpfs", 0x858458f6: "ramfs"}

// Lasting refuses, as NotAllowed, a directory in memory while the database is on a disk: the next boot would lose what left the
// database. If the directory is not there, the one is asked in which it would be made.
func (d *Dir) Lasting(database string) error {
	kind := memoryOf(d.path)
	if _, err := os.Stat(d.path); errors.Is(err, fs.ErrNotExist) {
		kind = memoryOf(filepath.Dir(d.path))
	}
	if kind == "" || memoryOf(database) != "" {
		return nil
	}
	return refusal.New(refusal.NotAllowed, "the directory %s for segment files is on a %s, which the next boot empties", op.Shown(d.path), kind).
		WithHint("name a directory on a disk as retention.archive")
}

// memoryOf returns which file system in memory a path is on, "" if it is on another one or cannot be looked at.
func memoryOf(path string) string {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return ""
	}
	return inMemory[int64(st.Type)]
}
