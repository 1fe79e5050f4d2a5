package libvirt

import (
	"context"
	"fmt"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// lacks names what an earlier definition of the guest has and its present one has not: "" if nothing. A snapshot or a saved state brings
// its definition back, and no look at the guest says whose files and devices are in that.
func (g *guest) lacks(was *definitionXML) (string, error) {
	if was == nil || !sameDisks(was.Disks, g.xml.Disks) {
		return "other disks", nil
	}
	now, err := parseXML[definitionXML](g.text)
	if err != nil {
		return "", err
	}
	if len(was.Args) > 0 && !slices.Equal(was.Args, now.Args) {
		return "another command line of QEMU", nil
	}
	have, err := naming(g.text)
	if err != nil {
		return "", err
	}
	had, err := naming("<domain>" + was.Inner + "</domain>")
	for _, p := range had {
		if !slices.Contains(have, p) {
			return op.Shown(p.text), err
		}
	}
	return "", err
}

// part is something of the host that a definition names.
type part struct {
	text string // for people
	all  string // all that is known of it, to compare
}

// naming lists what a definition names of the host beside the files of disks, which are compared as disks.
func naming(text string) ([]part, error) {
	var out []part
	all, err := heldIn(text)
	for _, h := range all {
		out = append(out, part{h.slot, fmt.Sprint(h)})
	}
	for _, n := range namesIn(text) {
		out = append(out, part{n.path + " (" + n.slot + ")", ""})
	}
	return out, err
}

// goesOn refuses a start from a saved state that has more than the guest has now: libvirtd goes on with the definition in it.
func (w *work) goesOn(ctx context.Context) error {
	if !w.guest.saved || w.guest.active {
		return nil
	}
	text, err := call(ctx, w.session, func(lv *golibvirt.Libvirt) (string, error) { return lv.DomainManagedSaveGetXMLDesc(w.guest.Domain, 0) })
	if err != nil {
		return err
	}
	was, err := parseXML[definitionXML](text)
	if err != nil {
		return err
	}
	more, err := w.guest.lacks(&was)
	if err == nil && more != "" {
		err = refusal.New(refusal.Conflict, "%s had %s when its state was saved", w.step.Target, more).
			WithHint("its start would bring that back: define the guest as it was then first, or remove its saved state (virsh managedsave-remove %s)", w.step.Target.Name)
	}
	return err
}

// again looks at the guest once more, right before the work, because other hands may have given it a disk, or its disk to another
// guest. It refuses another guest.
func (w *work) again(ctx context.Context) (*work, error) {
	now := *w
	var seen op.Observed
	var err error
	if now.guest, seen, err = w.look(ctx, w.session, op.At(w.step.Target)); err != nil {
		return nil, err
	}
	if seen.Incarnation != w.guest.incarnation() {
		return nil, stale("%s was changed meanwhile", w.step.Target)
	}
	return &now, nil
}
