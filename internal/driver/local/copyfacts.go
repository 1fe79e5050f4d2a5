package local

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"gated/internal/base/op"
	"gated/internal/driver"
)

// aboutCopy adds facts for people to a look for a step that restores or deletes a snapshot. If
// it cannot find out something, a fact says that, and the look goes on.
func (d *Driver) aboutCopy(ctx context.Context, l op.Look, g *guest, o *op.Observed) {
	spec, err := op.Lookup(l.Op)
	if err != nil || spec.Copy != "snapshot" {
		return
	}
	s, ok := g.snapshot(l.Params.Str("snapshot"))
	if !ok {
		return
	}
	o.Copy = &op.Copy{Kind: "snapshot", Name: s.name, Made: time.Unix(0, s.birth)}
	bounded, cancel := context.WithTimeout(ctx, maxLooking)
	defer cancel()
	over := ""
	if l.Op == "guest.restore" {
		over = d.newerText(bounded, g, s.birth)
	}
	o.Facts = append(o.Copy.Facts(d.snapshotText(bounded, g, s.name), over), o.Facts...)
}

// snapshotText describes how much a snapshot holds.
func (d *Driver) snapshotText(ctx context.Context, g *guest, name string) string {
	var u usage
	err := g.in(snapshotsDir, func(all *dir) error {
		tree, err := all.sub(name)
		if err != nil {
			return err
		}
		defer tree.close()
		u, err = measure(ctx, tree, maxCounted)
		return err
	})
	if err != nil {
		d.cfg.Logger.Warn("a snapshot is not counted", "guest", g.name, "snapshot", name, "err", err)
		return "cannot be counted: " + reason(err)
	}
	return fmt.Sprintf("%s%s, %s (%s on disk)", atLeast(u.partial), files(u.files), driver.Size(u.apparent), driver.Size(u.allocated))
}

// newerText describes how much of a guest's data is newer than a moment.
func (d *Driver) newerText(ctx context.Context, g *guest, since int64) string {
	var u usage
	err := g.in(dataDir, func(data *dir) (err error) {
		u, err = measureSince(ctx, data, maxCounted, since)
		return err
	})
	switch {
	case err != nil:
		return "cannot be counted: " + reason(err)
	case u.newer.files == 0 && !u.partial:
		return fmt.Sprintf("none of %s was written or changed since then; what was deleted since comes back", files(u.files))
	}
	last := ""
	if u.newer.files > 0 {
		last = ", the last " + atLeastThen(u.partial, time.Unix(0, u.newer.last))
	}
	return fmt.Sprintf("%s%s (%s) of %d, written or changed since then%s", atLeast(u.partial), files(u.newer.files), driver.Size(u.newer.bytes), u.files, last)
}

func files(n int64) string {
	if n == 1 {
		return "1 file"
	}
	return strconv.FormatInt(n, 10) + " files"
}

func atLeast(partial bool) string {
	if partial {
		return "more than "
	}
	return ""
}

// in runs fn on a directory of the guest's.
func (g *guest) in(name string, fn func(*dir) error) error {
	sub, err := g.dir.sub(name)
	if err != nil {
		return err
	}
	defer sub.close()
	return fn(sub)
}
