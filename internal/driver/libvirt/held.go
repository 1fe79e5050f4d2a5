package libvirt

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
)

// held is an object of the network or of the host that a definition gives to its guest. Files
// below a disk are not among them.
type held struct {
	slot string // for people: "vda", "the directory /srv"
	// Objects of different kinds are never the same. Objects of one kind are compared by the
	// names that both have.
	kind   string
	by     map[string]string
	file   string // compared as a disk's file is, and with no other held
	dir    string // a directory, without links; the guest holds everything in it
	object string // the identity of dir
	writes bool   // the running guest writes it, and should be the only one that does
	stays  bool   // it is no disk and no device: every step leaves it
	hides  string // why it may be any file of this host; "" if it is known
	loses  bool   // what the guest writes there is lost when it stops
}

// same reports whether two are the same object, or may be. A name that only one of them has
// decides nothing.
func (h held) same(o held) (same, perhaps bool) {
	if h.dir != "" && o.dir != "" {
		return h.object != "" && h.object == o.object || inside(h.dir, o.dir) || inside(o.dir, h.dir), false
	}
	if h.kind != o.kind {
		return false, false
	}
	both := 0
	for name, value := range h.by {
		other, named := o.by[name]
		if named && other != value {
			return false, false
		}
		if named {
			both++
		}
	}
	return both > 0, both == 0
}

// inside reports whether a path is the directory or lies below it. Both are resolved.
func inside(at, dir string) bool { return at == dir || below(at, dir) }

func below(at, dir string) bool {
	return at != dir && strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/")
}

// resolved is a path without links, as far as it exists and this daemon may see it.
func resolved(at string) string {
	at = filepath.Clean(at)
	if real, err := filepath.EvalSymlinks(at); err == nil {
		return real
	}
	up := filepath.Dir(at)
	if up == at {
		return at
	}
	return filepath.Join(resolved(up), filepath.Base(at))
}

// heldXML is the part of a domain's XML that describes held objects.
type heldXML struct {
	NVRAM       originXML       `xml:"os>nvram>source"`
	Disks       []layerXML      `xml:"devices>disk"`
	Filesystems []filesystemXML `xml:"devices>filesystem"`
	Hostdevs    []hostdevXML    `xml:"devices>hostdev"`
	Interfaces  []hostdevXML    `xml:"devices>interface"`
	Shmems      []shmemXML      `xml:"devices>shmem"`
	Args        []argXML        `xml:"commandline>arg"`
}

// layerXML is a disk, or a layer below one.
type layerXML struct {
	Type    string    `xml:"type,attr"`
	Device  string    `xml:"device,attr"`
	Source  originXML `xml:"source"`
	Backing *layerXML `xml:"backingStore"`
	Mirror  *layerXML `xml:"mirror"`
	Target  struct {
		Dev string `xml:"dev,attr"`
	} `xml:"target"`
	ReadOnly  *struct{} `xml:"readonly"`
	Shareable *struct{} `xml:"shareable"`
}

type filesystemXML struct {
	Type     string    `xml:"type,attr"`
	Source   originXML `xml:"source"`
	ReadOnly *struct{} `xml:"readonly"`
}

type hostdevXML struct {
	Type      string    `xml:"type,attr"`
	Source    originXML `xml:"source"`
	ReadOnly  *struct{} `xml:"readonly"`
	Shareable *struct{} `xml:"shareable"`
}

// shmemXML is memory that guests are meant to share.
type shmemXML struct {
	Name string `xml:"name,attr"`
}

// originXML is the source of a device, in any of its forms.
type originXML struct {
	File     string `xml:"file,attr"`
	Dev      string `xml:"dev,attr"`
	Dir      string `xml:"dir,attr"`
	Path     string `xml:"path,attr"`
	Socket   string `xml:"socket,attr"`
	Pool     string `xml:"pool,attr"`
	Volume   string `xml:"volume,attr"`
	Protocol string `xml:"protocol,attr"`
	Name     string `xml:"name,attr"`
	WWPN     string `xml:"wwpn,attr"`
	Adapter  struct {
		Name string `xml:"name,attr"`
	} `xml:"adapter"`
	Vendor  idXML      `xml:"vendor"`
	Product idXML      `xml:"product"`
	Address addressXML `xml:"address"`
	Block   string     `xml:"block"`
}

