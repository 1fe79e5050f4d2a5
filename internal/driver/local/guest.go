package local

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// guest is one look at a guest that exists and is sound.
type guest struct {
	name string
	dir  *dir
	spec
	data      entry
	snapshots []stored // sorted by name
	other     []stored // what this gate did not put there; a destroy would take it
	staged    []stored // trees that a step of this gate has begun with, or that have such a name
	ran       bool     // it has a run file
}

type stored struct {
	name string
	entry
}

func (g *guest) close() { g.dir.close() }

// openGuest looks at a guest's directory. If the name is free, it returns nil and no error. A
// directory that is no sound guest is an error. The error is Conflict if it cannot be read as a
// guest, and StaleTarget if its guest.json belongs to another directory.
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
	return refusal.New(refusal.Conflict, "guest/%s: what is under that name %s: %v", name, why, err).
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
		return refusal.New(refusal.StaleTarget, "guest/%s: its guest.json was written for another directory (%s)",
			g.name, g.incarnation()).
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
			return nil // deleted during the look
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

// readOther finds what others put by hand beside the gate's files. A destroy would take it, so
// it counts as storage that this gate did not make. A tree that has the name of a staged tree
// counts too, because its owner cannot be seen.
func (g *guest) readOther() error {
	err := g.dir.each(func(name string) error {
		switch name {
		case runFileName:
			g.ran = true
			return nil
		case guestFile, dataDir, snapshotsDir, logFile, logFile + oldLogExt:
			return nil
		}
		e, err := g.dir.stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case stagesFile(name) && e.isRegular():
		case stagesTree(name) && e.isDir():
			g.staged = append(g.staged, stored{name, e})
		default:
			g.other = append(g.other, stored{name, e})
		}
		return nil
	})
	for _, list := range [][]stored{g.other, g.staged} {
		sort.Slice(list, func(i, j int) bool { return list[i].name < list[j].name })
	}
	return err
}

// stagesFile and stagesTree report if the gate stages files or trees under such a name in a
// guest's directory. stagesFile is for small files, stagesTree for whole trees.
func stagesFile(name string) bool {
	return name == stagePrefix+guestFile || name == stagePrefix+runFileName
}

func stagesTree(name string) bool {
	snapshot, ok := strings.CutPrefix(name, stagedSnapshot)
	return name == stagePrefix+dataDir || ok && op.CheckName(snapshot) == nil
}

func (g *guest) snapshot(name string) (stored, bool) {
	for _, s := range g.snapshots {
		if s.name == name {
			return s, true
		}
	}
	return stored{}, false
}

// storage lists every object that a destroy would take, by identity.
func (g *guest) storage() []op.StorageID {
	ids := g.settled()
	for _, s := range g.staged {
		ids = append(ids, storageID("staged:"+s.name, s.entry))
	}
	return ids
}

// settled is storage without the objects that exist only while a step runs. The fingerprint
// covers it.
func (g *guest) settled() []op.StorageID {
	ids := []op.StorageID{storageID("data", g.data)}
	for _, s := range g.snapshots {
		ids = append(ids, storageID("snapshot:"+s.name, s.entry))
	}
	for _, s := range g.other {
		ids = append(ids, storageID("other:"+strconv.QuoteToASCII(s.name), s.entry))
	}
	return ids
}

func storageID(what string, e entry) op.StorageID {
	return op.StorageID(what + ":" + strconv.FormatUint(e.ino, 10) + ":" + strconv.FormatInt(e.birth, 10))
}

// write stores a changed spec.
func (g *guest) write(s spec) error {
	b, err := s.encode()
	if err != nil {
		return err
	}
	// It never writes a file that it could not read back.
	if _, err := parseSpec(b); err != nil {
		return err
	}
	if len(b) > maxSmallFile {
		return refusal.New(refusal.Oversized, "guest/%s: its %s would have %d bytes, more than %d", g.name, guestFile,
			len(b), maxSmallFile)
	}
	if err := g.dir.replace(guestFile, b); err != nil {
		return err
	}
	g.spec = s
	return nil
}

// asSeen refuses a guest whose fields are not those of the look. A hand may have written them since, and a write of all fields would
// take that back. The step runs again, on another look.
func (g *guest) asSeen() error {
	b, err := g.dir.read(guestFile)
	if err != nil {
		return err
	}
	now, err := parseSpec(b)
	if err == nil && !now.params().Equal(g.params()) {
		err = driver.Transient(refusal.New(refusal.StaleTarget, "guest/%s was changed meanwhile", g.name))
	}
	return err
}

