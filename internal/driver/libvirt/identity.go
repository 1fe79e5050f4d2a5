package libvirt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"gated/internal/op"
)

// birth is the token of the step that made the guest. Whoever may define domains
// can write it with the UUID that it belongs to; the disk that it was written for
// cannot be made again. It counts while that is all that a destroy would take of
// files: what other hands put in was not made by that step.
func (g *guest) birth() string {
	made := false
	for _, k := range g.disks {
		switch {
		case string(k.id) == g.mark.disk && !k.weak:
			made = true
		case k.deletable():
			return ""
		}
	}
	if !made || g.takesNVRAM() {
		return ""
	}
	return g.mark.birth
}

// incarnation names the guest in a way that no name, no UUID and no copied
// metadata can: its disks are in it, each by what it is and not by its path.
func (g *guest) incarnation() op.Incarnation {
	h := sha256.New()
	for _, k := range g.disks {
		if k.medium {
			continue // a CD that is put in makes nobody another one
		}
		fmt.Fprintf(h, "%s\x00%s\x00", k.target, k.id)
	}
	generation := g.mark.generation
	if generation == "" {
		generation = "-"
	}
	return op.Incarnation("libvirt:" + g.xml.UUID + ":" + generation + ":" + hex.EncodeToString(h.Sum(nil)[:12]))
}

// lingers says what is left of an incarnation that is not what was found: the
// domain with its UUID, under whatever name and with whatever disks.
func lingers(all []*domain, wanted, found op.Incarnation) string {
	rest, ours := strings.CutPrefix(string(wanted), "libvirt:")
	uuid, _, _ := strings.Cut(rest, ":")
	if !ours || wanted == found {
		return ""
	}
	for _, dom := range all {
		if strings.EqualFold(uuidOf(dom.UUID), uuid) {
			return fmt.Sprintf("the domain %s is still there, as %s, and not as it was", uuid, op.Shown(dom.Name))
		}
	}
	return ""
}
