package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/driver"
)

// Restore and wipe build the new tree under another name and exchange it with data/ in one
// rename. So there is the old tree or the new one, never a mixture. A file that has a second
// name elsewhere is not overwritten. The old tree goes to the trash.

func (d *Driver) prepareWipe(_ context.Context, step op.Step, g *guest) (action, error) {
	if err := d.checkNoMount(d.path(g.name), step.Op); err != nil {
		return nil, err
	}
	return func(ctx context.Context, r *driver.Result) error {
		return d.replaceData(ctx, g, r, step.Op, func(stage string) error {
			empty, err := g.dir.mkdir(stage, 0o700)
			if err != nil {
				return err
			}
			defer empty.close()
			// The program that runs in it may belong to another user.
			if err := empty.f.Chown(int(g.data.uid), int(g.data.gid)); err != nil {
				return errors.Join(err, g.dir.unlink(stage, unix.AT_REMOVEDIR))
			}
			return empty.sync()
		})
	}, nil
}

func (d *Driver) prepareRestore(ctx context.Context, step op.Step, g *guest) (action, error) {
	name := step.Params.Str("snapshot")
	if err := d.checkNoMount(d.path(g.name), step.Op); err != nil {
		return nil, err
	}
	if err := g.in(snapshotsDir, func(all *dir) error {
		snapshot, err := all.sub(name)
		if err != nil {
			return err
		}
		defer snapshot.close()
		return d.checkCopyable(ctx, snapshot, "snapshot "+name)
	}); err != nil {
		return nil, err
	}
	return func(ctx context.Context, r *driver.Result) error {
		return d.replaceData(ctx, g, r, step.Op, func(stage string) error {
			return g.in(snapshotsDir, func(all *dir) error { return d.stageCopy(ctx, all, name, g.dir, stage) })
		})
	}, nil
}

// replaceData stops the guest, stages a tree and exchanges it with data/. The guest stays
// stopped, because an operator who restores wants to look first. Desired state starts it again
// if it should run.
func (d *Driver) replaceData(ctx context.Context, g *guest, r *driver.Result, doing string, build func(stage string) error) error {
	const stage = stagePrefix + dataDir
	// A stage that is there already may hold data that an earlier step took away.
	if err := d.putPart(g, stage, "data"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := build(stage); err != nil {
		return err
	}
	staged, err := g.dir.stat(stage)
	if err != nil {
		return err
	}
	crashpoint.Here(crashpoint.DataStaged)
	if r.Detail, err = d.stopFirst(ctx, g, doing); err == nil {
		err = d.checkNoMount(d.path(g.name), doing) // again, because building and stopping took time
	}
	if err == nil {
		err = d.stillIs(g)
	}
	if err == nil {
		crashpoint.Here(crashpoint.DataStopped)
		err = g.dir.rename(stage, g.dir, dataDir, unix.RENAME_EXCHANGE)
	}
	if err != nil {
		// A hand may have exchanged the two meanwhile. What is not the copy stays, and goes to the trash with the next restore or wipe.
		if now, gone := g.dir.stat(stage); gone == nil && now.same(staged) {
			err = errors.Join(err, removeTree(context.WithoutCancel(ctx), g.dir, stage))
		}
		return err
	}
	crashpoint.Here(crashpoint.DataExchanged)
	if err := g.dir.sync(); err != nil {
		return driver.Unknown(err)
	}
	if err := d.putPart(g, stage, "data"); err != nil {
		// The work is done. The next restore, wipe or New moves the old tree.
		d.cfg.Logger.Warn("old data not moved to the trash yet", "guest", g.name, "err", err)
	}
	return nil
}

// putPart moves one directory of the guest to the trash.
func (d *Driver) putPart(g *guest, name, what string) error { return d.putPartOf(g, g.dir, name, what) }

func (d *Driver) putPartOf(g *guest, in *dir, name, what string) error {
	e, err := in.stat(name)
	if err != nil {
		return err
	}
	now := d.cfg.Now().UTC()
	committed, err := d.put(in, name, e, partName(g.UUID, e), trashed{Name: g.name, Incarnation: g.incarnation(), What: what,
		DestroyedAt: now, Until: now.Add(d.cfg.TrashKeep)})
	if committed && err != nil {
		return driver.Unknown(err)
	}
	return err
}

// stagePrefix begins the names of unfinished things. No guest and no snapshot can have such a
// name.
const (
	stagePrefix    = ".new-"
	stagedSnapshot = stagePrefix + "snapshot-" // then its name; in a guest's directory
)

// maxSmallFile is the most bytes that read accepts of guest.json and similar files.
const maxSmallFile = 1 << 20

// mkdir makes a directory with exactly this mode.
func (d *dir) mkdir(name string, mode uint32) (*dir, error) {
	if err := component(name); err != nil {
		return nil, err
	}
	if err := unix.Mkdirat(d.fd(), name, mode); err != nil {
		return nil, &os.PathError{Op: "mkdir", Path: d.path() + "/" + name, Err: err}
	}
	sub, err := d.sub(name)
	if err != nil {
		return nil, err
	}
	if err := unix.Fchmod(sub.fd(), mode); err != nil { // whatever the umask
		sub.close()
		return nil, fmt.Errorf("chmod %s: %w", name, err)
	}
	return sub, nil
}

// rename moves an entry within or between directories, with the flags of renameat2(2). Between
// file systems it fails with EXDEV; no code here copies instead.
func (d *dir) rename(name string, to *dir, toName string, flags uint) error {
	if err := errors.Join(component(name), component(toName)); err != nil {
		return err
	}
	if err := unix.Renameat2(d.fd(), name, to.fd(), toName, flags); err != nil {
		return &os.LinkError{Op: "rename", Old: d.path() + "/" + name, New: to.path() + "/" + toName, Err: err}
	}
	return nil
}

// unlink removes a file, or with unix.AT_REMOVEDIR an empty directory.
func (d *dir) unlink(name string, flags int) error {
	if err := component(name); err != nil {
		return err
	}
	if err := unix.Unlinkat(d.fd(), name, flags); err != nil {
		return &os.PathError{Op: "remove", Path: d.path() + "/" + name, Err: err}
	}
	return nil
}

// sync makes the directory's entries durable.
func (d *dir) sync() error { return d.f.Sync() }

// syncTree makes everything on the directory's file system durable. One call is enough for a
// tree of any size.
func (d *dir) syncTree() error {
	if err := unix.Syncfs(d.fd()); err != nil {
		return fmt.Errorf("syncfs %s: %w", d.path(), err)
	}
	return nil
}

// read returns the content of a regular file of at most maxSmallFile bytes.
func (d *dir) read(name string) ([]byte, error) {
	f, err := d.open(name, unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", f.Name())
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSmallFile+1))
	if err == nil && len(b) > maxSmallFile {
		err = fmt.Errorf("%s has more than %d bytes", f.Name(), maxSmallFile)
	}
	return b, err
}

// replace writes a whole file of mode 0600 in place and makes it durable. If it fails, the old
// file stays.
func (d *dir) replace(name string, b []byte) error {
	stage := stagePrefix + name
	if err := d.unlink(stage, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := d.open(stage, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, d.unlink(stage, 0))
	}
	crashpoint.Here(crashpoint.FileStaged)
	if err := d.rename(stage, d, name, 0); err != nil {
		return errors.Join(err, d.unlink(stage, 0))
	}
	crashpoint.Here(crashpoint.FilePlaced)
	return d.sync()
}
