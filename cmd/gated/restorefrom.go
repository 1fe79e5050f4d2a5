package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/wire/cli"
)

// backupToRestore is the path of the backup that the command line names, and what removes it if it is a copy. For "-" it
// copies standard input, because the gate's user may not open root's backups: root's shell opens them, and the content
// goes on to that user alone.
func (t *tool) backupToRestore(name, state string) (path string, done func(), err error) {
	if name != "-" {
		if err := readable(name); err != nil {
			return "", nil, cli.Usage(unreadable(err, name, state))
		}
		return name, func() {}, nil
	}
	dir, err := os.MkdirTemp("", "gated-restore-") // 0700
	if err != nil {
		return "", nil, err
	}
	done = func() { os.RemoveAll(dir) }
	// The audit log says which file was restored by the last part of its path.
	path = filepath.Join(dir, "standard-input")
	if err := copyInto(path, t.stdin); err != nil {
		done()
		return "", nil, fmt.Errorf("copy the backup from standard input: %w", err)
	}
	return path, done, nil
}

// copyInto writes all of r into a new file.
func copyInto(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// unreadable says that this user cannot read a backup, and how root hands it over.
func unreadable(err error, file, state string) string {
	if !errors.Is(err, fs.ErrPermission) {
		return err.Error()
	}
	return fmt.Sprintf("%v\nroot can hand it over: runuser -u %s -- gated restore - --state %s < %s", err, ownfile.Name(uint32(os.Geteuid())),
		op.ShellWords(state), op.ShellWords(file))
}
