package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	stdpath "path"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// takes are the steps that take or overwrite bytes of volumes: of all volumes of the guest, or of the disk that the step
// names.
var takes = map[string]bool{"guest.destroy": true, "guest.backup-restore": true, "guest.restore": true, "guest.snapshot-delete": true,
	"guest.disk-detach": false, "guest.disk-delete": false}

// user is another guest that has a volume of a step's guest. Proxmox VE deletes a volume with the guest whose number the
// volume's name has, whoever else uses it.
type user struct {
	target op.Target
	text   string // which volume, and which guest has it, for people
	unread bool   // nobody knows what it has
	base   string // the volume, if Proxmox VE keeps it because of this user's linked clone
}

// aboutUsers finds who else has the volumes that a step takes or overwrites, and which jobs copy them, and adds that to a look.
func (d *Driver) aboutUsers(ctx context.Context, l op.Look, g *guest, o *op.Observed) error {
	var err error
	if g.taken, err = d.takenBy(ctx, l, g); err != nil {
		return err
	}
	if g.users, err = d.usersOf(ctx, g, g.taken); err != nil {
		return err
	}
	for _, u := range g.users {
		if !slices.Contains(o.Dependent, u.target) {
			o.Dependent = append(o.Dependent, u.target)
		}
		o.Facts = append(o.Facts, op.Fact{Name: "used by", Text: op.Shown(u.text)})
	}
	if _, some := takes[l.Op]; !some || l.Op == "guest.disk-detach" { // a job copies a disk that was taken off, too
		return nil
	}
	g.jobs, err = d.jobsOf(ctx, g)
	for _, j := range g.jobs {
		next := "marked for removal: its next run deletes the copy on %s" // full, or what a later version calls otherwise
		switch j.removal {
		case "":
			next = "its next run takes from the copy on %s what the step takes here"
		case "local":
			next = "marked for removal: the copy on %s stays as it is"
		}
		o.Facts = append(o.Facts, op.Fact{Name: "used by", Text: op.Shown("the replication job " + j.id + ": " + fmt.Sprintf(next, j.node))})
	}
	return err
}

// job is a replication job of Proxmox VE, the node to which it copies disks, and how its next run removes it; "" if it goes on.
type job struct{ id, node, removal string }

// jobsOf returns the replication jobs of a guest, also those that are to be removed.
func (d *Driver) jobsOf(ctx context.Context, g *guest) (jobs []job, err error) {
	list, err := d.api.list(ctx, "/cluster/replication", nil)
	for _, o := range list {
		if o["guest"] == fmt.Sprint(g.vmid) {
			jobs = append(jobs, job{o["id"], o["target"], o["remove_job"]})
		}
	}
	return jobs, unreachable(err)
}

// alone refuses with StaleTarget if a guest has one of the volumes now that had none when the step was looked at, and with Unavailable if
// nobody knows. A step that takes or overwrites bytes calls it right before the call that does so.
func (d *Driver) alone(ctx context.Context, g *guest) error {
	now, err := d.usersOf(ctx, g, g.taken)
	if err != nil {
		return err
	}
	for _, u := range now {
		if !slices.Contains(g.users, u) {
			return since(u.unread, "another guest has a disk of the guest %d: %s", g.vmid, u.text)
		}
	}
	for _, u := range g.users {
		if u.base != "" && !slices.Contains(now, u) { // any other one that is no longer there is no danger
			return since(false, "nothing keeps %s any more: no %s has a linked clone of it", u.base, u.target)
		}
	}
	return nil
}

// since is the refusal of a step before which a second look shows something else than the first. What nobody knows now may be known later.
func since(unread bool, format string, args ...any) error {
	code := refusal.StaleTarget
	if unread {
		code = refusal.Unavailable
	}
	return refusal.New(code, "since the step was looked at, "+format, args...)
}

// stillItself is alone, and then a second look at the guest itself, whose end would be that of what it got meanwhile. A guest that was
// started meanwhile writes what nobody was shown. Steps that take nothing are refused then, too, and can be asked for again.
func (d *Driver) stillItself(ctx context.Context, g *guest) (now *guest, err error) {
	if err = d.alone(ctx, g); err == nil {
		now, err = d.again(ctx, g) // last, because the others take their time
	}
	if err == nil && g.status == Stopped && now.status != Stopped {
		err = since(false, "the guest %d was started", g.vmid)
	}
	return now, err
}

// baseOf returns the user because of whose linked clone Proxmox VE keeps a volume, or nil.
func (g *guest) baseOf(volume string) *user {
	if i := slices.IndexFunc(g.users, func(u user) bool { return u.base == volume }); i >= 0 {
		return &g.users[i]
	}
	return nil
}

