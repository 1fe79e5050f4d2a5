package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"gated/internal/cli"
)

// free refuses, as a Conflict, paths where something is already.
func free(paths ...string) error {
	for _, path := range paths {
		if _, err := os.Lstat(path); err == nil {
			return fileThere(path)
		}
	}
	return nil
}

// writePair writes two new files that belong together, readable by their owner
// alone: each appears whole or not at all, and neither is left behind without
// the other. It never writes over a file.
func writePair(path string, content []byte, beside string, more []byte) error {
	first, err := prepare(path, content)
	if err != nil {
		return err
	}
	defer first.discard()
	second, err := prepare(beside, more)
	if err != nil {
		return err
	}
	defer second.discard()
	if err := first.publish(); err != nil {
		return err
	}
	if err := second.publish(); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// draft is a file on its way: written and on disk, under a name of its own.
type draft struct{ temporary, path string }

// prepare writes a draft in the directory where the file will be. A directory
// that cannot be written is a usage error.
func prepare(path string, content []byte) (draft, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return draft{}, cli.Usage(err.Error())
	}
	d := draft{f.Name(), path}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		d.discard()
		return draft{}, err
	}
	return d, nil
}

// publish gives the draft its name, unless that is taken. Where a file system
// cannot rename so (EINVAL, renameat2(2)), it has hard links.
func (d draft) publish() error {
	err := unix.Renameat2(unix.AT_FDCWD, d.temporary, unix.AT_FDCWD, d.path, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = os.Link(d.temporary, d.path)
	}
	if errors.Is(err, fs.ErrExist) {
		return fileThere(d.path)
	}
	return err
}

// discard removes what publish did not move.
func (d draft) discard() { _ = os.Remove(d.temporary) }
