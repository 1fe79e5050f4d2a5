package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	for range triedIDs {
		if vmid = d.reserve(); vmid == 0 {
			return 0, nil, refusal.New(refusal.OverLimit, "each vmid from %d to %d has a guest or had one", d.cfg.First, d.cfg.Last).
				WithHint("make proxmox.vmids in gated.yaml larger: a number is not given a second time; one is left out, too, until gated starts anew, if a storage has anything under it")
		}
		end = func() { d.mu.Lock(); delete(d.taken, vmid); d.mu.Unlock() }
		free, err := d.isFree(ctx, stores, vmid)
		if err == nil && free {
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

// reserve reserves the next vmid that no guest has or had. It returns 0 if there is none.
func (d *Driver) reserve() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	span := d.cfg.Last - d.cfg.First + 1
	for i := range min(span, d.known.count(d.cfg.First, d.cfg.Last)+int64(len(d.taken))+1) {
		vmid := d.cfg.First + (d.next-d.cfg.First+i)%span
		if !d.known.isHad(vmid) && !d.taken[vmid] {
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

// isFree reports whether no guest has a vmid, and no storage has anything of a guest that had it.
func (d *Driver) isFree(ctx context.Context, stores []storage, vmid int64) (bool, error) {
	// The list only has guests that the token can see. This request asks about all others.
	_, err := d.api.send(ctx, http.MethodGet, "/cluster/nextid", values{"vmid": fmt.Sprint(vmid)})
	switch {
	case err == nil:
		left, err := d.leftOf(ctx, stores, vmid)
		return !left, err
	case isAnswered(err, http.StatusBadRequest), strings.Contains(err.Error(), "already exists"):
		return false, nil
	}
	return false, unreachable(err)
}

// storage is a storage as one node has it.
type storage struct{ name, node string }

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
		s := storage{o["storage"], o["node"]}
		at, again := shared[s.name]
		switch {
		case o["type"] != "storage", !keeps(o["content"]):
		case s.name == "" || s.node == "":
			return nil, unreachable(errors.New("a list of storages with one that has no name or no node"))
		case !isTrue(o["shared"]):
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

// leftOf reports whether a storage has a volume or a backup with a vmid in its name. A storage that cannot be listed may have.
func (d *Driver) leftOf(ctx context.Context, stores []storage, vmid int64) (bool, error) {
	left, failed := make([]bool, len(stores)), make([]error, len(stores))
	sideBySide(stores, func(i int, s storage) {
		list, err := d.api.list(ctx, path("nodes", s.node, "storage", s.name, "content"), values{"vmid": fmt.Sprint(vmid)})
		left[i] = slices.ContainsFunc(list, func(o object) bool { return o["vmid"] == fmt.Sprint(vmid) || numberOfVolume(o["volid"]) == vmid })
		if err != nil {
			failed[i] = refusal.New(refusal.Unavailable,
				"the storage %s of %s cannot be listed, and may have backups of an earlier guest %d: %s", s.name, s.node, vmid, worded(err)).
				WithHint("it is tried again; in Proxmox VE, disable a storage that is gone for good")
		}
	})
	if slices.Contains(left, true) {
		return true, nil
	}
	for _, err := range failed {
		if err != nil {
			return false, err
		}
	}
	return false, nil
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