type idXML struct {
	ID string `xml:"id,attr"`
}

type addressXML struct {
	Domain   string `xml:"domain,attr"`
	Bus      string `xml:"bus,attr"`
	Slot     string `xml:"slot,attr"`
	Function string `xml:"function,attr"`
	Target   string `xml:"target,attr"`
	Unit     string `xml:"unit,attr"`
	Device   string `xml:"device,attr"`
	UUID     string `xml:"uuid,attr"`
}

// heldIn finds the held objects in a domain's XML. The guest does not write the layers below a
// disk, or the target of a copy.
func heldIn(text string) ([]held, error) {
	x, err := parseXML[heldXML](text)
	if err != nil {
		return nil, err
	}
	var out []held
	add := func(h held, ok bool) {
		if ok {
			out = append(out, h)
		}
	}
	add(x.NVRAM.network("nvram", true))
	for _, d := range x.Disks {
		medium := diskXML{Device: d.Device}.medium()
		add(d.held(d.Target.Dev, !medium && d.ReadOnly == nil && d.Shareable == nil))
		for _, below := range []*layerXML{d.Backing, d.Mirror} {
			for depth := 0; below != nil && depth < maxChain; depth++ {
				add(below.held(d.Target.Dev, false))
				below = below.Backing
			}
		}
	}
	for _, f := range x.Filesystems {
		h, ok := f.held()
		h.stays = true
		add(h, ok)
	}
	for _, d := range x.Hostdevs {
		add(d.held())
	}
	for _, d := range x.Interfaces {
		if d.Type == "hostdev" {
			d.Type = "pci"
			add(d.held())
		}
	}
	for _, m := range x.Shmems {
		add(held{slot: "the shared memory " + m.Name, kind: "shmem", by: map[string]string{"name": m.Name}}, true)
	}
	return append(out, heldBy(x.Args)...), nil
}

// staying names what a definition gives to its guest and every step leaves.
func staying(all []held) []string {
	var out []string
	for _, h := range all {
		if text := op.Shown(h.slot); h.stays && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	slices.Sort(out)
	return out
}

// files are types of disks whose files are followed, and directories.
var files = map[string]bool{"": true, "file": true, "block": true}

func (d layerXML) held(slot string, writes bool) (held, bool) {
	s := d.Source
	switch {
	case s == (originXML{}), files[d.Type]:
		return held{}, false // a drive without a medium holds nothing
	case d.Type == "dir":
		return directory(slot, s.Dir, writes), true
	case d.Type == "network":
		return s.network(slot, writes)
	case d.Type == "volume":
		return held{slot: slot, kind: "volume", by: map[string]string{"name": s.Pool + "/" + s.Volume}, writes: writes}, true
	case d.Type == "nvme":
		return held{slot: slot, kind: "pci", by: s.Address.pci(), writes: writes}, true
	case s.Path+s.Dev != "": // vhostuser, vhostvdpa
		return held{slot: slot, kind: "path", by: map[string]string{"path": resolved(s.Path + s.Dev)}, writes: writes}, true
	}
	return held{slot: slot, kind: "a disk of type " + d.Type, writes: writes}, true
}

// network is a disk on a server. Two lists of hosts can name one cluster, so the hosts are not
// compared.
func (s originXML) network(slot string, writes bool) (held, bool) {
	if s.Protocol == "" {
		return held{}, false
	}
	name := strings.TrimPrefix(path.Clean("/"+s.Name), "/")
	switch s.Protocol {
	case "rbd":
		name, _, _ = strings.Cut(name, "@") // a snapshot of the image
	case "iscsi":
		if name = strings.ToLower(name); !strings.Contains(name, "/") {
			name += "/0"
		}
	}
	return held{slot: slot, kind: s.Protocol, by: map[string]string{"name": name}, writes: writes}, true
}

func directory(slot, dir string, writes bool) held {
	h := held{slot: slot, kind: "directory", dir: resolved(dir), writes: writes}
	if st, err := statOf(h.dir); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		h.object = fmt.Sprintf("%d:%d:%d", st.Dev_major, st.Dev_minor, st.Ino)
	}
	return h
}

