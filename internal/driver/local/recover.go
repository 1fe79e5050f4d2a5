package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/base/refusal"

	"golang.org/x/sys/unix"
)

// recover repairs the root after the daemon ended in any way. It removes unfinished things and
// finds processes again. If it does not understand something, it keeps that and logs it.
func (d *Driver) recover(ctx context.Context) error {
	if err := d.dropStaged(ctx, d.root, nil); err != nil {
		return err
	}
	if err := d.dropOrphanRecords(ctx); err != nil {
		return err
	}
	var names []string
	err := d.root.each(func(name string) error {
		if op.CheckName(name) == nil {
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var lost []lostGuest
	for _, name := range names {
		if err := d.recoverGuest(ctx, name, &lost); err != nil {
			return err
		}
	}
	d.endLost(ctx, lost)
	return nil
}

// recoverGuest finds the guest's process again. If the process that was started is gone, it
// adds the guest to lost.
func (d *Driver) recoverGuest(ctx context.Context, name string, lost *[]lostGuest) error {
	g, err := d.openGuest(name)
	if err != nil {
		d.cfg.Logger.Warn("guest left alone", "guest", name, "err", err)
		return nil
	}
	if g == nil {
		return nil
	}
	defer g.close()
	if err := d.dropStaged(ctx, g.dir, g); err != nil {
		// The next step that needs the name tries again and reports it.
		d.cfg.Logger.Warn("leftover kept", "guest", name, "err", err)
	}
	return d.recoverRun(g, lost)
}

// recoverRun is recoverGuest for the guest's process alone.
func (d *Driver) recoverRun(g *guest, lost *[]lostGuest) error {
	run, err := readRunFile(g.dir)
	if err == nil && run == nil {
		return nil
	}
	if err == nil && d.lost.hasEnded(g.incarnation(), *run) {
		return g.dir.unlink(runFileName, 0)
	}
	if err == nil && run.BootID == d.cfg.BootID {
		p, err := d.findAgain(g, *run)
		if err != nil {
			return err
		}
		if p != nil {
			d.watch(p)
			return nil
		}
	}
	if err != nil {
		d.cfg.Logger.Warn("run file unreadable; what still runs is ended", "guest", g.name, "err", err)
	}
	if err != nil || run.BootID == d.cfg.BootID {
		if err != nil {
			run = nil
		}
		*lost = append(*lost, lostGuest{name: g.name, inc: g.incarnation(), uid: d.uids.of(g.UUID), group: d.cgroups.of(g.UUID), run: run})
		return nil
	}
	return g.dir.unlink(runFileName, 0)
}

// findAgain returns the process in the guest's run file, if the same process still runs.
func (d *Driver) findAgain(g *guest, run runFile) (*process, error) {
	fd, err := proc.Open(run.PID, run.Ticks)
	if err != nil || fd == nil {
		return nil, err
	}
	if fd.Ended() {
		fd.Reap() // a child of this very process, if a Driver is opened twice
		fd.Close()
		return nil, nil
	}
	return &process{FD: fd, target: op.Target{Kind: "guest", Name: g.name}, inc: g.incarnation(), uid: d.uids.of(g.UUID), run: run,
		group: d.cgroups.of(g.UUID), done: make(chan struct{})}, nil
}

// dropStaged removes unfinished things in the root or, if g is not nil, in a guest. A staged
// data tree goes to the trash, because a crash just after an exchange leaves the old tree under
// that name.
func (d *Driver) dropStaged(ctx context.Context, in *dir, g *guest) error {
	var staged []string
	err := in.each(func(name string) error {
		ours := g == nil || stagesFile(name) || stagesTree(name)
		if strings.HasPrefix(name, stagePrefix) && ours {
			staged = append(staged, name)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, name := range staged {
		d.cfg.Logger.Info("leftover of unfinished work", "in", in.path(), "name", name)
		if g != nil && name == stagePrefix+dataDir {
			err = d.putPart(g, name, "data")
		} else if err = d.checkNoMount(in.path()+"/"+name, "cleaning up"); err == nil {
			err = removeTree(ctx, in, name)
		}
		if errors.Is(err, refusal.Conflict) {
			d.cfg.Logger.Warn("leftover kept", "in", in.path(), "name", name, "err", err)
		} else if err != nil {
			return fmt.Errorf("clean up %s: %w", name, err)
		}
	}
	return nil
}

// dropOrphanRecords removes records of things that never reached the trash. It logs things
// without a record; the trash keeps them for ever.
func (d *Driver) dropOrphanRecords(ctx context.Context) error {
	var all []string
	if err := d.trash.each(func(name string) error { all = append(all, name); return nil }); err != nil {
		return err
	}
	for _, name := range all {
		id, isRecord := strings.CutSuffix(name, recordExt)
		switch {
		case strings.HasPrefix(name, stagePrefix):
			if err := removeTree(ctx, d.trash, name); err != nil {
				return err
			}
		case strings.HasPrefix(name, purgePrefix): // Sweep goes on deleting it
		case isRecord:
			if _, err := d.trash.stat(id); errors.Is(err, fs.ErrNotExist) {
				if err := d.trash.unlink(name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
					return err
				}
			}
		default:
			if _, err := d.trash.stat(name + recordExt); errors.Is(err, fs.ErrNotExist) {
				d.cfg.Logger.Warn("in the trash without a record; kept", "name", name)
			}
		}
	}
	return nil
}
