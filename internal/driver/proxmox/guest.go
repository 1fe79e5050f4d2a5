package proxmox

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// row is a guest in the cluster's list. Its name and state are some seconds old, and a new
// guest may have none yet. It says where to look.
type row struct {
	vmid     int64
	node     string
	kind     string
	name     string
	status   string
	template bool
	text     string // a change of the guest shows in this text
}

// rowsOf reads the list. If one vmid is there twice with the same row, it is one guest. If the
// rows differ, neither can be trusted.
func rowsOf(list []object) ([]row, error) {
	var rows []row
	at := map[int64]row{}
	for _, o := range list {
		if o["type"] != qemu && o["type"] != lxc {
			continue
		}
		vmid, err := o.integer("vmid")
		if err != nil || vmid <= 0 || o["node"] == "" {
			return nil, fmt.Errorf("a list of guests with one that has no vmid or no node")
		}
		r := row{vmid: vmid, node: o["node"], kind: o["type"], name: o["name"], status: o["status"], template: isTrue(o["template"])}
		for _, key := range []string{"node", "name", "status", "template", "lock", "tags", "pool", "hastate", "maxmem", "maxcpu", "maxdisk"} {
			r.text += key + "=" + strconv.Quote(o[key]) + " "
		}
		if before, twice := at[vmid]; twice {
			if before != r {
				return nil, fmt.Errorf("a list of guests with two different ones under the vmid %d", vmid)
			}
			continue
		}
		at[vmid] = r
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return int(a.vmid - b.vmid) })
	return rows, nil
}

// guest is a machine or a container in one normal form.
type guest struct {
	row
	status string // "running", "stopped" or what else Proxmox VE says
	lock   string
	ha     bool // the HA manager starts and stops it
	tags   []string

	uuid, genid, ctime string
	drives             []drive // attached now or at the next start, by key
	unused             []drive
	hwaddrs            []string
	fromNode           map[string]string // what its node gives it, and the key that names it
	temporary          bool              // QEMU throws away what the machine writes to any disk
	rewinds            bool              // QEMU takes its disks back with each start

	memory     int64 // MiB
	used       int64 // MiB that a running container holds
	cpus       int64 // 0: no limit
	sockets    int64
	protection bool // Proxmox VE's own flag
	marker     marker
	text       string // the description
	digest     string // of the configuration; a change that names it fails if the configuration changed

	snapshots []snapshot
	parent    string // the snapshot that the current data is based on

	times map[string]string // when volumes were made, in seconds since 1970; nil if the look did not ask

	taken []string // the volumes that the look's step takes or overwrites
	users []user   // who else has them
	jobs  []job    // those that copy them to other nodes

	shares []string // what it would write that another guest has too, if the look's step starts it

	own, others []backup // under its number, if the look has listed them
	listed      bool
}

type snapshot struct {
	name string
	time string // when it was taken, in seconds since 1970
}

// ident identifies a snapshot. A later snapshot of the same name has another time.
func (s snapshot) ident() string { return s.name + "@" + s.time }

// taken is when it was taken, in seconds since 1970; 0 if Proxmox VE does not say.
func (s snapshot) taken() int64 {
	n, _ := strconv.ParseInt(s.time, 10, 64)
	return n
}

// named returns the guest's name, which has a different key for each kind.
func named(kind string, config object) string {
	if kind == lxc {
		return config["hostname"]
	}
	return config["name"]
}

// normalise builds a guest. wished is the configuration for the next start, current is the one
// in force. A disk in either belongs to the guest. All other fields come from wished.
func normalise(r row, wished, current object, snapshots []object) (*guest, error) {
	g, err := outline(r, wished, current, snapshots)
	if err != nil {
		return nil, err
	}
	g.tags = strings.FieldsFunc(wished["tags"], func(r rune) bool { return strings.ContainsRune(";, ", r) })
	slices.Sort(g.tags)
	if g.marker, err = parseMarker(g.text); err != nil {
		return nil, err
	}
	if g.memory, err = parseMemory(wished["memory"]); err != nil {
		return nil, err
	}
	if err := g.readCPUs(wished); err != nil {
		return nil, err
	}
	return g, nil
}

// outline is normalise without what a gate adds and people write: settings, marks and tags. It is enough to say what the guest has,
// also of one whose description is odd.
func outline(r row, wished, current object, snapshots []object) (*guest, error) {
	g := &guest{row: r, status: r.status, lock: wished["lock"], digest: wished["digest"], text: wished["description"],
		protection: isTrue(wished["protection"]), parent: wished["parent"]}
	if g.digest == "" || g.digest != current["digest"] {
		return nil, errMoved
	}
	g.name, g.template = named(r.kind, wished), isTrue(wished["template"])
	g.uuid, g.genid, g.ctime = strings.ToLower(option(wished["smbios1"], "uuid")), strings.ToLower(wished["vmgenid"]), option(wished["meta"], "ctime")
	g.readDrives(wished, current)
	for _, s := range snapshots {
		if s["name"] != "current" {
			g.snapshots = append(g.snapshots, snapshot{s["name"], s["snaptime"]})
		}
	}
	slices.SortFunc(g.snapshots, func(a, b snapshot) int { return strings.Compare(a.ident(), b.ident()) })
	g.snapshots = slices.Compact(g.snapshots)
	return g, nil
}

