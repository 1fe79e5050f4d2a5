package local

import (
	"context"
	"errors"
	"io/fs"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"

	"golang.org/x/sys/unix"
)

// Restore and wipe build the new tree under another name and exchange it with data/ in one
// rename. So there is the old tree or the new one, never a mixture. A file that has a second
// name elsewhere is not overwritten. The old tree goes to the trash.

func (d *Driver) prepareWipe(ctx context.Context, step op.Step, g *guest) (action, error) {
	if err := d.checkNoMount(d.path(g.name), step.Op); err != nil {
		return nil, err
	}
	if err := d.settleFirst(ctx, g); err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ *driver.Result) error {
		return d.replaceData(ctx, g, step.Op, func(stage string) error {
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
	if _, ok := g.snapshot(name); !ok {
		return nil, refusal.New(refusal.UnknownTarget, "%s has no snapshot %q", step.Target, name)
	}
	if err := d.checkNoMount(d.path(g.name), step.Op); err != nil {
		return nil, err
	}
	snapshots, err := g.dir.sub(snapshotsDir)
	if err != nil {
		return nil, err
	}
	defer snapshots.close()
	snapshot, err := snapshots.sub(name)
	if err != nil {
		return nil, err
	}
	defer snapshot.close()
	if err := d.checkCopyable(ctx, snapshot, "snapshot "+name); err != nil {
		return nil, err
	}
	if err := d.settleFirst(ctx, g); err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ *driver.Result) error {
		return d.replaceData(ctx, g, step.Op, func(stage string) error {
			snapshots, err := g.dir.sub(snapshotsDir)
			if err != nil {
				return err
			}
			defer snapshots.close()
			return d.stageCopy(ctx, snapshots, name, g.dir, stage)
		})
	}, nil
}

// replaceData stops the guest, stages a tree and exchanges it with data/. The guest stays
// stopped, because an operator who restores wants to look first. Desired state starts it again
// if it should run.
func (d *Driver) replaceData(ctx context.Context, g *guest, doing string, build func(stage string) error) error {
	const stage = stagePrefix + dataDir
	// A stage that is there already may hold data that an earlier step took away.
	if err := d.putPart(g, stage, "data"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := build(stage); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.DataStaged)
	err := d.stopFirst(ctx, g, doing)
	if err == nil {
		err = d.checkNoMount(d.path(g.name), doing) // again, because building and stopping took time
	}
	if err == nil {
		crashpoint.Here(crashpoint.DataStopped)
		err = g.dir.rename(stage, g.dir, dataDir, unix.RENAME_EXCHANGE)
	}
	if err != nil {
		return errors.Join(err, removeTree(context.WithoutCancel(ctx), g.dir, stage))
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
