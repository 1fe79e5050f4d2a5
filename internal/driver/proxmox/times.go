package proxmox

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Proxmox VE gives the name of a deleted volume to the next one. On LVM, thin or not, it lists when a volume was made. On ZFS and
// Ceph it lists no time, and in a directory the time of the file's last change, which says nothing of its making.

// readTimes asks when the guest's volumes were made, by the clock of their node. A storage that does not say it in time leaves it open.
func (d *Driver) readTimes(ctx context.Context, g *guest) {
	ctx, cancel := context.WithTimeout(ctx, otherPatience)
	defer cancel()
	volumes := slices.DeleteFunc(g.volumes(), directory().MatchString)
	var stores []string
	for _, v := range volumes {
		if name, _, _ := strings.Cut(v, ":"); !slices.Contains(stores, name) {
			stores = append(stores, name)
		}
	}
	lists := make([][]object, len(stores))
	sideBySide(stores, func(i int, name string) {
		lists[i], _ = d.api.list(ctx, storage{name: name, node: g.node}.content(), values{"vmid": fmt.Sprint(g.vmid)})
	})
	g.times = map[string]string{}
	for _, o := range slices.Concat(lists...) {
		if o["ctime"] != "" && slices.Contains(volumes, o["volid"]) {
			g.times[o["volid"]] = o["ctime"]
		}
	}
}
