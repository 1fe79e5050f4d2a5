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

// Resolve returns the absolute path without symbolic links that opening a path
// for writing would lead to, whether or not it exists: links are followed, also
// those that lead to nothing yet, and ".." is the parent of where one is then.
// filepath.EvalSymlinks knows only what exists, and filepath.Clean takes ".."
// back before it knows of links. Errors are those of the file system: too many
// links, and directories that may not be searched.
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

// link returns where a symbolic link leads to, "" of anything else, be it
// nothing.
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
		return "", nil // it went away
	}
	return to, err
}
