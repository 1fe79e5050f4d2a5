package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

func (d *Driver) prepareDestroy(_ context.Context, step op.Step, g *guest) (action, error) {
	if err := d.checkNoMount(d.path(g.name), step.Op); err != nil {
		return nil, err
	}
	return func(ctx context.Context, r *driver.Result) (err error) {
		r.Detail, err = d.destroy(ctx, g)
		return err
	}, nil
}

// destroy stops the guest and renames it into the trash. At the rename the guest is destroyed.
func (d *Driver) destroy(ctx context.Context, g *guest) (detail string, err error) {
	if detail, err = d.stopFirst(ctx, g, "guest.destroy"); err != nil {
		return "", err
	}
	crashpoint.Here(crashpoint.DestroyStopped)
	// It checks again, because stopping took time.
	if err := d.checkNoMount(d.path(g.name), "guest.destroy"); err != nil {
		return detail, err
	}
	if err := d.stillIs(g); err != nil {
		return detail, err
	}
	now := d.cfg.Now().UTC()
	committed, err := d.put(d.root, g.name, entry{ino: g.Inode, birth: g.Birth}, trashName(g.name, g.incarnation()), trashed{Name: g.name,
		Incarnation: g.incarnation(), What: wholeGuest, DestroyedAt: now, Until: now.Add(d.cfg.TrashKeep)})
	if committed && err != nil {
		return detail, driver.Unknown(err)
	}
	return detail, err
}

func (d *Driver) prepareUndelete(_ context.Context, step op.Step, _ *guest) (action, error) {
	t, had := step.Target, op.Target{Kind: step.Target.Kind, Name: step.Look().TrashName()}
	all, err := d.trashOf(had.Name)
	if err != nil {
		return nil, err
	}
	want := op.Incarnation(step.Params.Str("incarnation"))
	var found []op.Trashed
	for _, x := range all {
		if want == "" || x.Incarnation == want {
			found = append(found, x)
		}
	}
	switch {
	case len(found) == 0:
		return nil, refusal.New(refusal.UnknownTarget, "the trash has no such %s", had).
			WithHint("gated guests %s lists what it has", had.Name)
	case len(found) > 1:
		return nil, refusal.New(refusal.Conflict, "the trash has %d guests that were %s", len(found), had).
			WithHint("say which with -p incarnation=%s", found[len(found)-1].Incarnation)
	}
	id := trashName(had.Name, found[0].Incarnation)
	if err := d.checkTrashed(id, had.Name, found[0].Incarnation); err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ *driver.Result) error { return d.undelete(ctx, id, t) }, nil
}

// checkTrashed checks a guest in the trash as openGuest checks a live one.
func (d *Driver) checkTrashed(id, name string, want op.Incarnation) error {
	sub, err := d.trash.sub(id)
	if err != nil {
		return notAGuest(name, err)
	}
	g := &guest{name: name, dir: sub}
	defer g.close()
	if err := g.read(); err != nil {
		return err
	}
	if g.incarnation() != want {
		return refusal.New(refusal.StaleTarget, "what the trash has as guest/%s is another one", name)
	}
	return d.uuids.checkAlone(d, g)
}

// undelete renames the guest back. That keeps its inode and birth time, and so its incarnation.
func (d *Driver) undelete(ctx context.Context, id string, t op.Target) error {
	err := d.trash.rename(id, d.root, t.Name, unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, fs.ErrExist):
		return refusal.New(refusal.Conflict, "%s exists already", t).WithHint("%s", op.HintExists)
	case errors.Is(err, fs.ErrNotExist):
		return refusal.New(refusal.UnknownTarget, "the trash has no such %s any more", t)
	case err != nil:
		return err
	}
	crashpoint.Here(crashpoint.UndeleteMoved)
	err = errors.Join(d.root.sync(), d.trash.unlink(id+recordExt, 0))
	crashpoint.Here(crashpoint.UndeleteUnrecorded)
	err = errors.Join(err, d.trash.sync())
	if g, e := d.openGuest(t.Name); e == nil && g != nil {
		defer g.close()
		_, e = d.takeUp(ctx, g)
		err = errors.Join(err, e)
	}
	if err != nil {
		return driver.Unknown(err)
	}
	return nil
}

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
