package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// below resolves a caller's path, absolute or relative to root, to a path without links. It
// refuses with BadParams the root itself, a path that leads out of the root, and a missing
// path. Only the last name may be missing, because a command may make that file.
func below(root, given string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", refusal.New(refusal.BadParams, "%s %s", op.Shown(given), why).WithHint("a path below %s is meant", root)
	}
	rel := given
	if filepath.IsAbs(given) {
		var ok bool
		if rel, ok = strings.CutPrefix(given, strings.TrimSuffix(root, "/")+"/"); !ok {
			return refuse("is not below " + root)
		}
	}
	for name := range strings.SplitSeq(rel, "/") {
		if name == ".." {
			return refuse("has a .. in it")
		}
	}
	if rel = filepath.Clean(rel); rel == "." || filepath.IsAbs(rel) {
		return refuse("is " + root + " itself")
	}
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", refusal.New(refusal.Unavailable, "%s cannot be opened: %v", root, err)
	}
	defer unix.Close(dir)
	found, err := resolve(dir, rel)
	if errors.Is(err, fs.ErrNotExist) && !dangling(dir, rel) {
		parent := filepath.Dir(rel)
		if found, err = resolve(dir, parent); err == nil {
			found = filepath.Join(found, filepath.Base(rel))
		}
	}
	switch {
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return refuse("leads out of " + root)
	case err != nil:
		return refuse(fmt.Sprintf("cannot be followed: %v", err))
	}
	itself, err := resolve(dir, ".")
	if err != nil {
		return "", refusal.New(refusal.Unavailable, "%s cannot be looked at: %v", root, err)
	}
	if !strings.HasPrefix(found, strings.TrimSuffix(itself, "/")+"/") {
		return refuse("leads to " + root + " itself, or out of it")
	}
	if op.CheckText("", found) != nil {
		return refuse("leads to a name that does not show as it is")
	}
	return found, nil
}

// resolve returns the path of a name below an open directory. It only follows links that stay
// below that directory.
func resolve(dir int, rel string) (string, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(dir, rel, &how)
	for errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) { // a file was renamed meanwhile
		fd, err = unix.Openat2(dir, rel, &how)
	}
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	return os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
}

// dangling reports if the last name is a link to a missing file.
func dangling(dir int, rel string) bool {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS}
	fd, err := unix.Openat2(dir, rel, &how)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err == nil
}
