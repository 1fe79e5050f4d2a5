// Package checkout finds the directory that a caller means: the git top level around it, without symbolic links, as the
// gate knows scopes. It runs no git.
package checkout

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/wire/api"
)

// Top returns the git top level around a directory: the nearest directory, from dir itself upwards, that has a .git.
// The .git may be a directory or, as in worktrees and submodules, a file. Without any .git it is dir itself. Top
// resolves the path first, so that ".." is the kernel's. Errors are those of the file system, and Malformed if the path
// is not text.
func Top(dir string) (api.Place, error) {
	real, err := directory(dir)
	if err != nil {
		return api.Place{}, err
	}
	return place(top(real))
}

// At returns a directory itself. Errors are as of Top.
func At(dir string) (api.Place, error) {
	real, err := directory(dir)
	if err != nil {
		return api.Place{}, err
	}
	return place(real)
}

// File returns the top level around a file, and the file's path in it, with "/" between names. The file and its
// directories need not exist: File returns where they would be made. A symbolic link means its destination, even if
// that does not exist; ".." after a link is the kernel's. File searches from the file's parent, so that a submodule's
// directory belongs to the repository around it. rel of "/" is ".". Errors are as of Top; rel need not be text.
func File(path string) (p api.Place, rel string, err error) {
	real, err := Resolve(path)
	if err != nil {
		return api.Place{}, "", err
	}
	above, err := existing(filepath.Dir(real))
	if err != nil {
		return api.Place{}, "", err
	}
	if p, err = place(top(above)); err != nil {
		return api.Place{}, "", err
	}
	rel, err = Rel(p, real)
	return p, rel, err
}

// Rel returns the path of a resolved file in a place, "." for the place itself.
// It is an error if the file is outside.
func Rel(p api.Place, real string) (string, error) {
	if real == p.Path {
		return ".", nil
	}
	rel, ok := strings.CutPrefix(real, strings.TrimSuffix(p.Path, "/")+"/")
	if !ok {
		return "", &fs.PathError{Op: "find in " + p.Path, Path: real, Err: fs.ErrNotExist}
	}
	return rel, nil
}

// directory resolves the path of a directory; any other file is an error.
func directory(path string) (string, error) {
	real, err := Resolve(path)
	if err != nil {
		return "", err
	}
	info, err := os.Lstat(real)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", &fs.PathError{Op: "open", Path: path, Err: unix.ENOTDIR}
	}
	return real, nil
}

// existing returns the deepest directory that exists, from a resolved path upwards.
func existing(real string) (string, error) {
	for {
		info, err := os.Lstat(real)
		if err == nil && info.IsDir() {
			return real, nil
		}
		if err != nil && !absent(err) || real == "/" {
			return "", err
		}
		real = filepath.Dir(real)
	}
}

// absent reports whether an error says that there is no such name.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// top returns the top level around a resolved directory.
func top(real string) string {
	for dir := real; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(filepath.Join(dir, ".git"))
		if err == nil && (info.IsDir() || info.Mode().IsRegular()) {
			return dir
		}
		if dir == "/" {
			return real
		}
	}
}

// place asks the kernel for the device and inode of a resolved directory. A path that is not text is Malformed: on its
// way to the gate it would become another path.
func place(real string) (api.Place, error) {
	if err := op.CheckText("the directory's path", real); err != nil {
		return api.Place{}, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(real, &st); err != nil {
		return api.Place{}, &fs.PathError{Op: "stat", Path: real, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR { // another file replaced it since it was resolved
		return api.Place{}, &fs.PathError{Op: "stat", Path: real, Err: unix.ENOTDIR}
	}
	return api.Place{Path: real, Device: uint64(st.Dev), Inode: st.Ino, Fold: folds(real)}, nil
}