// withTaken is what a fingerprint depends on beside another object: when the volumes that the step takes were made, who else has
// them, and which jobs copy them. Names of guests that cannot be read are forgotten with a restart.
func (g *guest) withTaken(other string) string {
	for _, volume := range g.taken {
		if made := g.times[volume]; made != "" {
			other += "; " + volume + " made " + made
		}
	}
	for _, u := range g.users {
		other += "; used by " + u.text
	}
	for _, j := range g.jobs {
		other += strings.TrimSuffix("; copied to "+j.node+" by "+j.id+" removed "+j.removal, " removed ")
	}
	return strings.TrimPrefix(other, "; ")
}

// takenBy returns the volumes whose bytes a step takes or overwrites, those of snapshots included.
func (d *Driver) takenBy(ctx context.Context, l op.Look, g *guest) ([]string, error) {
	whole, some := takes[l.Op]
	switch {
	case !some:
		return nil, nil
	case !whole:
		if disk, ok := g.drive(l.Params.Str("disk")); ok {
			return []string{disk.volume}, nil
		}
		return nil, nil
	}
	kept, err := d.inSnapshots(ctx, g)
	if err != nil {
		return nil, err
	}
	all := g.volumes()
	for _, x := range kept {
		if x.owned() {
			all = append(all, x.volume)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if l.Op == "guest.destroy" || l.Op == "guest.backup-restore" {
		all = slices.DeleteFunc(all, g.foreign)
	}
	return all, nil
}

// foreign reports whether a volume belongs to another guest's number, so that a destroy of this one leaves it.
func (g *guest) foreign(volume string) bool {
	vmid := numberOfVolume(volume)
	return vmid != 0 && vmid != g.vmid
}

// usersOf returns the other guests that have one of the volumes: attached, unused, in a snapshot, waiting for the next
// start, or below a linked clone. A guest that cannot be read now may have any.
func (d *Driver) usersOf(ctx context.Context, g *guest, volumes []string) ([]user, error) {
	if len(volumes) == 0 {
		return nil, nil
	}
	rows, err := d.rows(ctx)
	if err != nil {
		return nil, err
	}
	hidden := d.known.without(rows, "") // perhaps the token cannot see them any more
	var away sync.Map                   // nodes that did not answer in time: their other guests are not asked
	all, err := ofOthers(ctx, rows, g, func(r row) []user {
		if _, late := away.Load(r.node); late {
			return []user{d.unread(r)}
		}
		return d.userOf(ctx, r, volumes, func() { away.Store(r.node, true) })
	})
	if err != nil {
		return nil, err
	}
	for _, vmid := range hidden {
		there, err := d.exists(ctx, vmid)
		if err != nil {
			return nil, err
		}
		if there {
			all = append(all, d.unread(row{vmid: vmid}))
		}
	}
	return all, nil
}

// ofOthers asks about each guest but one, some at the same time.
func ofOthers[T any](ctx context.Context, rows []row, g *guest, ask func(row) []T) ([]T, error) {
	found := make([][]T, len(rows))
	sideBySide(rows, func(i int, r row) {
		if r.vmid != g.vmid {
			found[i] = ask(r)
		}
	})
	return slices.Concat(found...), unreachable(ctx.Err())
}

// unread is a guest that cannot be read, and may have any volume.
func (d *Driver) unread(r row) user {
	return user{r.target(cmp.Or(r.name, d.known.name(r.vmid))), fmt.Sprintf("perhaps a disk, by the guest %d, which cannot be read", r.vmid), true, ""}
}

// otherPatience is how long another guest may take to be read. A look is soon over, also if a node hangs.
const otherPatience = 5 * time.Second

// userOf says which of the volumes one guest has. It calls late if the guest's node does not answer in time.
func (d *Driver) userOf(ctx context.Context, r row, volumes []string, late func()) (found []user) {
	bounded, cancel := context.WithTimeout(ctx, otherPatience)
	defer cancel()
	g, err := d.outlineOf(bounded, r)
	if errors.Is(err, errGone) {
		var now *row
		if now, err = d.rowOf(bounded, r.vmid); err == nil && now == nil {
			return nil
		}
		if err == nil {
			g, err = d.outlineOf(bounded, *now)
		}
	}
	if bounded.Err() != nil {
		late()
	}
	var kept []drive
	if err == nil {
		longer, cancel := context.WithTimeout(ctx, time.Duration(1+len(g.snapshots))*otherPatience)
		defer cancel()
		kept, err = d.inSnapshots(longer, g)
	}
	if err != nil {
		return []user{d.unread(r)}
	}
	g.marker, _ = parseMarker(g.text) // an odd one proves nothing
	theirs := maps.Clone(g.fromNode)
	for _, x := range kept {
		theirs[x.volume] = "a snapshot"
	}
	for _, x := range slices.Concat(g.unused, g.drives) {
		theirs[x.volume] = x.key
	}
	for _, volume := range volumes {
		for _, other := range slices.Sorted(maps.Keys(theirs)) {
			if has(other, volume) {
				one := user{r.target(g.name), fmt.Sprintf("%s, by %s as %s", volume, g.told(), theirs[other]), false, ""}
				if isBase(volume) && strings.HasPrefix(other, volume+"/") {
					one.base = volume
				}
				found = append(found, one)
				break
			}
		}
	}
	return found
}

// target is a guest as a target. One whose name can be no target's is named by its number.
func (r row) target(name string) op.Target {
	if op.CheckName(name) != nil {
		name = fmt.Sprintf("vmid-%d", r.vmid)
	}
	return op.Target{Kind: "guest", Name: name}
}

var (
	lun     = pattern(`^[0-9]+\.[0-9]+\.[0-9]+\.(scsi-)?`)
	ending  = pattern(`\.(qcow2|raw|vmdk|subvol|img|iso)$`)
	unnamed = pattern(`(^|[ =])/dev/((dm-|zd|rbd|nbd|drbd|loop)[0-9]|disk/by-(id/dm-uuid-|uuid/|label/|partuuid/|partlabel/))`) // a device of the node that does not say which volume it is
)

// has reports whether what a guest names may be a volume: a disk of the same name on any storage, because one storage may have
// two names; one that is based on it; its file or device on the node; or an argument with its name. It may be right too often.
func has(named, volume string) bool {
	parts := strings.FieldsFunc(volume, isSeparator)
	if len(parts) == 0 {
		return false
	}
	last := bare(parts[len(parts)-1])
	for _, part := range strings.FieldsFunc(named, isSeparator) {
		if bare(part) == last {
			return true
		}
	}
	// The device mapper doubles a hyphen, and partitions and copies have an ending of their own.
	const distinct = 6
	return strings.Contains(named, "/") && (unnamed().MatchString(named) || len(last) >= distinct && strings.Contains(strings.ReplaceAll(named, "--", "-"), last))
}

// bare is a volume's name without an ending, and of a LUN without its place and the word before its number: 0.0.1.scsi-36001405.
func bare(name string) string {
	return lun().ReplaceAllString(ending().ReplaceAllString(name, ""), "")
}

// basedOn reports whether a volume is a linked clone's that is based on another one, on any storage, because one storage may have two names.
func basedOn(clone, volume string) bool {
	_, mine, _ := strings.Cut(volume, ":")
	_, theirs, ok := strings.Cut(clone, ":")
	parts := strings.Split(theirs, "/")
	return ok && mine != "" && slices.Contains(parts[:len(parts)-1], stdpath.Base(mine))
}

// isBase reports whether Proxmox VE keeps a volume as long as a linked clone on the same storage is based on it. It goes by the name.
func isBase(volume string) bool {
	_, name, _ := strings.Cut(volume, ":")
	return strings.HasPrefix(stdpath.Base(name), "base")
}

func isSeparator(r rune) bool { return r == '/' || r == ':' || r == ' ' || r == ',' || r == '=' }

// maxRemembered is how many objects of a kind are remembered.
const maxRemembered = 20_000

// remembered has what was read of objects that do not change.
type remembered[T any] struct {
	mu sync.Mutex
	of map[string]T
}

func (m *remembered[T]) get(key string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	one, ok := m.of[key]
	return one, ok
}

func (m *remembered[T]) put(key string, one T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil || len(m.of) >= maxRemembered {
		m.of = map[string]T{}
	}
	m.of[key] = one
}

// inSnapshots returns the disks, CDs among them, that a guest's snapshots have.
func (d *Driver) inSnapshots(ctx context.Context, g *guest) (all []drive, err error) {
	for _, s := range g.snapshots {
		key := fmt.Sprintf("%d %s %s %s", g.vmid, s.ident(), g.only(), g.node)
		disks, ok := d.kept.get(key)
		if !ok {
			config, err := d.api.get(ctx, g.path("snapshot", s.name, "config"), nil)
			if missing(err) {
				return nil, errMoved // it is listed, so it goes now, or its guest does
			}
			if err != nil {
				return nil, unreachable(err)
			}
			for _, key := range slices.Sorted(maps.Keys(config)) {
				if isDisk(g.kind, key) || unusedDisk().MatchString(key) {
					disks = append(disks, parseDrive(key, config[key]))
				}
			}
			d.kept.put(key, disks)
		}
		all = append(all, disks...)
	}
	return all, nil
}
