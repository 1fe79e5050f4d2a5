package proxmox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"gated/internal/op"
)

// incarnation says who a guest is: "pve:", its vmid, and a digest of all that
// tells it from another under the same vmid. No single field would do: a rollback
// changes vmgenid, a restore keeps the uuid, a clone copies ctime.
func (g *guest) incarnation() op.Incarnation {
	lines := []string{g.kind, fmt.Sprint(g.vmid), g.uuid, g.genid, g.ctime}
	lines = append(lines, g.volumes()...)
	if g.kind == lxc {
		// A container has neither uuid nor generation.
		lines = append(lines, g.hwaddrs...)
		lines = append(lines, "birth", g.birth())
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return op.Incarnation(fmt.Sprintf("pve:%d:%s", g.vmid, hex.EncodeToString(sum[:20])))
}

// volumes are the ids of all volumes that hold data, sorted. A disk that is
// detached is among them: a detach makes no other guest.
func (g *guest) volumes() []string {
	var ids []string
	for _, d := range slices.Concat(g.drives, g.unused) {
		if d.owned() {
			ids = append(ids, d.volume)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// storageID names a volume of the guest. Proxmox VE uses a volume's name again once
// it is free, and so the number of a guest: with the size, at least one of another
// size is another one, and with what no two guests have, one of another guest is.
func (g *guest) storageID(d drive) op.StorageID {
	return op.StorageID(fmt.Sprintf("pve:%s:%d:%s", d.volume, d.size, g.only()))
}

// only is what a guest has that none that had its number before had: a machine's
// uuid, and of a container, which has nothing like it, the birth that this gate gave
// it; empty for a container of other hands.
func (g *guest) only() string {
	if g.kind == lxc {
		return g.birth()
	}
	return g.uuid
}

// storage is all that a destroy would take: volumes, attached or not, the drive
// that was made for cloud-init, and snapshots.
func (g *guest) storage() []op.StorageID {
	var ids []op.StorageID
	for _, d := range slices.Concat(g.drives, g.unused) {
		if d.owned() || d.generated() {
			ids = append(ids, g.storageID(d))
		}
	}
	for _, s := range g.snapshots {
		ids = append(ids, op.StorageID(fmt.Sprintf("pve:%d:snapshot:%s:%s", g.vmid, s.ident(), g.only())))
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// fingerprint digests what a signature should depend on. Whether the guest runs,
// where, its limits, and what else the configuration says is not in it. with is what the step
// of the look is about beside that.
func (g *guest) fingerprint(with string) op.Fingerprint {
	p := op.Guarded(g.spec())
	labels := map[string]any{}
	for k, v := range g.labels() {
		labels[k] = v
	}
	p["labels"], p["name"], p["incarnation"], p["parent"] = labels, g.name, string(g.incarnation()), g.parent
	var disks, snapshots []any
	for _, d := range slices.Concat(g.drives, g.unused) {
		disks = append(disks, fmt.Sprintf("%s %s %d %t", d.key, d.volume, d.size, d.lost))
	}
	for _, s := range g.snapshots {
		snapshots = append(snapshots, s.ident())
	}
	p["disks"], p["snapshots"] = disks, snapshots
	if with != "" {
		p["with"] = with
	}
	return op.FingerprintOf(p.Canonical())
}

func fingerprintOfNothing(name string) op.Fingerprint {
	return op.FingerprintOf(op.Params{"name": name, "incarnation": ""}.Canonical())
}

// spec holds the fields that people can wish for; a command there never is. A container without a limit on
// cores has none here, for no wish can say "none".
func (g *guest) spec() op.Params {
	labels := make(map[string]any, len(g.marker.labels))
	for k, v := range g.marker.labels {
		labels[k] = v
	}
	p := op.Params{"command": "", "memory": g.memory, "labels": labels, "protected": g.protected()}
	if g.cpus > 0 {
		p["cpus"] = g.cpus
	}
	return p
}
