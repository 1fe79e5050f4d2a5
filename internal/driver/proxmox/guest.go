package proxmox

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// row is a guest in the cluster's list. Names and states in it are some seconds
// old, and of a new guest there may be none yet: it says where to look.
type row struct {
	vmid     int64
	node     string
	kind     string
	name     string
	status   string
	template bool
	text     string // all that shows that something changed
}

// rowsOf reads the list. One vmid twice is one guest; if the two differ, nobody
// knows which is true.
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

// guest is a guest of either kind in one normal form.
type guest struct {
	row
	status string // "running", "stopped" or what else Proxmox VE says
	lock   string
	ha     string
	tags   []string

	uuid, genid, ctime string
	drives             []drive // attached, in force or wished for, by key
	unused             []drive
	hwaddrs            []string
	fromNode           map[string]string // what it has of its node, and the key that gives it

	memory     int64 // MiB
	cpus       int64 // 0: no limit
	sockets    int64
	protection bool // Proxmox VE's own flag
	marker     marker
	text       string // the description
	digest     string // of the configuration, for a change that depends on it

	snapshots []snapshot
	parent    string // the snapshot that the data goes on from
}

type snapshot struct {
	name string
	time string // when it was taken, in seconds since 1970
}

// ident spells who a snapshot is: another one of its name has another time.
func (s snapshot) ident() string { return s.name + "@" + s.time }

// named returns the guest's name, which each kind has under a key of its own.
func named(kind string, config object) string {
	if kind == lxc {
		return config["hostname"]
	}
	return config["name"]
}

// normalise puts a guest together. wished is the configuration with changes that
// wait for the next start, current the one in force: a disk that either has is the
// guest's, and all other fields are as wished.
func normalise(r row, wished, current object, snapshots []object) (*guest, error) {
	g := &guest{row: r, status: r.status, lock: wished["lock"], digest: wished["digest"], text: wished["description"],
		protection: isTrue(wished["protection"]), parent: wished["parent"]}
	if g.digest == "" || g.digest != current["digest"] {
		return nil, errMoved
	}
	g.name, g.template = named(r.kind, wished), isTrue(wished["template"])
	g.tags = strings.FieldsFunc(wished["tags"], func(r rune) bool { return strings.ContainsRune(";, ", r) })
	slices.Sort(g.tags)
	var err error
	if g.marker, err = parseMarker(g.text); err != nil {
		return nil, err
	}
	if g.memory, err = parseMemory(wished["memory"]); err != nil {
		return nil, err
	}
	if err := g.readCPUs(wished); err != nil {
		return nil, err
	}
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

// readCPUs multiplies a machine's sockets; a container without cores has all of
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

// readDrives takes the disks of both views: one that is to be detached at the next
// stop is still there, and one that is to be attached then is the guest's already.
func (g *guest) readDrives(wished, current object) {
	g.fromNode = map[string]string{}
	for _, view := range []object{current, wished} {
		for _, key := range slices.Sorted(maps.Keys(view)) {
			switch {
			case isDisk(g.kind, key):
				g.drives = with(g.drives, parseDrive(key, view[key]))
			case unusedDisk.MatchString(key):
				g.unused = with(g.unused, parseDrive(key, view[key]))
			case network.MatchString(key):
				if m := hwaddr.FindStringSubmatch(view[key]); m != nil && !slices.Contains(g.hwaddrs, strings.ToLower(m[1])) {
					g.hwaddrs = append(g.hwaddrs, strings.ToLower(m[1]))
				}
			default:
				for _, what := range ofNode(key, view[key]) {
					g.fromNode[what] = key
				}
			}
		}
	}
	slices.Sort(g.hwaddrs)
}

// with adds a drive; of two views of one volume the later counts.
func with(drives []drive, d drive) []drive {
	for i, have := range drives {
		if have.key == d.key && have.volume == d.volume {
			drives[i] = d
			return drives
		}
	}
	return append(drives, d)
}

// drive returns the disk of a name that steps can use: a volume of a storage that
// is attached or unused.
func (g *guest) drive(key string) (drive, bool) {
	for _, d := range slices.Concat(g.drives, g.unused) {
		if d.key == key && d.owned() {
			return d, true
		}
	}
	return drive{}, false
}

// birth is the token in the description, if it was written for this vmid. A copied
// description has another's.
func (g *guest) birth() string {
	if g.marker.vmid != g.vmid {
		return ""
	}
	return g.marker.birth
}

// protected is the wish of people: the gate's mark, or, of a guest without one,
// Proxmox VE's flag. On what has the gate's mark that flag is always on, and says
// nothing.
func (g *guest) protected() bool {
	if g.marker.there {
		return g.marker.protected
	}
	return g.protection
}

// labels are those of the mark; the guest's tags are labels without a value.
func (g *guest) labels() map[string]string {
	all := map[string]string{}
	for _, t := range g.tags {
		all[t] = ""
	}
	maps.Copy(all, g.marker.labels)
	return all
}

// volatile holds for a machine that loses what it holds when it stops: it has no
// disk, or one whose changes are thrown away.
func (g *guest) volatile() bool {
	if g.kind == lxc {
		return false
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