// readCPUs multiplies a machine's cores by its sockets. A container without cores has all of
// the node's.
func (g *guest) readCPUs(config object) error {
	cores, err := config.integer("cores")
	if err != nil {
		return err
	}
	g.sockets, g.cpus = 1, cores
	if g.kind == lxc {
		return nil
	}
	sockets, err := config.integer("sockets")
	if err != nil {
		return err
	}
	g.sockets = max(sockets, 1)
	g.cpus = max(cores, 1) * g.sockets
	return nil
}

// readDrives takes the disks of both configurations. A disk that the next stop detaches is
// still there, and a disk that the next start attaches already belongs to the guest.
func (g *guest) readDrives(wished, current object) {
	g.fromNode = map[string]string{}
	for _, view := range []object{current, wished} {
		for _, key := range slices.Sorted(maps.Keys(view)) {
			switch {
			case isDisk(g.kind, key):
				g.drives = with(g.drives, parseDrive(key, view[key]))
			case unusedDisk().MatchString(key):
				g.unused = with(g.unused, parseDrive(key, view[key]))
			case network().MatchString(key):
				if m := hwaddr().FindStringSubmatch(view[key]); m != nil && !slices.Contains(g.hwaddrs, strings.ToLower(m[1])) {
					g.hwaddrs = append(g.hwaddrs, strings.ToLower(m[1]))
				}
			default:
				g.rewinds = g.rewinds || key == "args" && rewinding().MatchString(view[key])
				g.temporary = g.temporary || key == "args" && temporary().MatchString(view[key])
				for _, what := range ofNode(key, view[key]) {
					g.fromNode[what] = key
				}
			}
		}
	}
	slices.Sort(g.hwaddrs)
}

// with adds a drive. If both configurations have the volume, the later drive counts.
func with(drives []drive, d drive) []drive {
	for i, have := range drives {
		if have.key == d.key && have.volume == d.volume {
			d.lost = d.lost || have.lost // it runs as it was at its start
			drives[i] = d
			return drives
		}
	}
	return append(drives, d)
}

// drive returns the disk that a step names. It must be a volume of a storage, attached or
// unused.
func (g *guest) drive(key string) (drive, bool) {
	for _, d := range slices.Concat(g.drives, g.unused) {
		if d.key == key && d.owned() {
			return d, true
		}
	}
	return drive{}, false
}

// birth is the token in the description, if it was written for this vmid. A copied description
// has another guest's vmid.
func (g *guest) birth() string {
	if g.marker.vmid != g.vmid {
		return ""
	}
	return g.marker.birth
}

// proven is the birth if the guest holds nothing but what the step of that birth made. Other hands can give a guest a disk or
// a snapshot before the gate looks at it, also a disk in the place of its own, and its maker may destroy it unsigned.
func (g *guest) proven() string {
	keys := map[string]bool{}
	for _, d := range slices.Concat(g.drives, g.unused) {
		if !d.owned() {
			continue
		}
		if keys[d.key] || !g.marker.made(d) { // one that waits for the next start is a second one under its key
			return ""
		}
		keys[d.key] = true
	}
	if len(g.snapshots) > 0 {
		return ""
	}
	return g.birth()
}

// protected is the operator's wish. For a guest with the gate's mark, the mark says it, because
// Proxmox VE's flag is always on there. For a guest without the mark, Proxmox VE's flag says
// it.
func (g *guest) protected() bool {
	if g.marker.there {
		return g.marker.protected
	}
	return g.protection
}

// labels are the mark's labels, and the guest's tags as labels without a value.
func (g *guest) labels() map[string]string {
	all := map[string]string{}
	for _, t := range g.tags {
		all[t] = ""
	}
	maps.Copy(all, g.marker.labels)
	return all
}

// temporary is QEMU's own option for that.
var temporary = pattern(`(^|\s)['"]?--?snapshot['"]?(\s|$)`)

// volatile reports if a machine loses its data when it stops: it has no disk, or a disk that
// does not keep changes.
func (g *guest) volatile() bool {
	if g.kind == lxc {
		return false
	}
	if g.temporary {
		return true
	}
	keeps := false
	for _, d := range g.drives {
		if d.cdrom || d.volume == "none" || d.key == "efidisk0" || d.key == "tpmstate0" {
			continue
		}
		if d.lost {
			return true
		}
		keeps = true
	}
	return !keeps
}
