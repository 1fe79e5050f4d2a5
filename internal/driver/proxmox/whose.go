package proxmox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"gated/internal/base/refusal"
)

// Proxmox VE lists backups by number, and a number may have had several guests. Clocks do not tell whose a backup is, because
// nodes and this host have their own. The configuration in the backup does: it has what its guest alone had.

// self is what tells a guest from each other one, and stays while disks, settings and data change.
type self struct {
	kind    string
	uuid    string // of a machine
	made    string // when a machine was made, by its node's clock
	birth   string // from the mark, of a guest that this gate made
	hwaddrs []string
}

func (g *guest) self() self {
	return self{g.kind, g.uuid, g.ctime, g.birth(), g.hwaddrs}
}

// is reports whether two are one guest. What neither has is no proof.
func (s self) is(o self) bool {
	switch {
	case s.kind != o.kind || s.uuid != o.uuid || s.made != o.made:
		return false
	case s.uuid != "":
		return true
	case s.birth != o.birth:
		return false // other hands can copy a mark, so it is not enough
	case s.birth != "" && len(s.hwaddrs)+len(o.hwaddrs) == 0:
		return true
	}
	return slices.ContainsFunc(s.hwaddrs, func(a string) bool { return slices.Contains(o.hwaddrs, a) })
}

// isNot reports whether two are surely not one guest. Other hands can give a guest another uuid, other network addresses or another
// mark: one of them is no proof.
func (s self) isNot(o self) bool {
	apart := len(s.hwaddrs) > 0 && len(o.hwaddrs) > 0 && !slices.ContainsFunc(s.hwaddrs, func(a string) bool { return slices.Contains(o.hwaddrs, a) })
	switch {
	case s.kind != o.kind:
		return true
	case s.made != "" && o.made != "":
		return s.made != o.made && s.uuid != o.uuid
	case s.uuid != "" && o.uuid != "":
		return s.uuid != o.uuid && apart
	}
	return s.birth != o.birth && apart
}

// told names a guest for people, with what another one would not have that gets its number.
func (g *guest) told() string {
	s := g.self()
	alone := s.birth + " " + strings.Join(s.hwaddrs, " ")
	if s.uuid != "" { // network cards come and go
		alone = "uuid " + s.uuid
	}
	if s.made != "" {
		alone += " ctime " + s.made
	}
	return fmt.Sprintf("the guest %d (%s)", g.vmid, cmp.Or(strings.TrimSpace(alone), "nothing tells it from a later one"))
}

// texts is a self as the journal keeps it (op.Observed.Self).
func (s self) texts() []string {
	return append([]string{s.kind, s.uuid, s.made, s.birth}, s.hwaddrs...)
}

// selfOf is the reverse of texts. ok is false for nil.
func selfOf(texts []string) (s self, ok bool) {
	if len(texts) < 4 {
		return s, false
	}
	return self{texts[0], texts[1], texts[2], texts[3], texts[4:]}, true
}

// backups returns a guest's own backups on the configured storage, the newest first, and those of other guests that had its
// number. A backup of which nobody can tell whose it is is among the others. It lists them once in a look.
func (d *Driver) backups(ctx context.Context, g *guest) (own, others []backup, err error) {
	if g.listed {
		return g.own, g.others, nil
	}
	all, err := d.archives(ctx, g)
	if err != nil {
		return nil, nil, err
	}
	me, found, failed := g.self(), make([]told, len(all)), make([]error, len(all))
	sideBySide(all, func(i int, b backup) {
		if failed[i] = errUnread; !b.untold {
			found[i], failed[i] = d.archived(ctx, g, b)
		}
	})
	for i, b := range all {
		err := failed[i]
		switch {
		case err == nil && me.is(*found[i].self):
			b.disks = found[i].disks
			own = append(own, b)
			continue
		case err != nil && !errors.Is(err, errUnread):
			return nil, nil, unreachable(err)
		}
		b.untold = err != nil || !me.isNot(*found[i].self)
		others = append(others, b)
	}
	g.own, g.others, g.listed = own, others, true
	return own, others, nil
}

// errUnread is the error of a configuration in a backup that cannot be read.
var errUnread = errors.New("the configuration in the backup cannot be read")

// unreadFor is how long a backup that cannot be read is not asked for again.
const unreadFor = time.Minute

// told is whose a backup is, and the keys of the disks in it. Without self, its configuration could not be read.
type told struct {
	self  *self
	disks []string
	again time.Time // when one that could not be read is asked for again
}