func (f filesystemXML) held() (held, bool) {
	s, writes := f.Source, f.ReadOnly == nil
	switch {
	case s.Dir != "":
		return directory("the directory "+s.Dir, s.Dir, writes), true
	case s.Socket != "":
		return held{slot: "the directory behind " + s.Socket, kind: "path", by: map[string]string{"path": resolved(s.Socket)}, writes: writes}, true
	case s.File+s.Dev != "":
		return held{slot: "the file system on " + s.File + s.Dev, file: s.File + s.Dev, writes: writes}, true
	case s.Volume != "":
		name := s.Pool + "/" + s.Volume
		return held{slot: "the volume " + name, kind: "volume", by: map[string]string{"name": name}, writes: writes}, true
	}
	return held{}, false
}

// held is a device of the host. One guest may name it by vendor and product, and another by the
// place where it is plugged in.
func (d hostdevXML) held() (held, bool) {
	s, a := d.Source, d.Source.Address
	h := held{kind: d.Type, by: map[string]string{}, writes: d.ReadOnly == nil && d.Shareable == nil}
	switch {
	case d.Type == "pci":
		h.by = a.pci()
	case d.Type == "usb":
		if s.Vendor.ID+s.Product.ID != "" {
			h.by["id"] = number(s.Vendor.ID, 4) + ":" + number(s.Product.ID, 4)
		}
		if at := decimal(a.Bus) + "." + decimal(a.Device); at != "0.0" {
			h.by["at"] = at
		}
	case d.Type == "scsi" && s.Protocol != "":
		h, _ = s.network("", h.writes)
	case d.Type == "scsi":
		h.by["at"] = s.Adapter.Name + ":" + decimal(a.Bus) + ":" + decimal(a.Target) + ":" + decimal(a.Unit)
	case d.Type == "scsi_host":
		h.by["wwpn"] = strings.ToLower(s.WWPN)
	case d.Type == "mdev":
		h.by["uuid"] = strings.ToLower(a.UUID)
	case strings.TrimSpace(s.Block) != "": // of a container
		h.file = strings.TrimSpace(s.Block)
		h.by["at"] = h.file
	default:
		return held{}, false
	}
	name := h.by["name"]
	for _, form := range []string{"at", "id", "wwpn", "uuid"} {
		if name == "" {
			name = h.by[form]
		}
	}
	h.slot = "the host device " + h.kind + " " + name
	return h, true
}

func (a addressXML) pci() map[string]string {
	return map[string]string{"at": number(a.Domain, 4) + ":" + number(a.Bus, 2) + ":" + number(a.Slot, 2) + "." + number(a.Function, 1)}
}

// number writes a number of libvirt's in one form: hexadecimal. libvirt writes it decimal or
// with 0x. Other text stays as it is.
func number(text string, digits int) string {
	n, err := strconv.ParseUint(orElse(text, "0"), 0, 64)
	if err != nil {
		return strings.ToLower(text)
	}
	return fmt.Sprintf("%0*x", digits, n)
}

func decimal(text string) string {
	n, err := strconv.ParseUint(orElse(text, "0"), 0, 64)
	if err != nil {
		return text
	}
	return strconv.FormatUint(n, 10)
}

// sharing collects what a guest shares with which other guests, in parts of a sentence.
type sharing struct {
	guest *guest
	said  []string
}

func (s *sharing) say(format, slot string, args ...any) {
	text := op.Shown(slot) + ", " + fmt.Sprintf(format, args...)
	if !slices.Contains(s.said, text) {
		s.said = append(s.said, text)
	}
}

