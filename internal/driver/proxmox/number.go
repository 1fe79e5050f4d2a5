package proxmox

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
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

// triedDoubts is how many of them may be in doubt.
const triedDoubts = 8

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
	left, single, err := d.leftovers(ctx, stores)
	if err != nil {
		return 0, nil, err
	}
	if vmid, end, err = d.choose(ctx, left, single); err != nil {
		return 0, nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.recent[name] = vmid
	return vmid, end, nil
}

// choose reserves the next free vmid. It passes over a few about which a storage does not say what it has.
func (d *Driver) choose(ctx context.Context, left map[int64]bool, single []storage) (vmid int64, end func(), err error) {
	var unsure error
	doubts := 0
	for range triedIDs {
		if vmid = d.reserve(left); vmid == 0 {
			return 0, nil, cmp.Or(unsure, error(refusal.New(refusal.OverLimit, "each vmid from %d to %d has a guest or had one, or a storage has something under it", d.cfg.First, d.cfg.Last).
				WithHint("make proxmox.vmids in gated.yaml larger: a number is not given a second time")))
		}
		end = func() { d.mu.Lock(); delete(d.taken, vmid); d.mu.Unlock() }
		free, doubt, err := d.free(ctx, single, vmid)
		if free {
			return vmid, end, nil
		}
		end()
		if doubt != nil {
			unsure = doubt
			if doubts++; doubts == triedDoubts {
				err = doubt
			}
		}
		if err != nil {
			return 0, nil, err
		}
		left[vmid] = true
	}
	return 0, nil, refusal.New(refusal.Unavailable, "the %d vmids up to %d are not free", triedIDs, vmid).
		WithHint("it is tried again with the numbers after them")
}

// free reports whether no guest has a vmid, and no storage anything under it. Those in single are asked now. The doubt is of one that does not
// say what it has under this number.
func (d *Driver) free(ctx context.Context, single []storage, vmid int64) (free bool, doubt, err error) {
	for _, s := range single {
		list, err := d.api.list(ctx, s.content(), values{"vmid": fmt.Sprint(vmid)})
		switch {
		case isAnswered(err, http.StatusInternalServerError):
			return false, s.silent(err), nil
		case err != nil:
			return false, nil, s.silent(err)
		case len(list) > 0:
			return false, nil, nil
		}
	}
	there, err := d.exists(ctx, vmid) // the list only has guests that the token can see
	if err == nil && there {
		d.known.had(vmid)
	}
	return err == nil && !there, nil, err
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
