// Package checkout says which directory a caller means: the git top level
// around it, without symbolic links, as the gate knows scopes. It runs no git.
package checkout

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/api"
	"gated/internal/op"
)

// Top returns the git top level around a directory: the nearest directory, from
// dir itself upwards to "/", that has a .git, be it a directory or, as in
// worktrees and submodules, a file. Where there is none it is dir itself. The
// path is resolved first, so that the way upwards is the kernel's. Errors are
// those of the file system, and Malformed for a path that is no text.
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

// File returns the top level around a file, and the file's path in it, with "/"
// between names. The file need not exist, nor the directories above it: what
// does not exist yet is where it would be made. A symbolic link means what it
// leads to, also where that does not exist; ".." after one is the kernel's. The
// file is looked for in its parent's top level, so that a submodule's directory
// belongs to the repository around it. rel of "/" is ".". Errors are as of Top;
// rel may be no text.
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

// directory resolves the path of a directory, which has to be one.
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

// existing returns the deepest directory, from a resolved one upwards, that is
// there.
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

// absent reports whether an error says that there is nothing of that name.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// top goes upwards from a resolved directory.
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

// place asks the kernel what a resolved directory is. A path that is no text is
// Malformed: on its way to the gate it would become another one.
func place(real string) (api.Place, error) {
	if err := op.CheckText("the directory's path", real); err != nil {
		return api.Place{}, err
	}
	var st unix.Stat_t
	if err := unix.Lstat(real, &st); err != nil {
		return api.Place{}, &fs.PathError{Op: "stat", Path: real, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR { // replaced since it was resolved
		return api.Place{}, &fs.PathError{Op: "stat", Path: real, Err: unix.ENOTDIR}
	}
	return api.Place{Path: real, Device: uint64(st.Dev), Inode: st.Ino, Fold: folds(real)}, nil
}
