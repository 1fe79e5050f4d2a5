package local

import (
	"context"
	"errors"
	"fmt"
	"os"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"

	"golang.org/x/sys/unix"
)

func (d *Driver) prepareCreate(_ context.Context, step op.Step, _ *guest) (action, error) {
	if err := checkBirth(step.Birth); err != nil {
		return nil, refusal.New(refusal.Internal, "%s: %v", step.ID, err)
	}
	if step.Params.Has("template") {
		return nil, refusal.New(refusal.BadParams, "%s: guests that are directories have no templates", step.Op).
			WithHint("leave template out")
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
	return func(ctx context.Context, _ *driver.Result) error { return d.create(ctx, step.Target, s, run) }, nil
}

// apply sets the fields that the parameters name and keeps the others.
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

// create builds the guest under another name and then moves the whole guest into place.
func (d *Driver) create(ctx context.Context, t op.Target, s spec, run bool) error {
	stage := stagePrefix + s.UUID
	if err := removeTree(ctx, d.root, stage); err != nil { // an attempt that was interrupted
		return err
	}
	made, err := d.stageGuest(stage, s)
	if err != nil {
		return errors.Join(err, removeTree(context.WithoutCancel(ctx), d.root, stage))
	}
	crashpoint.Here(crashpoint.CreateStaged)
	err = d.root.rename(stage, d.root, t.Name, unix.RENAME_NOREPLACE)
	if err != nil {
		if errors.Is(err, os.ErrExist) {
			err = refusal.New(refusal.Conflict, "%s exists already", t)
		}
		return errors.Join(err, removeTree(context.WithoutCancel(ctx), d.root, stage))
	}
	crashpoint.Here(crashpoint.CreatePlaced)
	if err := d.root.sync(); err != nil {
		return driver.Unknown(err)
	}
	if !run {
		return nil
	}
	if err := d.startNew(ctx, t, s); err != nil {
		err = fmt.Errorf("start: %w", err)
		if back := d.unmake(ctx, t, stage, made); back != nil {
			return driver.Unknown(errors.Join(err, back))
		}
		return err
	}
	return nil
}

// unmake removes a guest that was made and could not be started. Nothing ever ran in it, so it
// leaves no trace. If another guest has its name now, that guest stays.
func (d *Driver) unmake(ctx context.Context, t op.Target, stage string, made entry) error {
	if err := d.root.rename(t.Name, d.root, stage, unix.RENAME_NOREPLACE); err != nil {
		return err
	}
	if moved, err := d.root.stat(stage); err != nil || !moved.same(made) {
		back := d.root.rename(stage, d.root, t.Name, unix.RENAME_NOREPLACE)
		if back != nil {
			// Sweep never deletes a thing in the trash that has no record.
			back = errors.Join(back, d.root.rename(stage, d.trash, "exchanged"+stage, unix.RENAME_NOREPLACE))
		}
		return errors.Join(refusal.New(refusal.StaleTarget, "%s was exchanged meanwhile", t), err, back)
	}
	return removeTree(context.WithoutCancel(ctx), d.root, stage)
}

func (d *Driver) startNew(ctx context.Context, t op.Target, s spec) error {
	g, err := d.openGuest(t.Name)
	if err != nil {
		return err
	}
	if g == nil || g.UUID != s.UUID {
		return refusal.New(refusal.StaleTarget, "%s is not the one that was made", t)
	}
	defer g.close()
	return d.start(ctx, g)
}

// stageGuest builds a guest under another name and returns its directory's identity.
func (d *Driver) stageGuest(stage string, s spec) (entry, error) {
	staged, err := d.root.mkdir(stage, 0o700)
	if err != nil {
		return entry{}, err
	}
	defer staged.close()
	for _, name := range []string{dataDir, snapshotsDir} {
		sub, err := staged.mkdir(name, 0o700)
		if err != nil {
			return entry{}, err
		}
		err = sub.sync()
		sub.close()
		if err != nil {
			return entry{}, err
		}
	}
	self, err := staged.self()
	if err != nil {
		return entry{}, err
	}
	s.Inode, s.Birth = self.ino, self.birth
	g := &guest{dir: staged}
	return self, g.write(s) // write also syncs the directory
}
