package checkout

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

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
