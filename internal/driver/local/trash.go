package local

import (
	"context"
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

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// The trash holds destroyed guests, and the data trees and snapshots that wipe, restore and
// snapshot-delete replaced. The gate can only bring back a guest. A part is there for its owner
// to copy from by hand.
const (
	trashDir    = ".trash"
	purgePrefix = ".purge-" // in the trash: being deleted
	recordExt   = ".json"
)

// trashed is the record of one thing in the trash.
type trashed struct {
	Name        string         `json:"name"` // the guest's
	Incarnation op.Incarnation `json:"incarnation"`
	What        string         `json:"what"` // "guest", "data", "snapshot <name>"
	DestroyedAt time.Time      `json:"destroyed_at"`
	Until       time.Time      `json:"until"` // the trash keeps it at least until then
}

const wholeGuest = "guest"

// trashName is the name of a destroyed guest in the trash. It starts with the guest's name, so
// that a guest's entries are found without reading every record; ~ is in no name.
func trashName(name string, inc op.Incarnation) string {
	return name + "~" + strings.ReplaceAll(string(inc), ":", "~")
}

// partName is the name of a part of a guest in the trash.
func partName(uuid string, e entry) string {
	return uuid + "~part~" + strconv.FormatUint(e.ino, 10) + "~" + strconv.FormatInt(e.birth, 10)
}

// put moves an entry into the trash. The rename is the commit point. Before it, the only change
// is a record that New removes. After it, the entry is in the trash with its record. If only
// the last step fails, committed is true.
//
// A rename goes by name, so put looks again at what it moved. If it is another entry than
// meant, another program exchanged the two meanwhile, and put moves it back.
func (d *Driver) put(from *dir, fromName string, meant entry, trashName string, rec trashed) (committed bool, err error) {
	if err := d.writeRecord(trashName, rec); err != nil {
		return false, err
	}
	crashpoint.Here(crashpoint.TrashRecorded)
	if err := from.rename(fromName, d.trash, trashName, unix.RENAME_NOREPLACE); err != nil {
		return false, errors.Join(err, d.trash.unlink(trashName+recordExt, 0))
	}
	if moved, err := d.trash.stat(trashName); err != nil || !moved.same(meant) {
		err = errors.Join(refusal.New(refusal.StaleTarget, "guest/%s was exchanged meanwhile", rec.Name), err)
		// Without a record Sweep never deletes it, if it must stay there.
		unrecord := d.trash.unlink(trashName+recordExt, 0)
		back := d.trash.rename(trashName, from, fromName, unix.RENAME_NOREPLACE)
		return back != nil, errors.Join(err, unrecord, back)
	}
	crashpoint.Here(crashpoint.TrashMoved)
	return true, errors.Join(from.sync(), d.trash.sync())
}

func (d *Driver) writeRecord(trashName string, rec trashed) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("trash record: %w", err)
	}
	return d.trash.replace(trashName+recordExt, b)
}

func (d *Driver) record(trashName string) (trashed, error) {
	b, err := d.trash.read(trashName + recordExt)
	if err != nil {
		return trashed{}, err
	}
	var rec trashed
	if err := json.Unmarshal(b, &rec, json.RejectUnknownMembers(true)); err != nil {
		return trashed{}, fmt.Errorf("trash record %s: %w", trashName, err)
	}
	if op.CheckName(rec.Name) != nil || rec.What == "" || rec.Until.IsZero() {
		return trashed{}, fmt.Errorf("trash record %s lacks something", trashName)
	}
	return rec, nil
}

