package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"gated/internal/base/proc"
	"gated/internal/base/refusal"
)

// UIDRange is a range of uids, and of gids with the same numbers. It includes both ends. The
// zero value has none.
type UIDRange struct{ First, Last uint32 }

// set reports whether there is a range.
func (r UIDRange) set() bool { return r.Last != 0 }

func (r UIDRange) has(uid uint32) bool { return r.set() && uid >= r.First && uid <= r.Last }

func (r UIDRange) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// uidsFile is in the root, beside the guests.
const uidsFile = ".uids"

// uidTable says which guest has which uid. A row is on disk before any file belongs to its uid.
// It goes only if the guest has no tree left, live or in the trash.
type uidTable struct {
	Next uint32            `json:"next"` // where the search for a free uid begins, so that no uid is used again soon
	Held map[string]uint32 `json:"held"` // by the guest's uuid
}

// guestUIDs gives each guest a uid of its own.
type guestUIDs struct {
	in    UIDRange
	mu    sync.Mutex
	table uidTable
}

// openUIDs reads the table. Without a range there is no table.
func openUIDs(root *dir, in UIDRange) (*guestUIDs, error) {
	u := &guestUIDs{in: in, table: uidTable{Held: map[string]uint32{}}}
	if !in.set() {
		return u, nil
	}
	if err := checkRange(in); err != nil {
		return nil, err
	}
	b, err := root.read(uidsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return u, nil
	}
	if err == nil {
		u.table, err = parseUIDs(b)
	}
	if err != nil {
		return nil, refusal.New(refusal.Conflict, "%s/%s, which says which guest has which uid: %v",
			root.path(), uidsFile, err).
			WithHint("put it back from a backup; without it the gate gives every guest a new uid")
	}
	return u, nil
}

// parseUIDs reads the table strictly: no uid twice, no guest without a name.
func parseUIDs(b []byte) (uidTable, error) {
	var t uidTable
	if err := json.Unmarshal(b, &t, json.RejectUnknownMembers(true)); err != nil {
		return uidTable{}, err
	}
	if t.Held == nil {
		return uidTable{}, errors.New("it lacks a member")
	}
	seen := make(map[uint32]string, len(t.Held))
	for _, uuid := range sortedKeys(t.Held) {
		if err := checkBirth(uuid); err != nil {
			return uidTable{}, err
		}
		uid := t.Held[uuid]
		if other, twice := seen[uid]; twice || uid == 0 {
			return uidTable{}, fmt.Errorf("uid %d is that of %q and of %q", uid, other, uuid)
		}
		seen[uid] = uuid
	}
	return t, nil
}

func (t uidTable) write(root *dir) error {
	b, err := json.Marshal(t, json.Deterministic(true))
	if err == nil && len(b) > maxSmallFile {
		err = refusal.New(refusal.Oversized, "%s would have %d bytes, more than %d", uidsFile, len(b), maxSmallFile)
	}
	if err != nil {
		return err
	}
	return root.replace(uidsFile, append(b, '\n'))
}

// checkRange refuses a range that the daemon cannot use, and a range with the daemon's own uid.
// It also refuses a range in which a user may take a uid through a user namespace.
func checkRange(r UIDRange) error {
	if err := checkCapable(); err != nil {
		return err
	}
	if own := uint32(os.Geteuid()); r.has(own) || r.has(uint32(os.Getegid())) {
		return refusal.New(refusal.BadParams, "local.guest_uids %s has the daemon's own uid or gid in it", r).
			WithHint("choose a range that nothing else uses")
	}
	for _, path := range []string{"/etc/subuid", "/etc/subgid"} {
		b, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if line := overlap(string(b), r); line != "" {
			return refusal.New(refusal.BadParams,
				"local.guest_uids %s overlaps the line %q of %s, whose owner may become these", r, line, path).
				WithHint("choose a range that nothing else uses")
		}
	}
	return nil
}

// overlap returns the first line of subuid(5) that shares a number with the range.
func overlap(text string, r UIDRange) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		f := strings.Split(line, ":")
		if len(f) != 3 {
			continue
		}
		first, err := strconv.ParseUint(f[1], 10, 32)
		count, err2 := strconv.ParseUint(f[2], 10, 32)
		if err == nil && err2 == nil && count > 0 && first <= uint64(r.Last) && first+count > uint64(r.First) {
			return line
		}
	}
	return ""
}

// of returns the uid that a guest has, 0 if it has none.
func (u *guestUIDs) of(uuid string) uint32 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if uid := u.table.Held[uuid]; u.in.has(uid) {
		return uid
	}
	return 0
}

