package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	text   string // which volume, for people
}

// aboutUsers finds who else has the volumes that a step takes or overwrites, and adds them to a look.
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
	return nil
}

// alone refuses with StaleTarget if others have the volumes now than when the step was looked at. A step that takes or
// overwrites bytes calls it right before the call that does so.
func (d *Driver) alone(ctx context.Context, g *guest) error {
	now, err := d.usersOf(ctx, g, g.taken)
	if err != nil {
		return err
	}
	if !slices.Equal(now, g.users) {
		return refusal.New(refusal.StaleTarget, "another guest got or lost a disk of the guest %d while the step was under way", g.vmid)
	}
	return nil
}

// withUsers is what a fingerprint depends on beside another object: who has the volumes, by number. Names of guests that cannot
// be read are forgotten with a restart.
func (g *guest) withUsers(other string) string {
	for _, u := range g.users {
		other += "; used by " + u.text
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
	all := append(g.volumes(), slices.DeleteFunc(kept, func(v string) bool { return strings.HasPrefix(v, "/") })...)
	slices.Sort(all)
	all = slices.Compact(all)
	if l.Op == "guest.destroy" || l.Op == "guest.backup-restore" {
		all = slices.DeleteFunc(all, g.foreign)
	}
	return all, nil
}

var (
	numbered  = pattern(`(?:^|[/:])(?:vm|base|subvol|basevol)-([0-9]+)-[^/:]*$`)
	directory = pattern(`(?:^|[/:])([0-9]+)/[^/:]*$`)
)

// foreign reports whether a volume belongs to another guest's number, so that a destroy of this one leaves it. On a storage
// of directories the directory says whose it is, and elsewhere the volume's name.
func (g *guest) foreign(volume string) bool {
	m := directory().FindStringSubmatch(volume)
	if m == nil {
		m = numbered().FindStringSubmatch(volume)
	}
	return m != nil && m[1] != strconv.FormatInt(g.vmid, 10)
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
	found := make([][]user, len(rows))
	var away sync.Map // nodes that did not answer in time: their other guests are not asked
	sideBySide(rows, func(i int, r row) {
		if r.vmid == g.vmid {
			return
		}
		if _, late := away.Load(r.node); late {
			found[i] = []user{d.unread(r)}
			return
		}
		bounded, cancel := context.WithTimeout(ctx, otherPatience)
		defer cancel()
		found[i] = d.userOf(bounded, r, volumes)
		if bounded.Err() != nil {
			away.Store(r.node, true)
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, unreachable(err)
	}
	all := slices.Concat(found...)
	for _, vmid := range d.known.without(rows, "") { // perhaps the token cannot see it any more
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

// unread is a guest that cannot be read, and may have any volume.
func (d *Driver) unread(r row) user {
	return user{r.target(cmp.Or(r.name, d.known.name(r.vmid))), fmt.Sprintf("perhaps a disk, by the guest %d, which cannot be read", r.vmid)}
}

// otherPatience is how long one of the other guests may take to be read. A look is soon over, also if a node hangs.
const otherPatience = 5 * time.Second

// userOf says which of the volumes one guest has.
func (d *Driver) userOf(ctx context.Context, r row, volumes []string) (found []user) {
	g, err := d.details(ctx, r)
	if errors.Is(err, errGone) && d.stillThere(ctx, r) == nil {
		return nil
	}
	var kept []string
	if err == nil {
		kept, err = d.inSnapshots(ctx, g)
	}
	if err != nil {
		return []user{d.unread(r)}
	}
	theirs := map[string]string{}
	for what, key := range g.fromNode {
		theirs[what] = key
	}
	for _, volume := range kept {
		theirs[volume] = "a snapshot"
	}
	for _, x := range slices.Concat(g.unused, g.drives) {
		theirs[x.volume] = x.key
	}
	for _, volume := range volumes {
		for _, other := range slices.Sorted(maps.Keys(theirs)) {
			if has(other, volume) {
				found = append(found, user{r.target(g.name), fmt.Sprintf("%s, by the guest %d (%s)", volume, r.vmid, theirs[other])})
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
	ending  = pattern(`\.(qcow2|raw|vmdk|subvol|img|iso)$`)
	unnamed = pattern(`^/dev/(dm-|zd|rbd|nbd|drbd)[0-9]`) // a device of the node that does not say which volume it is
)

// has reports whether what a guest names may be a volume: a disk of the same name on any storage, because one storage may have
// two names; one that is based on it; its file or device on the node; or an argument with its name. It may be right too often.
func has(named, volume string) bool {
	parts := strings.FieldsFunc(volume, isSeparator)
	if len(parts) == 0 {
		return false
	}
	last := ending().ReplaceAllString(parts[len(parts)-1], "")
	for _, part := range strings.FieldsFunc(named, isSeparator) {
		if ending().ReplaceAllString(part, "") == last {
			return true
		}
	}
	// The device mapper doubles a hyphen, and partitions and copies have an ending of their own.
	const distinct = 6
	return strings.Contains(named, "/") && (unnamed().MatchString(named) || len(last) >= distinct && strings.Contains(strings.ReplaceAll(named, "--", "-"), last))
}

func isSeparator(r rune) bool { return r == '/' || r == ':' || r == ' ' || r == ',' || r == '=' }

// maxRemembered is how many snapshots' volumes are remembered.
const maxRemembered = 20_000

// keptVolumes remembers which volumes a snapshot has. That changes only if its guest moves to another node.
type keptVolumes struct {
	mu sync.Mutex
	of map[string][]string
}

func (k *keptVolumes) get(key string) ([]string, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	volumes, ok := k.of[key]
	return volumes, ok
}

func (k *keptVolumes) put(key string, volumes []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil || len(k.of) >= maxRemembered {
		k.of = map[string][]string{}
	}
	k.of[key] = volumes
}

// inSnapshots returns the volumes that a guest's snapshots have.
func (d *Driver) inSnapshots(ctx context.Context, g *guest) (all []string, err error) {
	for _, s := range g.snapshots {
		key := fmt.Sprintf("%d %s %s %s", g.vmid, s.ident(), g.only(), g.node)
		volumes, ok := d.kept.get(key)
		if !ok {
			config, err := d.api.get(ctx, g.path("snapshot", s.name, "config"), nil)
			if missing(err) {
				return nil, errMoved // it is listed, so it goes now, or its guest does
			}
			if err != nil {
				return nil, unreachable(err)
			}
			volumes = volumesIn(g.kind, config)
			d.kept.put(key, volumes)
		}
		all = append(all, volumes...)
	}
	return all, nil
}

// volumesIn returns the volumes of a configuration, attached or not.
func volumesIn(kind string, config object) (all []string) {
	for key, value := range config {
		if isDisk(kind, key) || unusedDisk().MatchString(key) {
			if x := parseDrive(key, value); x.volume != "" && x.volume != "none" {
				all = append(all, x.volume)
			}
		}
	}
	slices.Sort(all)
	return all
}