// sharing lists what the running guest writes and another guest has too. It leaves out what the
// configuration marks as read only or as shared.
func (g *guest) sharing() []string {
	s := &sharing{guest: g}
	var written []disk
	for _, k := range g.disks {
		if k.shared || k.readonly { // each CD is
			continue
		}
		if k.path != "" && !filepath.IsAbs(k.path) { // an RBD volume of a pool
			s.thing(held{slot: k.target, kind: "rbd", by: map[string]string{"name": k.path}})
		}
		written = append(written, k)
	}
	if at := g.xml.OS.NVRAM.path(); at != "" {
		written = append(written, disk{target: "nvram", path: at})
	}
	for _, mine := range g.held {
		switch {
		case !mine.writes:
		case mine.hides != "": // a doubt, too
		case mine.file != "":
			written = append(written, disk{target: mine.slot, path: mine.file})
		default:
			s.thing(mine)
		}
	}
	for _, k := range written {
		s.file(k)
	}
	for _, n := range g.names {
		if !n.disk && !slices.Contains([]string{"filesystem", "hostdev", "nvram"}, n.slot) { // those are compared above
			s.named(n)
		}
	}
	for _, d := range g.used.doubts {
		if d.line && d.writes && d.dom.UUID == g.UUID && len(g.used.all) > 1 {
			s.say("which may be a disk of any other guest: %s", commandLine, op.Shown(d.why))
		}
	}
	slices.Sort(s.said)
	return s.said
}

// others calls each with everything that each other domain holds, as configured and as it runs.
func (s *sharing) others(each func(*domain, held)) {
	for _, dom := range s.guest.used.all {
		if dom.UUID == s.guest.UUID {
			continue
		}
		for _, theirs := range slices.Concat(dom.held, dom.heldLive) {
			each(dom, theirs)
		}
	}
}

// hidden names the guests of which a command line may name anything.
func (s *sharing) hidden(slot string) {
	for _, d := range s.guest.used.doubts {
		if d.line && d.dom.UUID != s.guest.UUID {
			s.say("which guest %s may use as well", slot, op.Shown(d.dom.Name))
		}
	}
}

// file compares a file or a device.
func (s *sharing) file(k disk) {
	s.hidden(k.target)
	others, _ := s.guest.used.of(s.guest.domain, k)
	for _, other := range others {
		s.say("which guest %s uses as well", k.target, op.Shown(other.Name))
	}
	if !filepath.IsAbs(k.path) {
		return
	}
	at := s.guest.used.resolved(k.path)
	s.others(func(other *domain, theirs held) {
		if theirs.dir != "" && inside(at, theirs.dir) {
			s.say("which lies in a directory that guest %s has", k.target, op.Shown(other.Name))
		}
	})
}

// named compares a file that the guest has as no disk, such as the log or the socket of a port: a start may empty or replace it. Two
// guests may have one file in one place, such as a kernel.
func (s *sharing) named(n named) {
	if st, err := statOf(n.path); err == nil && objectOf(st) == "" {
		return // a socket or a device that keeps nothing
	}
	keys, _ := keysOf(n.path) // at least the path
	for _, key := range keys {
		for _, x := range s.guest.used.by[key] {
			switch {
			case x.dom.UUID != s.guest.UUID && x.slot != n.slot:
				s.say("which guest %s uses as well", n.path+" ("+n.slot+")", op.Shown(x.dom.Name))
			case x.dom.UUID == s.guest.UUID && slices.ContainsFunc(s.guest.disks, func(k disk) bool { return k.target == x.slot }):
				s.say("which is its own disk %s", n.path+" ("+n.slot+")", op.Shown(x.slot))
			}
		}
	}
}

// thing compares an object that is no file.
func (s *sharing) thing(mine held) {
	s.hidden(mine.slot)
	s.others(func(other *domain, theirs held) {
		switch same, perhaps := mine.same(theirs); {
		case same:
			s.say("which guest %s uses as well", mine.slot, op.Shown(other.Name))
		case perhaps:
			s.say("which guest %s may use as well", mine.slot, op.Shown(other.Name))
		}
	})
	for at, by := range s.guest.used.by {
		volume := mine.kind == "rbd" && at == mine.by["name"] // a pool names it so
		if !volume && !(mine.dir != "" && filepath.IsAbs(at) && below(s.guest.used.resolved(at), mine.dir)) {
			continue
		}
		for _, x := range by {
			switch {
			case x.dom.UUID == s.guest.UUID, x.slot == "filesystem": // such a slot also names a place in the guest
			case volume:
				s.say("which guest %s uses as well", mine.slot, op.Shown(x.dom.Name))
			default:
				s.say("where guest %s has %s", mine.slot, op.Shown(x.dom.Name), op.Shown(x.slot))
			}
		}
	}
}
