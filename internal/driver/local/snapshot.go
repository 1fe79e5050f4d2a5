package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"

	"golang.org/x/sys/unix"
)

// maxSnapshotEntries bounds one snapshot, because a guest may have made any number of files.
const maxSnapshotEntries = 1_000_000

// checkCopyable refuses a tree that cannot be copied whole. TooComplex is for a tree with too
// many entries, too many levels, or other types than file, directory and symlink. OverLimit
// means that there is no room.
func (d *Driver) checkCopyable(ctx context.Context, from *dir, what string) error {
	u, err := measure(ctx, from, d.entries)
	if err != nil {
		return fmt.Errorf("look through %s: %w", what, err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if u.obstacle != "" {
		code := refusal.TooComplex
		if strings.HasSuffix(u.obstacle, "mount point") {
			code = refusal.Conflict
		}
		return refusal.New(code, "%s cannot be copied: in it %s", what, u.obstacle).
			WithHint("remove it, or keep it elsewhere than in data/")
	}
	if u.partial {
		return refusal.New(refusal.TooComplex, "%s has more than %d entries", what, d.entries)
	}
	if d.reflinks {
		return nil
	}
	free, err := freeBytes(d.root)
	if err != nil {
		return err
	}
	if need := u.allocated + reserve; need > free {
		return refusal.New(refusal.OverLimit, "a copy of %s needs %s and %s are free",
			what, driver.Size(need), driver.Size(free)).
			WithHint("delete a snapshot, or give the file system more room")
	}
	return nil
}

// reserve is how much room a copy leaves free, in bytes, because the gate's own state may be on
// the same file system.
const reserve = 64 << 20

func freeBytes(d *dir) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(d.fd(), &st); err != nil {
		return 0, fmt.Errorf("statfs: %w", err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

func (d *Driver) prepareSnapshot(ctx context.Context, step op.Step, g *guest) (action, error) {
	name := step.Params.Str("snapshot")
	if _, ok := g.snapshot(name); ok {
		return nil, refusal.New(refusal.Conflict, "%s has a snapshot %q already", step.Target, name)
	}
	data, err := g.dir.sub(dataDir)
	if err != nil {
		return nil, err
	}
	defer data.close()
	if err := d.checkCopyable(ctx, data, step.Target.String()); err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ *driver.Result) error { return d.takeSnapshot(ctx, g, name) }, nil
}

// takeSnapshot copies data/ under another name and then moves the whole copy into place.
func (d *Driver) takeSnapshot(ctx context.Context, g *guest, name string) error {
	stage := stagedSnapshot + name
	// A stage that is there may hold a caller's data, and no operator signed to delete it.
	if err := d.putPart(g, stage, "what was in the way of snapshot "+name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.stageCopy(ctx, g.dir, dataDir, g.dir, stage); err != nil {
		return err
	}
	snapshots, err := g.dir.sub(snapshotsDir)
	if err != nil {
		return errors.Join(err, removeTree(context.WithoutCancel(ctx), g.dir, stage))
	}
	defer snapshots.close()
	crashpoint.Here(crashpoint.SnapshotCopied)
	if err := g.dir.rename(stage, snapshots, name, unix.RENAME_NOREPLACE); err != nil {
		return errors.Join(err, removeTree(context.WithoutCancel(ctx), g.dir, stage))
	}
	crashpoint.Here(crashpoint.SnapshotPlaced)
	if err := errors.Join(snapshots.sync(), g.dir.sync()); err != nil {
		return driver.Unknown(err)
	}
	return nil
}

// stageCopy copies the directory name of from to the new directory stage. If it fails, nothing
// stays.
func (d *Driver) stageCopy(ctx context.Context, from *dir, name string, in *dir, stage string) error {
	source, err := from.sub(name)
	if err != nil {
		return err
	}
	defer source.close()
	if err := removeTree(ctx, in, stage); err != nil { // an attempt that was interrupted
		return err
	}
	copied, err := in.mkdir(stage, 0o700)
	if err != nil {
		return err
	}
	defer copied.close()
	if err := copyTree(ctx, source, copied, d.entries); err != nil {
		return errors.Join(err, removeTree(context.WithoutCancel(ctx), in, stage))
	}
	return nil
}

func (d *Driver) prepareSnapshotDelete(_ context.Context, step op.Step, g *guest) (action, error) {
	name := step.Params.Str("snapshot")
	if err := d.checkNoMount(d.path(g.name)+"/"+snapshotsDir+"/"+name, step.Op); err != nil {
		return nil, err
	}
	return func(context.Context, *driver.Result) error {
		if err := d.stillIs(g); err != nil {
			return err
		}
		return g.in(snapshotsDir, func(all *dir) error { return d.putPartOf(g, all, name, "snapshot "+name) })
	}, nil
}
