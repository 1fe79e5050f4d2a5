package daemon

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gated/internal/api"
	"gated/internal/checkout"
	"gated/internal/op"
	"gated/internal/reserve"
)

const (
	// maxPath is the longest path of a directory, in bytes (PATH_MAX, without
	// the zero that ends it).
	maxPath = 4095
	// placePatience is how long a look at a directory may take: a file system in
	// user space, or one of a server that is gone, may never answer.
	placePatience = 2 * time.Second
	// placesAtOnce is how many looks may be under way.
	placesAtOnce = 16
)

// places compares what callers say of directories with what the daemon sees.
type places struct {
	at   func(path string) (api.Place, error)
	free chan struct{} // holds one for each look under way
}

func newPlaces() *places {
	return &places{at: checkout.At, free: make(chan struct{}, placesAtOnce)}
}

// check refuses, as BadParams, what cannot be the path of a scope, and, as
// StaleTarget, a directory that is not the one which the caller sees. identity
// says whether the caller has to say which one that is.
//
// The daemon's uid may not be allowed to look, and in its mount namespace there
// may be nothing: then it is the caller's word, by which nobody is cheated but
// the caller. Where the daemon does see the directory, it is the one to say
// whether names there differ by case.
func (p *places) check(ctx context.Context, said api.Place, identity bool) (reserve.Place, error) {
	place := reserve.Place{Path: said.Path, Device: said.Device, Inode: said.Inode, Fold: said.Fold}
	if err := checkPath(said.Path); err != nil {
		return place, err
	}
	if identity && said.Inode == 0 {
		return place, op.Refuse(op.BadParams, "scope has neither device nor inode of the directory").WithHint("stat(2) says them")
	}
	seen, err := p.look(ctx, said.Path)
	switch {
	case ctx.Err() != nil:
		return place, ctx.Err()
	case errors.Is(err, syscall.ENOTDIR):
		return place, op.Refuse(op.BadParams, "%s is not a directory", said.Path)
	case errors.Is(err, syscall.ELOOP), err == nil && seen.Path != said.Path:
		return place, op.Refuse(op.BadParams, "there is a symbolic link in the path %s", said.Path).
			WithHint("realpath %s prints it without", said.Path)
	case err != nil:
		return place, nil
	case said.Inode != 0 && (seen.Device != said.Device || seen.Inode != said.Inode):
		return place, op.Refuse(op.StaleTarget, "the directory %s is another one than the caller's", said.Path).
			WithHint("it was made anew meanwhile; or the caller is in a container: mount the directory there under the path that it has on the host")
	}
	place.Fold = seen.Fold
	return place, nil
}

// checkPath refuses what is no absolute path in its shortest form.
func checkPath(path string) error {
	switch {
	case !filepath.IsAbs(path):
		return op.Refuse(op.BadParams, "scope: the path of the directory is not absolute")
	case len(path) > maxPath:
		return op.Refuse(op.BadParams, "scope: the path of the directory is longer than %d bytes", maxPath)
	case strings.ContainsRune(path, 0):
		return op.Refuse(op.BadParams, "scope: the path of the directory has a zero byte in it")
	case filepath.Clean(path) != path:
		return op.Refuse(op.BadParams, "scope: the path of the directory is not in its shortest form").
			WithHint("without . and .., doubled slashes and one at the end")
	}
	return nil
}

// look waits for a look at a directory as long as is worth it. One that never
// comes back costs a goroutine, of which there are placesAtOnce at most.
func (p *places) look(ctx context.Context, path string) (api.Place, error) {
	ctx, cancel := context.WithTimeout(ctx, placePatience)
	defer cancel()
	type found struct {
		api.Place
		error
	}
	select {
	case p.free <- struct{}{}:
	case <-ctx.Done():
		return api.Place{}, ctx.Err()
	}
	ready := make(chan found, 1)
	go func() {
		defer func() { <-p.free }()
		at, err := p.at(path)
		ready <- found{at, err}
	}()
	select {
	case f := <-ready:
		return f.Place, f.error
	case <-ctx.Done():
		return api.Place{}, ctx.Err()
	}
}
