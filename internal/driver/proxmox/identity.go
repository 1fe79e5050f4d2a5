package proxmox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"gated/internal/base/op"
)

// incarnation identifies a guest: "pve:", its vmid, and a digest of everything that tells it
// from another guest under the same vmid. No single field is enough. A rollback changes
// vmgenid, a restore keeps the uuid, and a clone copies ctime.
func (g *guest) incarnation() op.Incarnation {
	lines := []string{g.kind, fmt.Sprint(g.vmid), g.uuid, g.genid, g.ctime}
	lines = append(lines, g.volumes()...)
	if g.kind == lxc {
		// A container has no uuid and no generation.
		lines = append(lines, g.hwaddrs...)
		lines = append(lines, "birth", g.birth())
	}
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return op.Incarnation(fmt.Sprintf("pve:%d:%s", g.vmid, hex.EncodeToString(sum[:20])))
}

// volumes are the ids of all volumes with data, sorted. They include detached disks, so a
// detach does not change the incarnation.
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

// storageID identifies a volume of the guest. Proxmox VE uses the name of a deleted volume and
// the vmid of a deleted guest again. So the id has the size and the part of the guest's
// identity that no other guest has.
func (g *guest) storageID(d drive) op.StorageID {
	return op.StorageID(fmt.Sprintf("pve:%s:%d:%s", d.volume, d.size, g.only()))
}

// only is a property that no earlier guest with this vmid had. For a machine it is the uuid.
// For a container it is the birth that this gate gave it, because containers have no uuid. It
// is empty for a container that this gate did not make.
func (g *guest) only() string {
	if g.kind == lxc {
		return g.birth()
	}
	return g.uuid
}

// storage is everything that a destroy would take: volumes, attached or not, the generated
// drive of cloud-init, and snapshots.
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

// fingerprint digests everything that an operator's signature should depend on. It does not
// cover the running state, the node, the limits, or other settings. with is another object that
// the step depends on.
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

// spec has the fields that a caller can wish for; a command is never among them. If a container
// has no limit of cores, the field is missing, because no wish can say "none".
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