// stillIs refuses a guest that is not what the look saw. A step calls it right before it takes something, because a hand may have
// protected the guest or given it other things while the guest stopped.
func (d *Driver) stillIs(g *guest) error {
	now, err := d.openGuest(g.name)
	if now != nil {
		defer now.close()
	}
	if err == nil && (now == nil || fingerprint(now) != fingerprint(g)) {
		err = refusal.New(refusal.StaleTarget, "guest/%s was changed meanwhile", g.name)
	}
	return err
}

// path is the guest's place as the mount table has it.
func (d *Driver) path(name string) string { return filepath.Join(d.root.path(), name) }

const (
	guestFile    = "guest.json"
	dataDir      = "data"
	snapshotsDir = "snapshots"
)

// spec is the content of guest.json. Zero memory or cpus means no limit.
type spec struct {
	UUID      string // the Birth token of the step that made the guest
	Inode     uint64 // of the guest's directory; so is Birth
	Birth     int64  // ns since 1970
	Memory    int64  // MiB
	CPUs      int64
	Command   string
	Labels    map[string]string
	Protected bool
	CreatedAt time.Time
}

// specFile is spec on disk. Its pointers tell a missing member, which is refused, from a zero
// one. A file without "protected" must not read as unprotected.
type specFile struct {
	UUID      *string            `json:"uuid"`
	Inode     *uint64            `json:"inode"`
	Birth     *int64             `json:"birth_ns"`
	Memory    *int64             `json:"memory_mib"`
	CPUs      *int64             `json:"cpus"`
	Command   *string            `json:"command"`
	Labels    *map[string]string `json:"labels"`
	Protected *bool              `json:"protected"`
	CreatedAt *time.Time         `json:"created_at"`
}

// incarnation is the incarnation that the file claims. look compares it with the directory.
func (s spec) incarnation() op.Incarnation {
	return op.Incarnation(fmt.Sprintf("%s:%d:%d", s.UUID, s.Inode, s.Birth))
}

func (s spec) encode() ([]byte, error) {
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	b, err := json.Marshal(specFile{&s.UUID, &s.Inode, &s.Birth, &s.Memory, &s.CPUs, &s.Command, &s.Labels,
		&s.Protected, &s.CreatedAt}, json.Deterministic(true))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", guestFile, err)
	}
	return append(b, '\n'), nil
}

// parseSpec reads guest.json strictly. Each member must be there once, in its range and not
// null. No other member may be there.
func parseSpec(b []byte) (spec, error) {
	var f specFile
	if err := json.Unmarshal(b, &f, json.RejectUnknownMembers(true)); err != nil {
		return spec{}, fmt.Errorf("%s: %w", guestFile, err)
	}
	if f.UUID == nil || f.Inode == nil || f.Birth == nil || f.Memory == nil || f.CPUs == nil || f.Command == nil ||
		f.Labels == nil || *f.Labels == nil || f.Protected == nil || f.CreatedAt == nil {
		return spec{}, fmt.Errorf("%s lacks a member", guestFile)
	}
	s := spec{*f.UUID, *f.Inode, *f.Birth, *f.Memory, *f.CPUs, *f.Command, *f.Labels, *f.Protected, *f.CreatedAt}
	if err := checkBirth(s.UUID); err != nil {
		return spec{}, fmt.Errorf("%s: %w", guestFile, err)
	}
	if s.Memory < 0 || s.CPUs < 0 || s.Command != "" && op.CheckName(s.Command) != nil {
		return spec{}, fmt.Errorf("%s has a value out of range", guestFile)
	}
	for k, v := range s.Labels {
		if op.CheckName(k) != nil || op.CheckText("a label", v) != nil {
			return spec{}, fmt.Errorf("%s has a label that is not text", guestFile)
		}
	}
	return s, nil
}

// maxBirth is the longest Birth token, so that the names made from it stay below 255 bytes.
const maxBirth = 64

func checkBirth(token string) error {
	if op.CheckName(token) != nil || len(token) > maxBirth {
		return fmt.Errorf("%q is not a birth token", token)
	}
	return nil
}

// statGuestFile looks at <root>/<name>/guest.json in one call. It only finds out if a file
// changed. Before a decision, the driver opens the file component by component.
func (d *Driver) statGuestFile(name string) (entry, error) {
	if err := op.CheckName(name); err != nil {
		return entry{}, fs.ErrNotExist
	}
	return statAt(d.root, name+"/"+guestFile, unix.AT_SYMLINK_NOFOLLOW)
}
