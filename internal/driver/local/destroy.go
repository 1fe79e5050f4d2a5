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

func (d *Driver) prepareDestroy(ctx context.Context, step op.Step, g *guest) (action, error) {
	if err := d.checkNoMount(d.path(g.name), step.Op); err != nil {
		return nil, err
	}
	if err := d.settleFirst(ctx, g); err != nil {
		return nil, err
	}
	return func(ctx context.Context, _ *driver.Result) error { return d.destroy(ctx, g) }, nil
}

// destroy stops the guest and renames it into the trash. At the rename the guest is destroyed.
func (d *Driver) destroy(ctx context.Context, g *guest) error {
	if err := d.stopFirst(ctx, g, "guest.destroy"); err != nil {
		return err
	}
	crashpoint.Here(crashpoint.DestroyStopped)
	// It checks again, because stopping took time.
	if err := d.checkNoMount(d.path(g.name), "guest.destroy"); err != nil {
		return err
	}
	meant := entry{ino: g.Inode, birth: g.Birth}
	if e, err := d.root.stat(g.name); err != nil || !e.same(meant) {
		return errors.Join(refusal.New(refusal.StaleTarget, "guest/%s was exchanged meanwhile", g.name), err)
	}
	now := d.cfg.Now().UTC()
	committed, err := d.put(d.root, g.name, meant, trashName(g.name, g.incarnation()), trashed{Name: g.name,
		Incarnation: g.incarnation(), What: wholeGuest, DestroyedAt: now, Until: now.Add(d.cfg.TrashKeep)})
	if committed && err != nil {
		return driver.Unknown(err)
	}
	return err
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
	return func(context.Context, *driver.Result) error { return d.undelete(id, t) }, nil
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
func (d *Driver) undelete(id string, t op.Target) error {
	err := d.trash.rename(id, d.root, t.Name, unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, fs.ErrExist):
		return refusal.New(refusal.Conflict, "%s exists already", t)
	case errors.Is(err, fs.ErrNotExist):
		return refusal.New(refusal.UnknownTarget, "the trash has no such %s any more", t)
	case err != nil:
		return err
	}
	crashpoint.Here(crashpoint.UndeleteMoved)
	err = errors.Join(d.root.sync(), d.trash.unlink(id+recordExt, 0))
	crashpoint.Here(crashpoint.UndeleteUnrecorded)
	if err = errors.Join(err, d.trash.sync()); err != nil {
		return driver.Unknown(err)
	}
	return nil
}
