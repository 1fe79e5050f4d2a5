package service

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/agents/reserve"
	"gated/internal/base/refusal"
)

const (
	// maxPath is the longest path of a directory, in bytes (PATH_MAX, without
	// the zero that ends it).
	maxPath = 4095
	// placePatience is how long a look at a directory may take: a file system in user space, or of a dead server, may
	// never answer.
	placePatience = 2 * time.Second
	// placesAtOnce is how many looks may run at a time in one lane.
	placesAtOnce = 4
	// placeLanes is how many lanes the uids share, so that one uid's endless looks do not stop the others.
	placeLanes = 16
)

// places compares callers' words about directories with what the daemon sees.
type places struct {
	down   func(path string, met func(checkout.Directory)) error
	at     func(path string) (api.Place, error)
	unseen bool // grant claims even if the daemon cannot see which uids may write
	lanes  [placeLanes]chan struct{}
}

func newPlaces(unseen bool) *places {
	p := &places{down: checkout.Down, at: checkout.At, unseen: unseen}
	for i := range p.lanes {
		p.lanes[i] = make(chan struct{}, placesAtOnce) // one place for each look
	}
	return p
}

// claimant is a caller that names a directory, as the kernel knows it.
type claimant struct {
	uid    uint32
	groups []uint32
}

// claim is check, and refuses, as NotAllowed, a caller that may not write to the directory: such a caller must not keep
// others out of it. If the daemon cannot see the directory, it takes the deepest directory on the way that it can see.
// It believes a caller that owns that one or may write to it.
func (p *places) claim(ctx context.Context, who claimant, said api.Place, identity bool) (reserve.Place, error) {
	place, seen, err := p.check(ctx, who.uid, said, identity)
	if err != nil {
		return place, err
	}
	last := seen.last.Load()
	switch {
	case last == nil && seen.err != nil && !p.unseen:
		return place, refusal.New(refusal.Unavailable, "the daemon cannot look at %s now: %v", said.Path, seen.err).
			WithHint("try again")
	case last == nil, last.Writable(who.uid, who.groups):
		return place, nil
	case seen.err == nil:
		return place, refusal.New(refusal.NotAllowed, "uid %d may not write to %s", who.uid, said.Path).
			WithHint("reserve in a directory that you may write to: --scope DIR")
	case p.unseen, last.UID == who.uid:
		return place, nil
	}
	return place, refusal.New(refusal.NotAllowed,
		"the daemon cannot see %s, and uid %d neither owns nor may write to %s, which it does see",
		said.Path, who.uid, last.Path).
		WithHint("in a container, mount the directory under the path that it has on the host; else an operator lets the daemon's uid look there, " +
			"or takes callers' word for it: reservations: {unseen: allow}")
}

// mayStay is claim for a holder that has the directory already. If the directory cannot be looked at now, the holder
// keeps it.
func (p *places) mayStay(ctx context.Context, who claimant, path string) error {
	seen := p.look(ctx, who.uid, path)
	switch last := seen.last.Load(); {
	case ctx.Err() != nil:
		return ctx.Err()
	case last == nil, last.Writable(who.uid, who.groups), seen.err != nil && (p.unseen || last.UID == who.uid || !shut(seen.err)):
		return nil
	}
	return refusal.New(refusal.NotAllowed, "uid %d may not write to %s any more", who.uid, path).
		WithHint("it lasts until its time is up; release it")
}

// shut reports whether a directory does not exist, or is closed to the daemon while others may pass.
func shut(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// check refuses, as BadParams, a path that cannot be a scope's and, as StaleTarget, a directory that is not the one
// that the caller sees. identity says whether the caller must name the device and inode. If the daemon sees the
// directory, the daemon decides whether names there differ by case. If not, the caller's word counts.
func (p *places) check(ctx context.Context, uid uint32, said api.Place, identity bool) (reserve.Place, *sight, error) {
	place := reserve.Place{Path: said.Path, Device: said.Device, Inode: said.Inode, Fold: said.Fold}
	if err := checkPath(said.Path); err != nil {
		return place, nil, err
	}
	if identity && said.Inode == 0 {
		return place, nil, refusal.New(refusal.BadParams, "scope has neither device nor inode of the directory").
			WithHint("stat(2) says them")
	}
	seen := p.look(ctx, uid, said.Path)
	switch {
	case ctx.Err() != nil:
		return place, nil, ctx.Err()
	case errors.Is(seen.err, syscall.ENOTDIR):
		return place, nil, refusal.New(refusal.BadParams, "%s is not a directory", said.Path)
	case errors.Is(seen.err, syscall.ELOOP), seen.err == nil && seen.Path != said.Path:
		return place, nil, refusal.New(refusal.BadParams, "there is a symbolic link in the path %s", said.Path).
			WithHint("realpath %s prints it without", said.Path)
	case seen.err != nil:
		return place, seen, nil
	case said.Inode != 0 && (seen.Device != said.Device || seen.Inode != said.Inode), !seen.one():
		return place, nil, refusal.New(refusal.StaleTarget, "the directory %s is another one than the caller's", said.Path).
			WithHint("it was made anew meanwhile; or the caller is in a container: mount the directory there under the path that it has on the host")
	}
	place.Fold = seen.Fold
	return place, seen, nil
}

// checkPath refuses a path that is not absolute or not clean.
func checkPath(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return refusal.New(refusal.BadParams, "scope: the path of the directory is not absolute")
	case len(path) > maxPath:
		return refusal.New(refusal.BadParams, "scope: the path of the directory is longer than %d bytes", maxPath)
	case strings.ContainsRune(path, 0):
		return refusal.New(refusal.BadParams, "scope: the path of the directory has a zero byte in it")
	case filepath.Clean(path) != path:
		return refusal.New(refusal.BadParams, "scope: the path of the directory is not in its shortest form").
			WithHint("without . and .., doubled slashes and one at the end")
	}
	return nil
}

// sight is what the daemon saw of a directory.
type sight struct {
	api.Place                                    // if err is nil
	last      atomic.Pointer[checkout.Directory] // the last directory seen on the way; set also during the look
	err       error                              // why the directory itself was not seen
}

// one reports whether two looks saw the same directory.
func (s *sight) one() bool {
	last := s.last.Load()
	return last.Device == s.Device && last.Inode == s.Inode
}

// look waits for a look at a directory, but not for ever. A look that never returns costs a goroutine; the lane of a
// uid has at most placesAtOnce of them.
func (p *places) look(ctx context.Context, uid uint32, path string) *sight {
	seen := &sight{}
	seen.Place, seen.err = checkout.Look(ctx, p.lanes[uid%placeLanes], placePatience, func() (api.Place, error) {
		if err := p.down(path, func(d checkout.Directory) { seen.last.Store(&d) }); err != nil {
			return api.Place{}, err
		}
		return p.at(path)
	})
	return seen
}
