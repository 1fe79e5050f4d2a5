package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// suits refuses parameters that are wrong whatever the guest's state is.
func (d *Driver) suits(step op.Step) error {
	if step.Params.Has("template") {
		return refusal.New(refusal.BadParams, "%s: guests that are directories have no templates", step.Op).
			WithHint("leave template out")
	}
	command, runs := step.Params.Str("command"), step.Params.Str("state") == Running
	switch {
	case runs && command == "":
		return refusal.New(refusal.Conflict, "%s would have no command to run", step.Target).
			WithHint("name one with -p command=NAME, or leave state=running out")
	case runs:
		return d.mayRun(step.Target, command)
	}
	return d.checkCommand(command)
}

func (d *Driver) prepareCreate(_ context.Context, step op.Step, _ *guest) (action, error) {
	s := spec{UUID: step.Birth, CreatedAt: d.cfg.Now().UTC()}
	s.apply(step.Params)
	run := step.Params.Str("state") == Running
	if run {
		if err := d.checkRunnable(step.Target, s); err != nil {
			return nil, err
		}
	}
	if err := checkBirth(step.Birth); err != nil { // the gate gives a token to a step, and none to a look
		return nil, refusal.New(refusal.Internal, "%s: %v", step.ID, err)
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
			err = refusal.New(refusal.Conflict, "%s exists already", t).WithHint("%s", op.HintExists)
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
		if driver.IsUnknown(err) {
			return err
		}
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

// startNew starts a guest that was just made. The error is Unknown if the command had begun and processes of it may be left.
// Then the guest has to stay, so that its stop can end them.
func (d *Driver) startNew(ctx context.Context, t op.Target, s spec) error {
	g, err := d.openGuest(t.Name)
	if err != nil {
		return err
	}
	if g == nil || g.UUID != s.UUID {
		return refusal.New(refusal.StaleTarget, "%s is not the one that was made", t)
	}
	defer g.close()
	err = d.start(ctx, g)
	if _, lost := d.lost.get(g.incarnation()); err != nil && lost {
		return driver.Unknown(err)
	}
	return err
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
