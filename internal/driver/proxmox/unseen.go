package proxmox

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gated/internal/op"
)

// A guest that the token cannot see is not in the list, as one that is not there. But
// its number is taken, and that can be asked of every number.

// known keeps the last name of each guest that was seen, by vmid, until its number
// is free.
type known struct {
	mu    sync.Mutex
	names map[int64]string
}

func (k *known) keep(vmid int64, name string) {
	if name == "" {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.names[vmid] = name
}

func (k *known) forget(vmid int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.names, vmid)
}

// without returns the numbers that are known and not among the rows, in order. With
// a name, only those that had that name last.
func (k *known) without(rows []row, name string) []int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []int64
	for vmid, n := range k.names {
		if (name == "" || n == name) && !among(rows, vmid) {
			out = append(out, vmid)
		}
	}
	slices.Sort(out)
	return out
}

func among(rows []row, vmid int64) bool {
	_, found := slices.BinarySearchFunc(rows, vmid, func(r row, id int64) int { return int(r.vmid - id) })
	return found
}

// exists asks whether a guest has a number, whoever may see it.
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
	return op.Refuse(op.Unavailable, "the guest %d is there, and the token cannot see it any more", vmid).
		WithHint("give the token VM.Audit for it, or put it back into the pool; gated doctor says what the token lacks")
}

// hidden refuses a name that looks free where a guest that had it last is there and
// cannot be seen.
func (d *Driver) hidden(ctx context.Context, rows []row, name string) error {
	for _, vmid := range d.known.without(rows, name) {
		there, err := d.exists(ctx, vmid)
		if err == nil && there {
			err = unseen(vmid)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// askedFor is how many numbers each list asks for that it does not have any more.
const askedFor = 16

// unlisted returns the first number that was known, is taken and is not listed, 0
// where there is none. Of more than askedFor that are gone at once, the rest is
// asked for in the next rounds; until then they count as taken.
func (d *Driver) unlisted(ctx context.Context, rows []row) (int64, error) {
	gone := d.known.without(rows, "")
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

// lingers says of the incarnation that a look is for what became of it, where what
// was found is another one or nothing. A number that is still taken may be that
// guest, renamed or with another disk; nothing tells it for certain from one that
// was made under the number since.
func (d *Driver) lingers(ctx context.Context, l op.Look, g *guest) (string, error) {
	if l.Incarnation == "" || g != nil && g.incarnation() == l.Incarnation {
		return "", nil
	}
	vmid := numberIn(l.Incarnation)
	if vmid == 0 {
		return "", nil // another back end's
	}
	there, err := d.exists(ctx, vmid)
	if err != nil || !there {
		return "", err
	}
	if g != nil {
		return fmt.Sprintf("the number of the guest that was meant, %d, is still taken: it has another name or other disks now, or it is another one", vmid), nil
	}
	rows, err := d.rows(ctx)
	if err != nil {
		return "", err
	}
	if !among(rows, vmid) {
		return "", unseen(vmid)
	}
	return fmt.Sprintf("the guest %d is still there, under another name", vmid), nil
}

// numberIn returns the vmid of an incarnation, "pve:500:…", or 0.
func numberIn(i op.Incarnation) int64 {
	rest, ours := strings.CutPrefix(string(i), "pve:")
	number, _, _ := strings.Cut(rest, ":")
	vmid, err := strconv.ParseInt(number, 10, 64)
	if !ours || err != nil {
		return 0
	}
	return vmid
}
