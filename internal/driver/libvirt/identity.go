package libvirt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"gated/internal/base/op"
)

// birth is the token of the step that made the guest. A caller who may define domains can write
// it with the UUID that it belongs to, but cannot make the guest's first disk again. The token
// counts only while a destroy would take no other files, because that step did not make files
// that others added.
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

// incarnation identifies the guest. A name, a UUID or copied metadata cannot fake it, because
// each disk is in it, by its identity and not by its path.
func (g *guest) incarnation() op.Incarnation {
	h := sha256.New()
	for _, k := range g.disks {
		if k.medium {
			continue // a CD in the drive does not change the incarnation
		}
		fmt.Fprintf(h, "%s\x00%s\x00", k.target, k.id)
	}
	generation := g.mark.generation
	if generation == "" {
		generation = "-"
	}
	return op.Incarnation("libvirt:" + g.xml.UUID + ":" + generation + ":" + hex.EncodeToString(h.Sum(nil)[:12]))
}

// lingers reports what is left of an incarnation that the look did not find. That is the domain
// with its UUID, under any name and with any disks.
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
