package local

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"gated/internal/op"

	"golang.org/x/sys/unix"
)

// guest is one look at a guest that exists and is what it says it is.
type guest struct {
	name string
	dir  *dir
	spec
	data      entry
	snapshots []stored // sorted by name
	other     []stored // what nobody of ours put there; a destroy would take it
}

type stored struct {
	name string
	entry
}

func (g *guest) close() { g.dir.close() }

// openGuest looks at a guest's directory; nil without an error means that the
// name is free. What is there but is no sound guest is an error: Conflict if it
// cannot be read as one, StaleTarget if its guest.json belongs to another
// directory.
func (d *Driver) openGuest(name string) (*guest, error) {
	if err := op.CheckName(name); err != nil {
		return nil, err
	}
	sub, err := d.root.sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, notAGuest(name, err)
	}
	g := &guest{name: name, dir: sub}
	if err := g.read(); err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func notAGuest(name string, err error) error {
	why := "cannot be read"
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		why = "is not a directory"
	case errors.Is(err, unix.EXDEV):
		why = "is a mount point"
	case errors.Is(err, fs.ErrNotExist):
		why = "lacks a part"
	case errors.Is(err, fs.ErrPermission):
		why = "may not be read by the daemon"
	}
	return op.Refuse(op.Conflict, "guest/%s: what is under that name %s: %v", name, why, err).
		WithHint("look at it on the host; nothing is done to it meanwhile")
}

func (g *guest) read() error {
	b, err := g.dir.read(guestFile)
	if err == nil {
		g.spec, err = parseSpec(b)
	}
	if err != nil {
		return notAGuest(g.name, err)
	}
	self, err := g.dir.self()
	if err != nil {
		return err
	}
	if self.ino != g.Inode || self.birth != g.Birth {
		return op.Refuse(op.StaleTarget, "guest/%s: its guest.json was written for another directory (%s)", g.name, g.incarnation()).
			WithHint("it was copied or restored by hand; look at it on the host")
	}
	if g.data, err = g.dir.stat(dataDir); err == nil && !g.data.isDir() {
		err = fmt.Errorf("%s is not a directory", dataDir)
	}
	if err == nil {
		err = g.readSnapshots()
	}
	if err == nil {
		err = g.readOther()
	}
	if err != nil {
		return notAGuest(g.name, err)
	}
	return nil
}

func (g *guest) readSnapshots() error {
	sub, err := g.dir.sub(snapshotsDir)
	if err != nil {
		return err
	}
	defer sub.close()
	err = sub.each(func(name string) error {
		e, err := sub.stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // deleted while we look
		case err != nil:
			return err
		case op.CheckName(name) == nil && e.isDir():
			g.snapshots = append(g.snapshots, stored{name, e})
		default:
			g.other = append(g.other, stored{snapshotsDir + "/" + name, e})
		}
		return nil
	})
	sort.Slice(g.snapshots, func(i, j int) bool { return g.snapshots[i].name < g.snapshots[j].name })
	return err
}

// readOther finds what was put beside our own files by hand: a destroy would
// take it, so it counts as storage that this gate did not make.
func (g *guest) readOther() error {
	err := g.dir.each(func(name string) error {
		switch name {
		case guestFile, dataDir, snapshotsDir, runFileName, logFile, logFile + oldLogExt:
			return nil
		}
		if strings.HasPrefix(name, stagePrefix) {
			return nil
		}
		e, err := g.dir.stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		g.other = append(g.other, stored{name, e})
		return nil
	})
	sort.Slice(g.other, func(i, j int) bool { return g.other[i].name < g.other[j].name })
	return err
}

func (g *guest) snapshot(name string) (stored, bool) {
	for _, s := range g.snapshots {
		if s.name == name {
			return s, true
		}
	}
	return stored{}, false
}

// storage names every object that a destroy would take, by identity.
func (g *guest) storage() []op.StorageID {
	id := func(what string, e entry) op.StorageID {
		return op.StorageID(what + ":" + strconv.FormatUint(e.ino, 10) + ":" + strconv.FormatInt(e.birth, 10))
	}
	ids := []op.StorageID{id("data", g.data)}
	for _, s := range g.snapshots {
		ids = append(ids, id("snapshot:"+s.name, s.entry))
	}
	for _, s := range g.other {
		ids = append(ids, id("other:"+strconv.QuoteToASCII(s.name), s.entry))
	}
	return ids
}

// write stores a changed spec.
func (g *guest) write(s spec) error {
	b, err := s.encode()
	if err != nil {
		return err
	}
	// Never write what could not be read back.
	if _, err := parseSpec(b); err != nil {
		return err
	}
	if len(b) > maxSmallFile {
		return op.Refuse(op.Oversized, "guest/%s: its %s would have %d bytes, more than %d", g.name, guestFile, len(b), maxSmallFile)
	}
	if err := g.dir.replace(guestFile, b); err != nil {
		return err
	}
	g.spec = s
	return nil
}

// path is the guest's place in the mount table's terms.
func (d *Driver) path(name string) string { return filepath.Join(d.root.path(), name) }
