package local

import (
	"context"
	"errors"
	"fmt"
	"os"

	"gated/internal/driver"
	"gated/internal/op"

	"golang.org/x/sys/unix"
)

func (d *Driver) prepareCreate(_ context.Context, step op.Step, _ *guest) (action, error) {
	if err := checkBirth(step.Birth); err != nil {
		return nil, op.Refuse(op.Internal, "%s: %v", step.ID, err)
	}
	s := spec{UUID: step.Birth, CreatedAt: d.cfg.Now().UTC()}
	s.apply(step.Params)
	if err := d.checkCommand(s.Command); err != nil {
		return nil, err
	}
	run := step.Params.Str("state") == Running
	if run {
		if err := d.checkRunnable(step.Target, s); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) error { return d.create(ctx, step.Target, s, run) }, nil
}

// apply sets the fields that the parameters name and leaves the others.
func (s *spec) apply(p op.Params) {
	if p.Has("memory") {
		s.Memory = p.Int("memory")
	}
	if p.Has("cpus") {
		s.CPUs = p.Int("cpus")
	}
	if p.Has("command") {
		s.Command = p.Str("command")
	}
	if p.Has("labels") {
		s.Labels = p.Labels("labels")
	}
	if p.Has("protected") {
		s.Protected = p.Bool("protected")
	}
}

// create builds the guest aside and moves it into place whole.
func (d *Driver) create(ctx context.Context, t op.Target, s spec, run bool) error {
	stage := stagePrefix + s.UUID
	if err := removeTree(ctx, d.root, stage); err != nil { // an attempt that was cut short
		return err
	}
	if err := d.stageGuest(stage, s); err != nil {
		return errors.Join(err, removeTree(context.WithoutCancel(ctx), d.root, stage))
	}
	err := d.root.rename(stage, d.root, t.Name, unix.RENAME_NOREPLACE)
	if err != nil {
		if errors.Is(err, os.ErrExist) {
			err = op.Refuse(op.Conflict, "%s exists already", t)
		}
		return errors.Join(err, removeTree(context.WithoutCancel(ctx), d.root, stage))
	}
	if err := d.root.sync(); err != nil {
		return driver.Unknown(err)
	}
	if !run {
		return nil
	}
	if err := d.startNew(ctx, t, s); err != nil {
		// Nothing ever ran in it: it goes as if it had never been.
		back := d.root.rename(t.Name, d.root, stage, unix.RENAME_NOREPLACE)
		if back == nil {
			back = removeTree(context.WithoutCancel(ctx), d.root, stage)
		}
		err = errors.Join(fmt.Errorf("start: %w", err), back)
		if back != nil {
			return driver.Unknown(err)
		}
		return err
	}
	return nil
}

func (d *Driver) startNew(ctx context.Context, t op.Target, s spec) error {
	g, err := d.openGuest(t.Name)
	if err != nil {
		return err
	}
	if g == nil || g.UUID != s.UUID {
		return op.Refuse(op.StaleTarget, "%s is not the one that was made", t)
	}
	defer g.close()
	return d.start(ctx, g)
}

func (d *Driver) stageGuest(stage string, s spec) error {
	staged, err := d.root.mkdir(stage, 0o700)
	if err != nil {
		return err
	}
	defer staged.close()
	for _, name := range []string{dataDir, snapshotsDir} {
		sub, err := staged.mkdir(name, 0o700)
		if err != nil {
			return err
		}
		err = sub.sync()
		sub.close()
		if err != nil {
			return err
		}
	}
	self, err := staged.self()
	if err != nil {
		return err
	}
	s.Inode, s.Birth = self.ino, self.birth
	g := &guest{dir: staged}
	return g.write(s) // which syncs the directory, too
}
