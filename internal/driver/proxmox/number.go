package proxmox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// The number of a guest that is gone still names what is left of it: volumes, backups, jobs that back up and prune, and
// permissions. A new guest under that number would get all of it. So no number is given a second time.

// prefix begins every incarnation of this back end. The vmid follows.
const prefix = "pve:"

// triedIDs is how many vmids one step asks for. The next step goes on after them.
const triedIDs = 256

// vmid reserves a vmid that no guest has or had, as far as the journal, this process and the storages know. end releases the
// vmid for other steps of this process.
func (d *Driver) vmid(ctx context.Context, node, name string) (vmid int64, end func(), err error) {
	if err := d.sees(ctx); err != nil {
		return 0, nil, err
	}
	if err := d.unfinished(ctx, node); err != nil {
		return 0, nil, err
	}
	if _, err := d.rows(ctx); err != nil { // they are had from now on
		return 0, nil, err
	}
	if err := d.readJournal(ctx); err != nil {
		return 0, nil, err
	}
	stores, err := d.storages(ctx)
	if err != nil {
		return 0, nil, err
	}
	left, err := d.leftovers(ctx, stores)
	if err != nil {
		return 0, nil, err
	}
	for range triedIDs {
		if vmid = d.reserve(left); vmid == 0 {
			return 0, nil, refusal.New(refusal.OverLimit, "each vmid from %d to %d has a guest or had one, or a storage has something under it", d.cfg.First, d.cfg.Last).
				WithHint("make proxmox.vmids in gated.yaml larger: a number is not given a second time")
		}
		end = func() { d.mu.Lock(); delete(d.taken, vmid); d.mu.Unlock() }
		there, err := d.exists(ctx, vmid) // the list only has guests that the token can see
		if err == nil && !there {
			d.mu.Lock()
			d.recent[name] = vmid
			d.mu.Unlock()
			return vmid, end, nil
		}
		end()
		if err != nil {
			return 0, nil, err
		}
		d.known.had(vmid)
	}
	return 0, nil, refusal.New(refusal.Unavailable, "the %d vmids up to %d are not free", triedIDs, vmid).
		WithHint("it is tried again with the numbers after them")
}

// reserve reserves the next vmid that no guest has or had, and under which nothing is left. It returns 0 if there is none.
func (d *Driver) reserve(left map[int64]bool) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	span := d.cfg.Last - d.cfg.First + 1
	for i := range min(span, d.known.count()+int64(len(d.taken)+len(left))+1) {
		vmid := d.cfg.First + (d.next-d.cfg.First+i)%span
		if !d.known.isHad(vmid) && !d.taken[vmid] && !left[vmid] {
			d.taken[vmid], d.next = true, vmid+1
			return vmid
		}
	}
	return 0
}

// readJournal learns, once, the numbers of all guests that the journal knows.
func (d *Driver) readJournal(ctx context.Context) error {
	d.mu.Lock()
	done := d.journaled || d.cfg.Recorded == nil
	d.mu.Unlock()
	if done {
		return nil
	}
	all, err := d.cfg.Recorded(ctx, prefix)
	if err != nil {
		return err
	}
	for _, inc := range all {
		d.known.had(numberIn(inc))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.journaled = true
	return nil
}

// storage is a storage as one node has it.
type storage struct {
	name, node string
	shared     bool
}

// storages returns every storage for disks or backups that the token can see: one that all nodes share once, every other one for
// each node.
func (d *Driver) storages(ctx context.Context) ([]storage, error) {
	list, err := d.api.list(ctx, "/cluster/resources", values{"type": "storage"})
	if err != nil {
		return nil, unreachable(err)
	}
	var out []storage
	shared := map[string]int{} // where in out
	for _, o := range list {
		s := storage{o["storage"], o["node"], isTrue(o["shared"])}
		at, again := shared[s.name]
		switch {
		case o["type"] != "storage", !keeps(o["content"]):
		case s.name == "" || s.node == "":
			return nil, unreachable(errors.New("a list of storages with one that has no name or no node"))
		case !s.shared:
			out = append(out, s)
		case !again:
			shared[s.name] = len(out)
			out = append(out, s)
		case o["status"] == "available":
			out[at] = s // the node before may be away
		}
	}
	if len(out) == 0 {
		return nil, refusal.New(refusal.Unavailable, "the token sees no storage, and each may have backups of an earlier guest").
			WithHint("gated doctor says what the token lacks")
	}
	return out, nil
}

// keeps reports whether a storage with some content may have anything of a guest. What is not said may be all.
func keeps(content string) bool {
	return content == "" || slices.ContainsFunc(strings.Split(content, ","), func(c string) bool { return c == "images" || c == "rootdir" || c == "backup" })
}

// leftovers returns the numbers under which a storage has a volume or a backup. A storage that cannot be listed may have one of each
// number.
func (d *Driver) leftovers(ctx context.Context, stores []storage) (map[int64]bool, error) {
	found, failed := make([][]int64, len(stores)), make([]error, len(stores))
	sideBySide(stores, func(i int, s storage) { found[i], failed[i] = d.numbersOn(ctx, s) })
	left := map[int64]bool{}
	for i, numbers := range found {
		if failed[i] != nil {
			return nil, failed[i]
		}
		for _, vmid := range numbers {
			left[vmid] = true
		}
	}
	return left, nil
}

// numbersOn lists a storage. For one of a node that is away, the last list counts: nothing comes to it before the node is back, and the
// driver saw each guest that was there since.
func (d *Driver) numbersOn(ctx context.Context, s storage) ([]int64, error) {
	list, err := d.api.list(ctx, path("nodes", s.node, "storage", s.name, "content"), nil)
	if isAnswered(err, noConnection) && !s.shared {
		d.mu.Lock()
		defer d.mu.Unlock()
		if was, ok := d.listed[s]; ok {
			return was, nil
		}
	}
	var numbers []int64
	for _, o := range list {
		vmid, bad := o.integer("vmid")
		err = cmp.Or(err, bad)
		numbers = append(numbers, vmid, numberOfVolume(o["volid"]))
	}
	if err != nil {
		return nil, refusal.New(refusal.Unavailable, "the storage %s of %s cannot be listed, and may have backups of any earlier guest: %s", s.name, s.node, worded(err)).
			WithHint("it is tried again; if the storage is gone for good, type on a node: pvesm set %s --disable 1; if the node is: pvecm delnode %s", s.name, s.node)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listed[s] = numbers
	return numbers, nil
}

var (
	numbered  = pattern(`(?:^|[/:])(?:vm|base|subvol|basevol)-([0-9]+)-[^/:]*$`)
	directory = pattern(`(?:^|[/:])([0-9]+)/[^/:]*$`)
)

// numberOfVolume returns the vmid in the name of a volume, or 0. On a storage of directories the directory says whose it is,
// and elsewhere the volume's name.
func numberOfVolume(volume string) int64 {
	m := directory().FindStringSubmatch(volume)
	if m == nil {
		m = numbered().FindStringSubmatch(volume)
	}
	if m == nil {
		return 0
	}
	vmid, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return 0
	}
	return vmid
}

// numberIn returns the vmid of an incarnation, "pve:500:…", or 0.
func numberIn(i op.Incarnation) int64 {
	rest, ours := strings.CutPrefix(string(i), prefix)
	number, _, _ := strings.Cut(rest, ":")
	vmid, err := strconv.ParseInt(number, 10, 64)
	if !ours || err != nil {
		return 0
	}
	return vmid
}
