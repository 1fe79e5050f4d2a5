package proxmox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	stdpath "path"
	"slices"
	"strings"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// A guest that the token cannot see is missing from the list, as a guest that does not exist.
// But its vmid is taken, and the driver can ask for each vmid if it is taken.

// known remembers the last name of each guest that the driver saw, by vmid, until the vmid is
// free. Beside that, it remembers each vmid that a guest had.
type known struct {
	mu    sync.Mutex
	names map[int64]string
	given map[int64]bool

	first, last int64 // the vmids of new guests
	used        int64 // how many of them are in given
}

func (k *known) keep(vmid int64, name string) {
	k.had(vmid)
	if name == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.names[vmid] = name
}

// had remembers that a vmid is not for new guests.
func (k *known) had(vmid int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.given[vmid] && vmid >= k.first && vmid <= k.last {
		k.used++
	}
	k.given[vmid] = true
}

func (k *known) isHad(vmid int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.given[vmid]
}

// count is how many vmids of the range are not for new guests.
func (k *known) count() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used
}

// name returns the name under which a guest was last seen, or "".
func (k *known) name(vmid int64) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.names[vmid]
}

func (k *known) forget(vmid int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.names, vmid)
}

// without returns the remembered vmids that have no row, in order. With a name, it only returns
// those whose last name it was.
func (k *known) without(rows []row, name string) []int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []int64
	for vmid, n := range k.names {
		if (name == "" || n == name) && at(rows, vmid) == nil {
			out = append(out, vmid)
		}
	}
	slices.Sort(out)
	return out
}

// at returns the row of a guest, or nil.
func at(rows []row, vmid int64) *row {
	if i, found := slices.BinarySearchFunc(rows, vmid, func(r row, id int64) int { return int(r.vmid - id) }); found {
		return &rows[i]
	}
	return nil
}

// rowOf asks for the row of a guest. It is nil if the token sees none.
func (d *Driver) rowOf(ctx context.Context, vmid int64) (*row, error) {
	rows, err := d.rows(ctx)
	return at(rows, vmid), err
}

// exists asks if any guest has a vmid. The token need not see that guest.
func (d *Driver) exists(ctx context.Context, vmid int64) (bool, error) {
	_, err := d.api.send(ctx, http.MethodGet, "/cluster/nextid", values{"vmid": fmt.Sprint(vmid)})
	switch {
	case err == nil:
		d.known.forget(vmid)
		return false, nil
	case isAnswered(err, http.StatusBadRequest), strings.Contains(err.Error(), "already exists"):
		return true, nil
	}
	return false, unreachable(err)
}

func unseen(vmid int64) error {
	return refusal.New(refusal.Unavailable, "the guest %d is there, and the token cannot see it any more", vmid).
		WithHint("give the token VM.Audit for it, or put it back into the pool; gated doctor says what the token lacks")
}

// askedFor is how many missing vmids each list asks for.
const askedFor = 16

// hidden returns the first remembered vmid that is taken but not listed, or 0. With a name, it asks only for those
// whose last name it was. If more than askedFor vmids are missing at once, later looks ask for the others. Until then,
// these count as taken.
func (d *Driver) hidden(ctx context.Context, rows []row, name string) (int64, error) {
	gone := d.known.without(rows, name)
	for i, vmid := range gone {
		if i == askedFor {
			return vmid, nil
		}
		if there, err := d.exists(ctx, vmid); err != nil || there {
			return vmid, err
		}
	}
	return 0, nil
}

// lingers describes what became of the incarnation that the look is for, if the look found
// another one or none. If the vmid is still taken, that guest may be the same one, renamed or
// with another disk. It is a new guest under the same vmid if the look says what the one that is meant was, and this one is another.
func (d *Driver) lingers(ctx context.Context, l op.Look, g *guest) (string, error) {
	if l.Incarnation == "" || g != nil && g.incarnation() == l.Incarnation {
		return "", nil
	}
	vmid := numberIn(l.Incarnation)
	if vmid == 0 {
		return "", nil // of another back end
	}
	there, err := d.exists(ctx, vmid)
	if err != nil || !there {
		return "", err
	}
	if meant, ok := selfOf(l.Self); ok {
		now, err := d.byID(ctx, vmid)
		switch {
		case err == nil && now.self().isNot(meant):
			return "", nil // a number has one guest, so the other one is gone
		case err != nil && !errors.Is(err, refusal.UnknownTarget):
			return "", err
		}
	}
	if g != nil {
		return fmt.Sprintf("the number of the guest that was meant, %d, is still taken: it has another name or other disks now, or it is another one", vmid), nil
	}
	r, err := d.rowOf(ctx, vmid)
	if err != nil {
		return "", err
	}
	if r == nil {
		return "", unseen(vmid)
	}
	return fmt.Sprintf("the guest %d is still there, under another name", vmid), nil
}

// These keys give a guest a directory or a device of its node. usb and serial can also name a
// device of the guest alone; ofNode tells the two apart.
var nodeKey = pattern(`^(virtiofs|hostpci|usb|serial|parallel|dev)[0-9]+$`)

// ofNode returns the objects of the node that a line of a configuration gives to the guest.
func ofNode(key, value string) []string {
	if key == "args" {
		// These are arguments for QEMU itself. If they name a file or a disk, they can share
		// it.
		if strings.ContainsAny(value, "/") || strings.Contains(value, "drive") || strings.Contains(value, "blockdev") {
			return []string{"args " + value}
		}
		return nil
	}
	m := nodeKey().FindStringSubmatch(key)
	if m == nil {
		return nil
	}
	what, _, _ := strings.Cut(value, ",")
	for _, name := range []string{"host=", "dirid=", "path="} {
		what = strings.TrimPrefix(what, name)
	}
	if what == "" || what == "spice" || what == "socket" {
		return nil
	}
	var out []string
	for _, one := range strings.Split(what, ";") {
		out = append(out, m[1]+" "+device(m[1], one))
	}
	return out
}

