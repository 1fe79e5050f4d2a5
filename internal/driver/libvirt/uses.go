package libvirt

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"gated/internal/op"

	golibvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sys/unix"
)

// use is one place where a domain names a file.
type use struct {
	dom  *domain
	slot string // the target of a disk, or the element that names it: "nvram", "kernel"
}

// doubt is a domain of which it is not known what it uses.
type doubt struct {
	dom *domain
	why string
}

// uses says who uses a file: by its path, and by what is at its end, so that a
// link is no other file.
type uses struct {
	by     map[string][]use
	doubts []doubt
	all    []*domain
}

// usesOf looks at what every domain is configured with and runs with, and at every
// file below its disks.
func usesOf(ctx context.Context, s *session, all []*domain) (*uses, error) {
	f := follower{session: s, uses: &uses{by: map[string][]use{}, all: all}, heads: map[string]head{}}
	for _, dom := range all {
		f.dom, f.seen = dom, map[string]bool{}
		if dom.broken != nil {
			f.doubt("%v", dom.broken)
			continue
		}
		for _, x := range slices.Concat(dom.xml.Disks, dom.live.Disks) {
			f.disk(ctx, x)
		}
		for _, n := range dom.names {
			// A directory of libvirtd's own may be closed to this daemon.
			_ = f.add(n.slot, n.path)
		}
		if s.broken {
			return nil, errAway
		}
	}
	return f.uses, nil
}

// of returns who else uses the disk, and what else of its own guest does: what is
// done to it would happen to them.
func (u *uses) of(dom *domain, k disk) (others []*domain, own []string) {
	if k.path == "" {
		return nil, nil
	}
	keys, _ := keysOf(k.path) // the path at least
	for _, key := range keys {
		for _, x := range u.by[key] {
			switch {
			case x.dom.UUID != dom.UUID:
				if !slices.ContainsFunc(others, func(o *domain) bool { return o.UUID == x.dom.UUID }) {
					others = append(others, x.dom)
				}
			case x.slot != k.target && !slices.Contains(own, x.slot):
				own = append(own, x.slot)
			}
		}
	}
	return others, own
}

// alone says who or what uses a disk beside it, and beside those disks of its
// guest that go the same way; nil if nothing does.
func (u *uses) alone(dom *domain, k disk, along map[string]bool) error {
	others, own := u.of(dom, k)
	if len(others) > 0 {
		return fmt.Errorf("%s uses it, too", op.Shown(others[0].Name))
	}
	for _, slot := range own {
		if !along[slot] {
			return fmt.Errorf("its guest uses it as %s, too", op.Shown(slot))
		}
	}
	return nil
}

// clear refuses what would take a file while it is not known who uses it.
func (u *uses) clear() error {
	if len(u.doubts) == 0 {
		return nil
	}
	d := u.doubts[0]
	return op.Refuse(op.Conflict, "it cannot be told which files the domain %s uses: %s", op.Shown(d.dom.Name), op.Shown(d.why)).
		WithHint("nothing is taken from any guest until that can be read: see the guide of the libvirt driver")
}

// keysOf are the names of a file: its path, and what is at its end, if that is
// there.
func keysOf(path string) ([]string, error) {
	path = filepath.Clean(path)
	keys := []string{path}
	if !filepath.IsAbs(path) {
		return keys, nil
	}
	st, err := statOf(path)
	switch {
	case absentFile(err):
		return keys, nil
	case err != nil:
		return keys, err
	}
	if key := objectOf(st); key != "" {
		keys = append(keys, key)
	}
	return keys, nil
}

// objectOf tells a file or a device from every other that there is now.
func objectOf(st unix.Statx_t) string {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return fmt.Sprintf("file:%d:%d:%d", st.Dev_major, st.Dev_minor, st.Ino)
	case unix.S_IFBLK:
		return fmt.Sprintf("disk:%d:%d", st.Rdev_major, st.Rdev_minor)
	}
	return ""
}

// follower finds the files of one domain after the other.
type follower struct {
	*session
	*uses
	heads map[string]head
	dom   *domain
	seen  map[string]bool
}