// give returns the guest's uid. The first time, it chooses and records a uid that no other
// guest has. No tree of this root belongs to that uid, and no process runs as it.
func (u *guestUIDs) give(d *Driver, uuid string) (uint32, error) {
	if uid := u.of(uuid); uid != 0 {
		return uid, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	taken, err := d.treeOwners()
	if err != nil {
		return 0, fmt.Errorf("look for uids in use: %w", err)
	}
	next := uidTable{Held: map[string]uint32{}}
	left, err := d.leftOf(sortedKeys(u.table.Held))
	if err != nil {
		return 0, fmt.Errorf("look for uids in use: %w", err)
	}
	for held, uid := range u.table.Held {
		if left[held] || taken[uid] || !unused(uid) {
			next.Held[held], taken[uid] = uid, true
		}
	}
	uid, ok := u.free(taken)
	if !ok {
		return 0, refusal.New(refusal.OverLimit, "every uid of local.guest_uids %s is in use, by guests or in the trash",
			u.in).
			WithHint("make the range larger, or wait until the trash is emptied")
	}
	next.Held[uuid], next.Next = uid, uid+1
	if err := next.write(d.root); err != nil {
		return 0, err
	}
	u.table = next
	return uid, nil
}

// free finds a uid that is not taken and that no account and no process of this machine has.
func (u *guestUIDs) free(taken map[uint32]bool) (uint32, bool) {
	from := u.table.Next
	if !u.in.has(from) {
		from = u.in.First
	}
	uid := from
	for {
		if !taken[uid] && !isAccount(uid) && unused(uid) {
			return uid, true
		}
		if uid++; !u.in.has(uid) {
			uid = u.in.First
		}
		if uid == from {
			return 0, false
		}
	}
}

// unused reports whether the kernel proves that no process has the uid.
func unused(uid uint32) bool {
	none, err := proc.NoneOf(uid)
	return none && err == nil
}

// isAccount reports whether the machine knows a user or a group of this number.
func isAccount(id uint32) bool {
	if id == overflowUID { // many accounts outside of this user namespace appear as it
		return true
	}
	text := strconv.FormatUint(uint64(id), 10)
	if _, err := user.LookupId(text); err == nil {
		return true
	}
	_, err := user.LookupGroupId(text)
	return err == nil
}

// leftOf reports, by uuid, which guests have a tree left in the root or the trash.
func (d *Driver) leftOf(uuids []string) (map[string]bool, error) {
	owners, err := d.uuids.owners(d)
	if err != nil {
		return nil, err
	}
	var trash []string
	if err := d.trash.each(func(name string) error { trash = append(trash, name); return nil }); err != nil {
		return nil, err
	}
	left := map[string]bool{}
	for _, uuid := range uuids {
		left[uuid] = len(owners[uuid]) > 0
		for _, name := range trash {
			left[uuid] = left[uuid] || strings.Contains(name, uuid)
		}
	}
	return left, nil
}

// treeOwners returns the owners of every tree that a guest may have written. It includes guests
// whose record or guest.json cannot be read.
func (d *Driver) treeOwners() (map[uint32]bool, error) {
	owners := map[uint32]bool{}
	for _, in := range []*dir{d.root, d.trash} {
		err := in.each(func(name string) error { return addOwners(in, name, owners) })
		if err != nil {
			return nil, err
		}
	}
	return owners, nil
}

// addOwners adds the owner of an entry. If the entry may be a guest's directory, it also adds
// the owners of its data, its snapshots and its staged trees. Guests write only below these, so
// no other file there has another owner.
func addOwners(in *dir, name string, owners map[uint32]bool) error {
	e, err := in.stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	owners[e.uid], owners[e.gid] = true, true
	if !e.isDir() || int(e.uid) != os.Geteuid() || name == trashDir {
		return nil
	}
	sub, err := in.sub(name)
	if err != nil {
		return nil // a mount point; no guest can make one
	}
	defer sub.close()
	return sub.each(func(child string) error {
		switch {
		case child == snapshotsDir:
			below, err := sub.sub(child)
			if err != nil {
				return nil // no directory of the driver
			}
			defer below.close()
			return below.each(func(snapshot string) error { return addOwner(below, snapshot, owners) })
		case child == dataDir || strings.HasPrefix(child, stagePrefix):
			return addOwner(sub, child, owners)
		}
		return nil
	})
}

func addOwner(in *dir, name string, owners map[uint32]bool) error {
	e, err := in.stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		owners[e.uid], owners[e.gid] = true, true
	}
	return err
}
