package proxmox

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gated/internal/base/refusal"
)

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

func (s storage) content() string { return path("nodes", s.node, "storage", s.name, "content") }

// silent is the refusal if a storage does not say what it has. Without an answer nobody knows whether the storage hangs or its node.
func (s storage) silent(err error) error {
	no := refusal.New(refusal.Unavailable, "the storage %s of %s cannot be listed, and may have backups of any earlier guest: %s", s.name, s.node, worded(err))
	hint := "it is tried again; if the storage is gone for good, type on a node: pvesm set " + s.name + " --disable 1"
	if !isAnswered(err, http.StatusInternalServerError) {
		hint += "; if the node " + s.node + " is up, type there: systemctl restart pveproxy; if the node is gone for good, type on another one: pvecm delnode " + s.node
	}
	return no.WithHint("%s", hint)
}

// leftovers returns the numbers under which a storage has a volume or a backup. A storage that cannot be listed may have one of each
// number. One that answers with an error may only have an image that nobody can read: it is in single, to be asked for one number at a time.
// One that did not answer its node in time is asked no more.
func (d *Driver) leftovers(ctx context.Context, stores []storage) (left map[int64]bool, single []storage, err error) {
	found, failed := make([][]int64, len(stores)), make([]error, len(stores))
	sideBySide(stores, func(i int, s storage) { found[i], failed[i] = d.numbersOn(ctx, s) })
	left = map[int64]bool{}
	for i, s := range stores {
		switch {
		case isAnswered(failed[i], http.StatusInternalServerError) && !passing(failed[i]):
			single = append(single, s)
		case failed[i] != nil:
			return nil, nil, s.silent(failed[i])
		}
		for _, vmid := range found[i] {
			left[vmid] = true
		}
	}
	return left, single, nil
}

// numbersOn lists a storage. For one of a node that the cluster calls offline, the last list counts: nothing comes to it before the node is
// back, and the driver saw each guest that was there since. A node that only does not answer may work on.
func (d *Driver) numbersOn(ctx context.Context, s storage) ([]int64, error) {
	list, err := d.api.list(ctx, s.content(), nil)
	if err != nil && !s.shared && d.stateOf(ctx, s.node) == "offline" {
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
		return nil, err
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
	linstor   = pattern(`:pm-[0-9a-f]{8}_([0-9]+)$`)
)

// numberOfVolume returns the vmid in the name of a volume, or 0. On a storage of directories the directory says whose it is,
// and elsewhere the volume's name.
func numberOfVolume(volume string) int64 {
	for _, form := range []func() *regexp.Regexp{directory, numbered, linstor} {
		if m := form().FindStringSubmatch(volume); m != nil {
			if vmid, err := strconv.ParseInt(m[1], 10, 64); err == nil {
				return vmid
			}
			return 0
		}
	}
	return 0
}
