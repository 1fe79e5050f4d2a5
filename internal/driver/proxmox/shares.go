package proxmox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	stdpath "path"
	"regexp"
	"slices"
	"strings"

	"gated/internal/base/op"
)

// These keys give a guest a directory or a device of its node. usb and serial can also name a
// device of the guest alone; ofNode tells the two apart.
var nodeKey = regexp.MustCompile(`^(virtiofs|hostpci|usb|serial|parallel|dev)[0-9]+$`)

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
	m := nodeKey.FindStringSubmatch(key)
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
	found := make([][]string, len(rows))
	sideBySide(rows, func(i int, r row) {
		if r.vmid != g.vmid {
			found[i] = d.sharedWith(ctx, r, mine)
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, unreachable(err)
	}
	return slices.Concat(found...), nil
}

// sharedWith says which objects in mine another guest names too.
func (d *Driver) sharedWith(ctx context.Context, r row, mine map[string]string) (found []string) {
	g, err := d.details(ctx, r)
	switch {
	case errors.Is(err, errGone):
		return nil
	case err != nil:
		k, ok := d.seen.get(r)
		if !ok || k.guest == nil {
			return []string{fmt.Sprintf("perhaps a disk of the guest %d, which cannot be read", r.vmid)}
		}
		g = k.guest
	}
	theirs := g.written(true)
	for _, what := range slices.Sorted(maps.Keys(mine)) {
		for other := range theirs {
			if overlap(what, other) {
				found = append(found, fmt.Sprintf("%s (%s), which the guest %d has as well", mine[what], op.Shown(what), r.vmid))
				break
			}
		}
	}
	return found
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
