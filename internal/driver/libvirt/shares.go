package libvirt

import (
	"fmt"
	"path/filepath"
	"slices"

	"gated/internal/base/op"
)

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
		if k.shared || k.readonly || k.medium {
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
		case mine.file != "":
			written = append(written, disk{target: mine.slot, path: mine.file})
		default:
			s.thing(mine)
		}
	}
	for _, k := range written {
		s.file(k)
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

// file compares a file or a device.
func (s *sharing) file(k disk) {
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

// thing compares an object that is no file.
func (s *sharing) thing(mine held) {
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