// device writes a device of the node in one form: 01:00.0 becomes 0000:01:00.0, and
// 0x1234:0x5678 becomes 1234:5678.
func device(key, what string) string {
	switch key {
	case "hostpci":
		if what = strings.ToLower(what); strings.Count(what, ":") == 1 {
			return "0000:" + what
		}
	case "usb":
		return strings.ReplaceAll(strings.ToLower(what), "0x", "")
	}
	return what
}

// written maps everything that a running guest can write to its key: disks, mount points, and
// directories and devices of the node. With kept, it includes disks that are not attached.
func (g *guest) written(kept bool) map[string]string {
	out := maps.Clone(g.fromNode)
	drives := g.drives
	if kept {
		drives = slices.Concat(g.drives, g.unused)
	}
	for _, d := range drives {
		if !d.cdrom && d.volume != "" && d.volume != "none" {
			out[d.volume] = d.key
		}
	}
	return out
}

// given says, for people, what a copy of the guest shares with it. These are directories and
// devices of the node, because Proxmox VE does not copy them. It is "" if there are none.
func (g *guest) given() string {
	written := g.written(false)
	for _, what := range slices.Sorted(maps.Keys(written)) {
		if g.fromNode[what] != "" || strings.HasPrefix(what, "/") {
			return fmt.Sprintf("%s (%s)", written[what], op.Shown(what))
		}
	}
	return ""
}

// shared says, for people, which objects the guest would write that another guest names too. If
// another guest cannot be read, the result of the last list counts. A guest that no list has
// read may share anything.
func (d *Driver) shared(ctx context.Context, g *guest) ([]string, error) {
	rows, err := d.rows(ctx)
	if err != nil {
		return nil, err
	}
	mine := g.written(false)
	return ofOthers(ctx, rows, g, func(r row) []string { return d.sharedWith(ctx, r, mine) })
}

// sharesNoMore refuses with StaleTarget if the guest would write something of another one by now that it would not when the step
// was looked at, and with Unavailable if nobody knows.
func (d *Driver) sharesNoMore(ctx context.Context, g *guest) error {
	now, err := d.details(ctx, g.row)
	if errors.Is(err, errGone) {
		return refusal.New(refusal.StaleTarget, "the guest %d is gone, or on another node", g.vmid)
	}
	var all []string
	if err == nil {
		all, err = d.shared(ctx, now)
	}
	if err != nil {
		return err
	}
	for _, what := range all {
		if !slices.Contains(g.shares, what) {
			return since(strings.HasPrefix(what, perhaps), "the guest %d would write %s", g.vmid, what)
		}
	}
	return nil
}

// sharedWith says which objects in mine another guest names too, or has a linked clone of, attached or in a snapshot.
func (d *Driver) sharedWith(ctx context.Context, r row, mine map[string]string) (found []string) {
	g, err := d.details(ctx, r)
	switch {
	case errors.Is(err, errGone):
		return nil
	case err != nil:
		k, ok := d.seen.get(r)
		if !ok || k.guest == nil {
			return r.doubted()
		}
		g = k.guest
	}
	theirs := slices.Collect(maps.Keys(g.written(true)))
	clones := slices.Clone(theirs)
	if slices.ContainsFunc(slices.Collect(maps.Keys(mine)), isBase) {
		kept, err := d.inSnapshots(ctx, g)
		if err != nil {
			return r.doubted()
		}
		for _, x := range kept {
			clones = append(clones, x.volume)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(mine)) {
		switch {
		case slices.ContainsFunc(clones, func(other string) bool { return basedOn(other, what) }):
			found = append(found, fmt.Sprintf("%s (%s), on which %s is based, a linked clone: %s", mine[what], op.Shown(what), r.target(g.name), g.told()))
		case slices.ContainsFunc(theirs, func(other string) bool { return sameDisk(what, other) }):
			found = append(found, fmt.Sprintf("%s (%s), which %s has as well", mine[what], op.Shown(what), g.told()))
		}
	}
	return found
}

// perhaps begins what nobody knows.
const perhaps = "perhaps "

func (r row) doubted() []string {
	return []string{fmt.Sprintf(perhaps+"a disk of the guest %d, which cannot be read", r.vmid)}
}

// sameDisk reports whether what a guest writes may be what another one names, also if one of them calls a volume by its device or by
// another storage. A device that does not say which volume it is may be any, but it keeps only the start of its own guest back.
func sameDisk(mine, theirs string) bool {
	if overlap(mine, theirs) || numberOfVolume(mine) != 0 && has(theirs, mine) && !unnamed().MatchString(theirs) {
		return true
	}
	onNode := strings.HasPrefix(mine, "/") || strings.Contains(mine, " ") // a volume has neither
	return onNode && numberOfVolume(theirs) != 0 && has(mine, theirs)
}

// overlap reports if two objects are the same or one is part of the other. That is so for a PCI
// device and its function, and for a directory of the node and one below it.
func overlap(a, b string) bool {
	switch {
	case a == b:
		return true
	case strings.HasPrefix(a, "hostpci ") && strings.HasPrefix(b, "hostpci "):
		return strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
	case strings.HasPrefix(a, "/") && strings.HasPrefix(b, "/"):
		a, b = strings.TrimSuffix(stdpath.Clean(a), "/")+"/", strings.TrimSuffix(stdpath.Clean(b), "/")+"/"
		return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
	}
	return false
}
