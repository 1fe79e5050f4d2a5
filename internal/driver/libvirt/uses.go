package libvirt

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"gated/internal/base/op"
	"gated/internal/base/refusal"

	golibvirt "github.com/digitalocean/go-libvirt"
	"golang.org/x/sys/unix"
)

// use is one place in which a domain names a file.
type use struct {
	dom  *domain
	slot string // the target of a disk, or the element that names it: "nvram", "kernel"
}

// doubt is a domain whose files are not all known.
type doubt struct {
	dom    *domain
	why    string
	line   bool // it is about QEMU's command line, which may name any file
	writes bool // the guest may write that file
}

// uses has the domains that use each file, by the file's path and by its identity, so that a
// link counts as the same file.
type uses struct {
	by     map[string][]use
	doubts []doubt
	all    []*domain
	real   map[string]string // paths and the results of resolved
}

// resolved remembers each resolved path for one look, because sharing compares every directory
// with every path.
func (u *uses) resolved(at string) string {
	real, known := u.real[at]
	if !known {
		real = resolved(at)
		u.real[at] = real
	}
	return real
}

// usesOf finds the files of every domain: as configured, as it runs, and every file below its
// disks.
func usesOf(ctx context.Context, s *session, all []*domain) (*uses, error) {
	used := &uses{by: map[string][]use{}, all: all, real: map[string]string{}}
	f := follower{session: s, uses: used, heads: map[string]head{}}
	for _, dom := range all {
		f.dom, f.seen = dom, map[string]bool{}
		if dom.broken != nil {
			f.doubt("%v", dom.broken)
			continue
		}
		for _, x := range slices.Concat(dom.xml.Disks, dom.live.Disks) {
			f.disk(ctx, x)
		}
		for _, h := range slices.Concat(dom.held, dom.heldLive) {
			if h.hides != "" {
				f.doubted(doubt{dom, h.slot + ": " + h.hides, true, h.writes})
			}
		}
		for _, n := range dom.names {
			// This daemon may not have access to libvirtd's own directories.
			_ = f.add(n.slot, n.path)
			if n.follow {
				f.below(ctx, n)
			}
		}
		if s.broken {
			return nil, errAway
		}
	}
	return f.uses, nil
}

// of returns the other domains that use the disk, and the other parts of its own guest that do.
// A change of the disk would affect all of them.
func (u *uses) of(dom *domain, k disk) (others []*domain, own []string) {
	if k.path == "" {
		return nil, nil
	}
	keys, _ := keysOf(k.path) // at least the path
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

// alone names a domain or a part of the same guest that also uses the disk, except the disks in
// along. It returns nil if there is none.
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

// clear refuses a step that would delete a file while some domain's files are not known, except those of but.
func (u *uses) clear(but *domain) error {
	for _, d := range u.doubts {
		if but == nil || d.dom.UUID != but.UUID {
			return refusal.New(refusal.Conflict, "it cannot be told which files the domain %s uses: %s", op.Shown(d.dom.Name), op.Shown(d.why)).
				WithHint("nothing is taken from any guest until that can be read, and that guest can be destroyed: see the guide of the libvirt driver")
		}
	}
	return nil
}

// doubtful reports whether not all files of the domain are known.
func (u *uses) doubtful(dom *domain) bool {
	return slices.ContainsFunc(u.doubts, func(d doubt) bool { return d.dom.UUID == dom.UUID })
}

// keysOf returns the names of a file: its path, and its identity if it exists.
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

// objectOf identifies a file or a device among all that exist now.
func objectOf(st unix.Statx_t) string {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return fmt.Sprintf("file:%d:%d:%d", st.Dev_major, st.Dev_minor, st.Ino)
	case unix.S_IFBLK:
		return fmt.Sprintf("disk:%d:%d", st.Rdev_major, st.Rdev_minor)
	}
	return ""
}

// follower finds the files of the domains, one domain after the other.
type follower struct {
	*session
	*uses
	heads map[string]head
	dom   *domain
	seen  map[string]bool
}

func (f *follower) doubt(format string, args ...any) {
	f.doubted(doubt{dom: f.dom, why: fmt.Sprintf(format, args...)})
}

func (f *follower) doubted(d doubt) {
	if !slices.Contains(f.doubts, d) {
		f.doubts = append(f.doubts, d)
	}
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

// whole are the formats whose files name no other files.
var whole = map[string]bool{"": true, formatRaw: true, "iso": true, "fat": true, "luks": true, "vdi": true, "vpc": true}

func (f *follower) disk(ctx context.Context, x diskXML) {
	f.layer(ctx, x.Target.Dev, storeXML{Source: x.Source, Format: x.Driver, Backing: x.Backing}, 0)
	if x.Mirror != nil {
		f.layer(ctx, x.Target.Dev, *x.Mirror, 0)
	}
}

// below follows a file of QEMU's command line, which QEMU takes for a disk by the file's head.
func (f *follower) below(ctx context.Context, n named) {
	st, err := statOf(n.path)
	if absentFile(err) || err == nil && objectOf(st) == "" {
		return
	}
	h, err := readHead(ctx, f.session, n.path)
	if err != nil && n.disk {
		f.doubted(doubt{f.dom, fmt.Sprintf("%s: %s: %v", n.slot, n.path, err), true, true})
	}
	if err == nil && h.data != "" {
		f.follow(ctx, n.slot, h.data, formatRaw, 1)
	}
	if err == nil && h.backing != "" {
		f.follow(ctx, n.slot, h.backing, orElse(h.format, formatQCOW2), 1)
	}
}

// layer follows one layer of a disk in a definition.
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

// follow follows the layers that a file itself names.
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

// unclear are the other domains that may use any file.
func (u *uses) unclear(dom *domain) []*domain {
	var out []*domain
	for _, d := range u.doubts {
		if d.dom.UUID != dom.UUID && !slices.Contains(out, d.dom) {
			out = append(out, d.dom)
		}
	}
	return out
}

// uuidOf is a domain's UUID as text. It works if the domain's XML cannot be read.
func uuidOf(id golibvirt.UUID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

// dependents are the guests that use one of the guest's disks, or a disk on top of one. Guests
// whose files are not all known are among them.
func (g *guest) dependents() []op.Target {
	var out []op.Target
	add := func(all []*domain) {
		for _, other := range all {
			name := other.Name
			if op.CheckName(name) != nil {
				name = "uuid-" + uuidOf(other.UUID) // its name is no name for a target
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
		add(g.used.unclear(g.domain))
	}
	return out
}