// archived returns whose a backup is. Errors are those of the request, if a later one may get another answer, or errUnread.
func (d *Driver) archived(ctx context.Context, g *guest, b backup) (told, error) {
	key := g.kind + " " + b.ident()
	one, ok := d.told.get(key)
	if !ok || one.self == nil && !d.cfg.Now().Before(one.again) {
		was, err := d.extracted(ctx, g, b)
		if err != nil && !errors.Is(err, errUnread) && passing(err) {
			return one, err
		}
		if one.again = d.cfg.Now().Add(unreadFor); err == nil {
			s := was.self()
			one.self, one.disks = &s, was.backedUp()
		}
		d.told.put(key, one)
	}
	if one.self == nil {
		return one, errUnread
	}
	return one, nil
}

// backedUp are the keys of the disks that a backup has whose configuration this is.
func (g *guest) backedUp() (keys []string) {
	for _, d := range g.drives {
		if d.backedUp && !d.cdrom && (d.owned() || g.kind == qemu && d.volume != "none") {
			keys = append(keys, d.key)
		}
	}
	return keys
}

// outside says, for people, which disks of the guest a backup does not have, and what its restore does to them; "" if there are none.
func (g *guest) outside(b backup) string {
	var disks []string
	for _, d := range slices.Concat(g.drives, g.unused) {
		if d.owned() && !g.foreign(d.volume) && !slices.Contains(b.disks, d.key) {
			disks = append(disks, fmt.Sprintf("%s %s (%s)", d.key, amount(d.size), d.volume))
		}
	}
	switch {
	case len(disks) == 0:
		return ""
	case g.kind == lxc:
		return strings.Join(disks, ", ") + ": gone for good with what is on them; a mount point that the backup's configuration has comes back empty"
	}
	return strings.Join(disks, ", ") + ": they stay, as unused disks of the guest"
}

// extracted reads the configuration in a backup. Errors are those of the request, or errUnread.
func (d *Driver) extracted(ctx context.Context, g *guest, b backup) (*guest, error) {
	data, err := d.api.send(ctx, http.MethodGet, path("nodes", g.node, "vzdump", "extractconfig"), values{"volume": b.volume})
	if err != nil {
		return nil, err
	}
	text, err := decodeText(data)
	if err != nil {
		return nil, errUnread
	}
	kind := b.kind
	if kind == "" {
		kind = g.kind
	}
	return parseArchived(row{vmid: g.vmid, kind: kind}, text)
}

// parseArchived reads the configuration of a guest as a backup has it: lines "key: value" up to the first section of a
// snapshot. Lines with # are the description, each with its odd characters escaped. The error is errUnread.
func parseArchived(r row, text string) (*guest, error) {
	o, description := object{"digest": "of a backup"}, []string{}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "[") {
			break
		}
		if said, ok := strings.CutPrefix(line, "#"); ok {
			if plain, err := url.PathUnescape(said); err == nil {
				said = plain
			}
			description = append(description, said)
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(key, "lxc.") {
			continue // those of LXC itself may come twice
		}
		if _, twice := o[key]; twice {
			return nil, errUnread
		}
		o[key] = strings.TrimSpace(value)
	}
	o["description"] = strings.Join(description, "\n")
	g, err := outline(r, o, o, nil)
	if err == nil {
		g.marker, err = parseMarker(g.text)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnread, err)
	}
	return g, nil
}

// prunable refuses a backup that prunes if Proxmox VE would count a backup of another guest, and perhaps prune it.
func (g *guest) prunable(others []backup) error {
	for _, b := range others {
		if !b.protected && (b.kind == "" || b.kind == g.kind) {
			return refusal.New(refusal.Conflict, "%s %s; the retention would count it, and perhaps delete it", b.name, g.whose(b)).
				WithHint("move or protect it in Proxmox VE, or ask without rotate")
		}
	}
	return nil
}

// whose says, in a part of a sentence, why a backup is not the guest's own.
func (g *guest) whose(b backup) string {
	if b.untold {
		return fmt.Sprintf("is under the number %d, and may be of another guest: its configuration cannot be read or does not say, or its name is not clear", g.vmid)
	}
	return fmt.Sprintf("is of another guest that had the number %d, by the configuration in it", g.vmid)
}

// othersText says, for people, which backups under the number are not the guest's own.
func (g *guest) othersText(others []backup) string {
	var parts []string
	for _, untold := range []bool{false, true} {
		var names []string
		for _, b := range others {
			if b.untold == untold {
				names = append(names, b.name)
			}
		}
		what := map[bool]string{false: "%d of another guest that had the number %d: %s", true: "%d under the number %d of which nobody can tell whose: %s"}[untold]
		if len(names) > 0 {
			parts = append(parts, fmt.Sprintf(what, len(names), g.vmid, strings.Join(names, ", ")))
		}
	}
	return strings.Join(parts, "; ") + "; the gate neither restores nor deletes them"
}
