package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"

	"gated/internal/base/refusal"
)

// removing deletes a tree. It opens every directory without crossing a mount point. So a mount
// that appears meanwhile stops it (Conflict), and the mounted files stay. It moves the deep
// part of a tree deeper than maxDepth to the top, and deletes it there.
type removing struct {
	ctx  context.Context
	top  *dir // the directory that the tree is in
	base string
	deep int // how many parts it moved to the top so far
	left []string
}

// removeTree deletes the entry name of d and everything below. A missing entry is no error.
func removeTree(ctx context.Context, d *dir, name string) error {
	r := removing{ctx: ctx, top: d, base: name, left: []string{name}}
	for len(r.left) > 0 {
		next := r.left[len(r.left)-1]
		r.left = r.left[:len(r.left)-1]
		if err := r.remove(d, next, 1); err != nil {
			return err
		}
	}
	return d.sync()
}

func (r *removing) remove(d *dir, name string, depth int) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	e, err := d.stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !e.isDir() {
		return mountBusy(d, name, d.unlink(name, 0))
	}
	if depth > maxDepth {
		return r.setAside(d, name)
	}
	for range 8 {
		if err := r.empty(d, name, depth); err != nil {
			return err
		}
		err = d.unlink(name, unix.AT_REMOVEDIR)
		if !errors.Is(err, unix.ENOTEMPTY) {
			break
		}
		// Some file systems skip names if a directory shrinks while it is read.
	}
	return mountBusy(d, name, err)
}

func (r *removing) empty(d *dir, name string, depth int) error {
	sub, err := d.sub(name)
	if errors.Is(err, fs.ErrPermission) {
		if err := makeReadable(d, name); err != nil {
			return err
		}
		sub, err = d.sub(name)
	}
	if errors.Is(err, unix.EXDEV) {
		return refusal.New(refusal.Conflict, "%s/%s is a mount point", d.path(), name).WithHint("unmount it")
	}
	if err != nil {
		return err
	}
	defer sub.close()
	err = sub.each(func(child string) error { return r.remove(sub, child, depth+1) })
	if errors.Is(err, unix.EACCES) {
		// A guest may have made its own directory read-only.
		if err := unix.Fchmod(sub.fd(), 0o700); err != nil {
			return fmt.Errorf("chmod %s: %w", sub.path(), err)
		}
		return sub.each(func(child string) error { return r.remove(sub, child, depth+1) })
	}
	return err
}

// setAside moves a deep directory beside the tree, and removing deletes it later.
func (r *removing) setAside(d *dir, name string) error {
	if err := makeReadable(d, name); err != nil { // moving one changes its ".."
		return err
	}
	for {
		r.deep++
		aside := r.base + "." + strconv.Itoa(r.deep)
		err := d.rename(name, r.top, aside, unix.RENAME_NOREPLACE)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			r.left = append(r.left, aside)
		}
		return err
	}
}

// makeReadable gives a directory that its owner cannot open the mode 0700. It uses a
// descriptor, so it follows no symlink in the directory's place.
func makeReadable(d *dir, name string) error {
	fd, err := unix.Openat2(d.fd(), name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: beneath})
	if err != nil {
		return fmt.Errorf("open %s/%s: %w", d.path(), name, err)
	}
	defer unix.Close(fd)
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o700); err != nil {
		return fmt.Errorf("chmod %s/%s: %w", d.path(), name, err)
	}
	return nil
}

// mountBusy writes the error for a mount point that stopped a delete.
func mountBusy(d *dir, name string, err error) error {
	if errors.Is(err, unix.EBUSY) {
		return refusal.New(refusal.Conflict, "%s/%s is a mount point", d.path(), name).WithHint("unmount it")
	}
	return err
}