func (f *follower) doubt(format string, args ...any) {
	f.doubts = append(f.doubts, doubt{f.dom, fmt.Sprintf(format, args...)})
}

func (f *follower) add(slot, path string) error {
	keys, err := keysOf(path)
	for _, key := range keys {
		if x := (use{f.dom, slot}); !slices.Contains(f.by[key], x) {
			f.by[key] = append(f.by[key], x)
		}
	}
	return err
}

// whole are formats of files that name no others.
var whole = map[string]bool{"": true, formatRaw: true, "iso": true, "fat": true, "luks": true, "vdi": true, "vpc": true}

func (f *follower) disk(ctx context.Context, x diskXML) {
	f.layer(ctx, x.Target.Dev, storeXML{Source: x.Source, Format: x.Driver, Backing: x.Backing}, 0)
	if x.Mirror != nil {
		f.layer(ctx, x.Target.Dev, *x.Mirror, 0)
	}
}

// layer follows one layer of a disk that a definition names.
func (f *follower) layer(ctx context.Context, slot string, x storeXML, depth int) {
	if depth > maxChain {
		f.doubt("%s has more than %d files below it", slot, maxChain)
		return
	}
	path, err := sourcePath(ctx, f.session, x.Source)
	switch {
	case err != nil:
		f.doubt("%s: %v", slot, err)
		return
	case path != "":
		f.follow(ctx, slot, path, x.Format.Type, depth)
	case x.Source != (sourceXML{}) && !whole[x.Format.Type]:
		f.doubt("%s is %s and is not here", slot, x.Format.Type)
	}
	if x.Backing != nil {
		f.layer(ctx, slot, *x.Backing, depth+1)
	}
}

// follow follows what a file itself names below it.
func (f *follower) follow(ctx context.Context, slot, path, format string, depth int) {
	path = filepath.Clean(path)
	key := slot + "\x00" + format + "\x00" + path
	if f.seen[key] {
		return
	}
	f.seen[key] = true
	if depth > maxChain {
		f.doubt("%s has more than %d files below it", slot, maxChain)
		return
	}
	if err := f.add(slot, path); err != nil {
		f.doubt("%s: %v", slot, err)
		return
	}
	switch {
	case whole[format]:
		return
	case format != formatQCOW2:
		f.doubt("%s: %s is %s, which is not followed", slot, path, format)
		return
	}
	h, known := f.heads[path]
	if !known {
		var err error
		if h, err = readHead(ctx, f.session, path); err != nil {
			f.doubt("%s: %s: %v", slot, path, err)
			return
		}
		f.heads[path] = h
	}
	if h.data != "" {
		f.follow(ctx, slot, h.data, formatRaw, depth+1)
	}
	if h.backing != "" {
		f.follow(ctx, slot, h.backing, orElse(h.format, formatQCOW2), depth+1)
	}
}

// doubtful are the other domains that may use anything.
func (u *uses) doubtful(dom *domain) []*domain {
	var out []*domain
	for _, d := range u.doubts {
		if d.dom.UUID != dom.UUID && !slices.Contains(out, d.dom) {
			out = append(out, d.dom)
		}
	}
	return out
}

// uuidOf is a domain's UUID as text, also where its XML cannot be read.
func uuidOf(id golibvirt.UUID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// dependents are the guests that use one of its disks, or a disk on top of one,
// and those of which nobody can say what they use.
func (g *guest) dependents() []op.Target {
	var out []op.Target
	add := func(all []*domain) {
		for _, other := range all {
			name := other.Name
			if op.CheckName(name) != nil {
				name = "uuid-" + uuidOf(other.UUID) // it has a name that a target cannot have
			}
			if t := (op.Target{Kind: "guest", Name: name}); !slices.Contains(out, t) {
				out = append(out, t)
			}
		}
	}
	for _, k := range g.disks {
		add(g.users[k.target])
	}
	if slices.ContainsFunc(g.disks, disk.deletable) {
		add(g.used.doubtful(g.domain))
	}
	return out
}
