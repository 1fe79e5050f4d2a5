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

// withUsers is what a fingerprint depends on beside another object: who was asked for the volumes.
func (g *guest) withUsers(other string) string {
	for _, u := range g.users {
		other += "; used by " + u.target.String() + ": " + u.text
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
	all := append(g.volumes(), kept...)
	slices.Sort(all)
	all = slices.Compact(all)
	if l.Op == "guest.destroy" || l.Op == "guest.backup-restore" {
		all = slices.DeleteFunc(all, g.foreign)
	}
	return all, nil
}

var numbered = pattern(`(?:^|[/:])(?:vm|base|subvol|basevol)-([0-9]+)-[^/:]*$`)

// foreign reports whether a volume bears another guest's number, so that a destroy of this one leaves it.
func (g *guest) foreign(volume string) bool {
	m := numbered().FindStringSubmatch(volume)
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
	sideBySide(rows, func(i int, r row) {
		if r.vmid != g.vmid {
			found[i] = d.userOf(ctx, r, volumes)
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

// userOf says which of the volumes one guest has.
func (d *Driver) userOf(ctx context.Context, r row, volumes []string) (found []user) {
	g, err := d.details(ctx, r)
	if errors.Is(err, errGone) {
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

// has reports whether a disk is a volume, is based on it, or is its file or device on the node.
func has(disk, volume string) bool {
	_, name, _ := strings.Cut(volume, ":")
	last := name[strings.LastIndex(name, "/")+1:]
	return disk == volume || strings.HasPrefix(disk, volume+"/") ||
		strings.HasPrefix(disk, "/") && last != "" && slices.Contains(strings.Split(disk, "/"), last)
}

// maxRemembered is how many snapshots' volumes are remembered.
const maxRemembered = 20_000

// keptVolumes remembers which volumes a snapshot has. That never changes for one vmid, name and time.
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

// inSnapshots returns the volumes that a guest's snapshots have. A snapshot that went meanwhile has none.
func (d *Driver) inSnapshots(ctx context.Context, g *guest) (all []string, err error) {
	for _, s := range g.snapshots {
		key := fmt.Sprintf("%d %s %s", g.vmid, s.ident(), g.only())
		volumes, ok := d.kept.get(key)
		if !ok {
			config, err := d.api.get(ctx, g.path("snapshot", s.name, "config"), nil)
			if missing(err) {
				continue
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
			if x := parseDrive(key, value); x.owned() {
				all = append(all, x.volume)
			}
		}
	}
	slices.Sort(all)
	return all
}
