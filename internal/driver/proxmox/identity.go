package proxmox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
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
	return op.Incarnation(fmt.Sprintf(prefix+"%d:%s", g.vmid, hex.EncodeToString(sum[:20])))
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
// identity that no other guest has. Other hands can also make a volume again within one guest. So the id of a volume of a guest that this
// gate made has the time of its making, if Proxmox VE lists it, and says if it is in doubt.
func (g *guest) storageID(d drive) op.StorageID {
	id := fmt.Sprintf("pve:%s:%d:%s", d.volume, d.size, g.only())
	if made := g.times[d.volume]; made != "" && g.birth() != "" {
		id += ":" + made
	}
	if g.birth() != "" && g.doubted() {
		id += ":in doubt"
	}
	return op.StorageID(id)
}

// doubted reports whether other hands may have exchanged the disks of a guest that this gate made: Proxmox VE's flag, without which it
// deletes no disk, is off, or the driver found it off once.
func (g *guest) doubted() bool { return !g.protection || g.marker.disks == noDisk }

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

// marker is the gate's own line in a guest's description, because Proxmox VE has no field for
// its content. A user who may edit descriptions may edit it. The gate believes a birth token in
// it only if the gate's own journal issued that token.
//
// A clone and a restored backup have the description of the original. So the line names the
// vmid that it was written for, and under another vmid its birth does not count. Its protection
// and labels always count, because they only add protection.
type marker struct {
	there     bool
	vmid      int64
	birth     string
	disks     string // those that the step of that birth makes, as madeDisk names them, or noDisk; older gates wrote none, or keys alone
	protected bool
	labels    map[string]string
}

const markerStart = "gated:"

// noDisk is in the mark of a guest that was made without a disk, or that the driver found without Proxmox VE's flag. It proves none.
const noDisk = "none"

// madeDisk names a disk in a mark before Proxmox VE gives it a volume. Where the size is known, ":" and the size in bytes follow.
func madeDisk(key, storage string) string { return key + "=" + storage }

// made reports whether the step of the mark's birth may have made a disk: under that key, on that storage, of that size, and with
// the guest's own number in its volume's name.
func (m marker) made(d drive) bool {
	storage, _, _ := strings.Cut(d.volume, ":")
	disk := madeDisk(d.key, storage)
	return numberOfVolume(d.volume) == m.vmid && slices.ContainsFunc(strings.Fields(m.disks), func(made string) bool {
		return made == disk || made == fmt.Sprintf("%s:%d", disk, d.size)
	})
}

// maxDescription is the schema's bound, in bytes.
const maxDescription = 8192

// parseMarker finds the line. A description without a line is allowed. A description with two
// lines, or with a line that cannot be read, is an error, because the line may have labels that
// protect.
func parseMarker(description string) (marker, error) {
	var m marker
	for line := range strings.SplitSeq(description, "\n") {
		text, ok := strings.CutPrefix(line, markerStart)
		if !ok {
			continue
		}
		if m.there {
			return marker{}, fmt.Errorf("the description has two lines that begin with %q", markerStart)
		}
		p, err := op.ParseParams([]byte(strings.TrimSpace(text)))
		if err != nil {
			return marker{}, fmt.Errorf("the description's line %q cannot be read: %s", markerStart, refusal.As(err).Detail)
		}
		if m, err = readMarker(p); err != nil {
			return marker{}, err
		}
	}
	return m, nil
}

func readMarker(p op.Params) (marker, error) {
	m := marker{there: true, vmid: p.Int("vmid"), birth: p.Str("birth"), disks: p.Str("disks"), protected: p.Bool("protected"), labels: p.Labels("labels")}
	if back := m.params(); !back.Equal(p) {
		return marker{}, fmt.Errorf("the description's line %q has something in it that the gate did not write", markerStart)
	}
	return m, nil
}

func (m marker) params() op.Params {
	labels := make(map[string]any, len(m.labels))
	for k, v := range m.labels {
		labels[k] = v
	}
	p := op.Params{"vmid": m.vmid, "protected": m.protected, "labels": labels}
	if m.birth != "" {
		p["birth"] = m.birth
		if m.disks != "" {
			p["disks"] = m.disks
		}
	}
	return p
}

// in returns the description with the line added or replaced. If the API would refuse the
// description, the error is Oversized.
func (m marker) in(description string) (string, error) {
	lines := []string{}
	for line := range strings.SplitSeq(strings.TrimRight(description, "\n"), "\n") {
		if !strings.HasPrefix(line, markerStart) && (line != "" || len(lines) > 0) {
			lines = append(lines, line)
		}
	}
	lines = append(lines, markerStart+" "+string(m.params().Canonical()))
	text := strings.Join(lines, "\n")
	// The API counts characters. Bytes are never fewer, so this bound is safe.
	if len(text) > maxDescription {
		return "", refusal.New(refusal.Oversized,
			"the guest's description would have %d bytes with these labels, more than Proxmox VE's %d", len(text), maxDescription)
	}
	return text, nil
}