// trashOf lists the destroyed guests that had this name, oldest first. It leaves out a guest
// whose record cannot be read, because that guest cannot be brought back.
func (d *Driver) trashOf(name string) ([]op.Trashed, error) {
	var out []op.Trashed
	err := d.trash.each(func(file string) error {
		id, isRecord := strings.CutSuffix(file, recordExt)
		if !isRecord || !strings.HasPrefix(id, name+"~") {
			return nil
		}
		rec, err := d.record(id)
		if err != nil || rec.What != wholeGuest || id != trashName(name, rec.Incarnation) {
			return nil
		}
		if _, err := d.trash.stat(id); err != nil {
			return nil // a record whose guest was not moved, or which Sweep is deleting
		}
		out = append(out, op.Trashed{Incarnation: rec.Incarnation, Until: rec.Until})
		return nil
	})
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return a.Until.Before(b.Until) || a.Until.Equal(b.Until) && a.Incarnation < b.Incarnation
	})
	return out, err
}

// trashFor returns the part of the trash that a look needs. That is every guest that had the
// look's name, or the name under which the step brings a guest back.
func (d *Driver) trashFor(l op.Look) ([]op.Trashed, error) {
	trash, err := d.trashOf(l.TrashName())
	if err != nil || l.NewName() == "" {
		return trash, err
	}
	barring, err := d.trashOf(l.NewName())
	for _, t := range barring {
		t.Name = l.NewName()
		trash = append(trash, t)
	}
	return trash, err
}

// Sweep deletes what has been in the trash for longer than the trash keeps it, and what an
// earlier Sweep began to delete. It never deletes earlier, even if the disk is full, so nothing
// that enters the trash pushes anything else out. It keeps what has a mount below it or no
// readable record. It also keeps each guest that Config.Wanted says a caller asked to undelete.
func (d *Driver) Sweep(ctx context.Context) error {
	d.sweeping.Lock()
	defer d.sweeping.Unlock()
	due := map[string]string{} // guests' names, by id
	var begun []string
	now := d.cfg.Now()
	err := d.trash.each(func(file string) error {
		if strings.HasPrefix(file, purgePrefix) {
			begun = append(begun, file)
			return nil
		}
		id, isRecord := strings.CutSuffix(file, recordExt)
		if !isRecord {
			return nil
		}
		rec, err := d.record(id)
		if err != nil {
			d.cfg.Logger.Warn("trash record unreadable; what it is about is kept", "record", file, "err", err)
			return nil
		}
		if now.After(rec.Until) {
			due[id] = rec.Name
		}
		return nil
	})
	for _, id := range sortedKeys(due) {
		purge, e := d.beginPurge(ctx, id, due[id], now)
		err = errors.Join(err, e)
		if purge != "" {
			begun = append(begun, purge)
		}
	}
	for _, name := range begun {
		err = errors.Join(err, d.purge(ctx, name))
	}
	return err
}

// beginPurge renames an entry so that undelete no longer finds it, if the entry is still due.
// It looks again under the name's lock, because a guest that was brought back and destroyed
// again has the same name in the trash. It returns the name to delete, or an empty string.
func (d *Driver) beginPurge(ctx context.Context, id, name string, now time.Time) (string, error) {
	defer d.names.lock(name)()
	rec, err := d.record(id)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // brought back meanwhile
	}
	if err != nil || rec.Name != name || !now.After(rec.Until) {
		return "", err
	}
	if rec.What == wholeGuest {
		// It asks under the name's lock, to see a step that was accepted before.
		if wanted, err := d.cfg.Wanted(ctx, name, rec.Incarnation); err != nil || wanted {
			return "", err
		}
	}
	if err := d.checkNoMount(filepath.Join(d.root.path(), trashDir, id), "deleting "+id); err != nil {
		return "", err
	}
	purge := purgePrefix + id
	err = d.trash.rename(id, d.trash, purge, unix.RENAME_NOREPLACE)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err != nil {
		purge = ""
	}
	crashpoint.Here(crashpoint.SweepMoved)
	err = d.trash.unlink(id+recordExt, 0)
	crashpoint.Here(crashpoint.SweepUnrecorded)
	return purge, err
}

func (d *Driver) purge(ctx context.Context, name string) error {
	if err := d.checkNoMount(filepath.Join(d.root.path(), trashDir, name), "deleting "+name); err != nil {
		return err
	}
	err := removeTree(ctx, d.trash, name)
	crashpoint.Here(crashpoint.SweepEmptied)
	return err
}
