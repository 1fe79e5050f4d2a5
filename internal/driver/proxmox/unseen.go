package proxmox

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// A guest that the token cannot see is missing from the list, as a guest that does not exist.
// But its vmid is taken, and the driver can ask for each vmid if it is taken.

// known remembers the last name of each guest that the driver saw, by vmid, until the vmid is
// free.
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

// without returns the remembered vmids that have no row, in order. With a name, it only returns
// those whose last name it was.
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

// hidden refuses a name that looks free if the last guest of that name exists and the token
// cannot see it.
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

// askedFor is how many missing vmids each list asks for.
const askedFor = 16

// unlisted returns the first remembered vmid that is taken but not listed, or 0. If more than
// askedFor vmids are missing at once, later lists ask for the others. Until then, these count
// as taken.
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

// lingers describes what became of the incarnation that the look is for, if the look found
// another one or none. If the vmid is still taken, that guest may be the same one, renamed or
// with another disk. Or it may be a new guest under the same vmid; the driver cannot tell.
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
