package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"gated/internal/base/op"
	"gated/internal/base/refusal"

	"golang.org/x/sys/unix"
)

// adopting gives a data tree to its guest's uid once, when the guest first runs under that uid.
// A file that also has a name outside of the tree may belong to another program. Such a tree is
// refused before anything in it changes.
type adopting struct {
	ctx   context.Context
	uid   uint32
	links map[uint64]links // files with several names, by inode
}

type links struct {
	path       string
	seen, have uint32
}

// adoptTree makes everything below d, and d last, belong to the uid and to the gid of the same
// number. The processes that used the tree must have ended. Devices keep their owner.
func adoptTree(ctx context.Context, d *dir, uid uint32) error {
	self, err := d.self()
	if err != nil || self.uid == uid && self.gid == uid {
		return err
	}
	a := adopting{ctx: ctx, uid: uid, links: map[uint64]links{}}
	if err := a.walk(d, 1, a.count); err != nil {
		return err
	}
	for _, l := range a.links {
		if l.seen < l.have {
			return refusal.New(refusal.Conflict,
				"%s has another name outside of the guest's data, so that it is not given to the guest's uid", op.Shown(l.path)).
				WithHint("put a copy in its place: cp -a FILE FILE.copy && mv FILE.copy FILE")
		}
	}
	if err := a.walk(d, 1, a.give); err != nil {
		return err
	}
	if err := d.f.Chown(int(uid), int(uid)); err != nil {
		return err
	}
	return d.syncTree()
}

// walk calls fn with every entry below d, held open. The entries of a directory come before the
// directory.
func (a *adopting) walk(d *dir, depth int, fn func(path string, fd int, e entry) error) error {
	return d.each(func(name string) error {
		if err := a.ctx.Err(); err != nil {
			return err
		}
		fd, err := openPath(d, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if errors.Is(err, unix.EXDEV) {
			return refusal.New(refusal.Conflict, "%s/%s is a mount point", d.path(), op.Shown(name)).WithHint("unmount it")
		}
		if err != nil {
			return fmt.Errorf("open %s/%s: %w", d.path(), name, err)
		}
		defer unix.Close(fd)
		e, err := statFD(fd)
		if err != nil {
			return err
		}
		if e.isDir() {
			if err := a.enter(d, name, depth, fn); err != nil {
				return err
			}
		}
		return fn(d.path()+"/"+name, fd, e)
	})
}

// openPath opens an entry, also a symlink, to look at it and to change its owner.
func openPath(d *dir, name string) (int, error) {
	if err := component(name); err != nil {
		return -1, err
	}
	for {
		fd, err := unix.Openat2(d.fd(), name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: beneath})
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
	}
}

func (a *adopting) enter(d *dir, name string, depth int, fn func(path string, fd int, e entry) error) error {
	if depth >= maxDepth {
		return refusal.New(refusal.TooComplex, "%s/%s is more than %d directories deep", d.path(), op.Shown(name), maxDepth)
	}
	sub, err := d.sub(name)
	if err != nil {
		return err
	}
	defer sub.close()
	return a.walk(sub, depth+1, fn)
}

func (a *adopting) count(path string, _ int, e entry) error {
	if e.isDir() || e.links < 2 {
		return nil
	}
	l := a.links[e.ino]
	a.links[e.ino] = links{path, l.seen + 1, e.links}
	return nil
}

func (a *adopting) give(path string, fd int, e entry) error {
	switch e.mode & unix.S_IFMT {
	case unix.S_IFCHR, unix.S_IFBLK:
		return nil
	}
	if l := a.links[e.ino]; !e.isDir() && e.links > 1 && l.have != e.links {
		return refusal.New(refusal.Conflict, "%s was given another name meanwhile", op.Shown(path))
	}
	if e.uid == a.uid && e.gid == a.uid {
		return nil
	}
	if err := unix.Fchownat(fd, "", int(a.uid), int(a.uid), unix.AT_EMPTY_PATH); err != nil {
		return fmt.Errorf("chown %s: %w", path, err)
	}
	return nil
}

// statFD looks at the file of a descriptor.
func statFD(fd int) (entry, error) {
	return statx(fd, "", unix.AT_EMPTY_PATH, fmt.Sprintf("descriptor %d", fd))
}
