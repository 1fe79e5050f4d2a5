// Package checkout finds the directory that a caller means: the git top level around it, without symbolic links, as the
// gate knows scopes. It runs no git.
package checkout

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gated/client/api"
	"gated/internal/base/op"
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

// Files returns the files of a scope that people count: all but the content of the .git at its top. It follows no
// symbolic link out of the scope.
func Files(root *os.Root) fs.FS {
	tree, ok := root.FS().(fs.ReadLinkFS)
	if !ok {
		return root.FS() // then git's files are counted too
	}
	return withoutGit{tree}
}

type withoutGit struct{ fs.ReadLinkFS }

// Open opens a file. The top directory does not list .git.
func (w withoutGit) Open(name string) (fs.File, error) {
	f, err := w.ReadLinkFS.Open(name)
	if dir, ok := f.(fs.ReadDirFile); ok && err == nil && name == "." {
		return topDirectory{dir}, nil
	}
	return f, err
}

type topDirectory struct{ fs.ReadDirFile }

// ReadDir may return fewer entries than remain, even none.
func (d topDirectory) ReadDir(n int) ([]fs.DirEntry, error) {
	entries, err := d.ReadDirFile.ReadDir(n)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == ".git" }), err
}

// Look does something on a file system. It waits at most limit, in all, for a place and for the end: a file system in
// user space, or of a dead server, may never answer. A call that never returns costs a goroutine; places bounds their
// number. The error is look's, or the cause of ctx.
func Look[T any](ctx context.Context, places chan struct{}, limit time.Duration, look func() (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var none T
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	type found struct {
		what T
		err  error
	}
	ready := make(chan found, 1)
	go func() {
		defer func() { <-places }()
		what, err := look()
		ready <- found{what, err}
	}()
	select {
	case f := <-ready:
		return f.what, f.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// caseFold is FS_CASEFOLD_FL of linux/fs.h: a directory of ext4, f2fs or tmpfs in which names are equal if only case
// differs. New directories below inherit it.
const caseFold = 0x40000000

// exfatMagic is EXFAT_SUPER_MAGIC of linux/magic.h.
const exfatMagic = 0x2011bab0

// folds reports whether names in a directory are equal if only case differs. If a file system does not say, they
// differ, unless the top level's .git answers to another spelling, as on shares of other systems.
func folds(dir string) bool {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) == nil && (fs.Type == unix.MSDOS_SUPER_MAGIC || fs.Type == exfatMagic) {
		return true
	}
	return flagged(dir) || respelled(dir)
}

func flagged(dir string) bool {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // may not be read
	}
	defer func() { _ = unix.Close(fd) }()
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	return err == nil && flags&caseFold != 0
}

func respelled(dir string) bool {
	written, err := os.Lstat(filepath.Join(dir, ".git"))
	if err != nil {
		return false
	}
	other, err := os.Lstat(filepath.Join(dir, ".GIT"))
	return err == nil && os.SameFile(written, other)
}

// maxLinks is how many symbolic links one path may lead through: the kernel's
// own number (path_resolution(7)).
const maxLinks = 40

// Resolve returns the absolute path, without symbolic links, that opening a path for writing would reach, even if it
// does not exist. It follows links, also to missing files. ".." is the parent of the directory reached so far.
// filepath.EvalSymlinks resolves only what exists, and filepath.Clean removes ".." before it resolves links. Errors are
// those of the file system: too many links, and directories that may not be searched.
func Resolve(path string) (string, error) {
	if path == "" {
		return "", &fs.PathError{Op: "resolve", Path: path, Err: fs.ErrNotExist}
	}
	rest := path
	if !filepath.IsAbs(path) {
		wd, err := os.Getwd()
		if err != nil {
			return "", err
		}
		rest = wd + "/" + path // not Join, which cleans
	}
	real, links := "/", 0
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, name)
		to, err := link(next)
		switch {
		case err != nil:
			return "", err
		case to == "":
			real = next
			continue
		}
		if links++; links > maxLinks {
			return "", &fs.PathError{Op: "resolve", Path: path, Err: unix.ELOOP}
		}
		if filepath.IsAbs(to) {
			real = "/"
		}
		rest = to + "/" + rest
	}
	return real, nil
}

// link returns the destination of a symbolic link; "" if it is another file or missing.
func link(path string) (string, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil && absent(err):
		return "", nil
	case err != nil:
		return "", err
	case info.Mode()&fs.ModeSymlink == 0:
		return "", nil
	}
	to, err := os.Readlink(path)
	if err != nil && absent(err) {
		return "", nil // it was removed meanwhile
	}
	return to, err
}
