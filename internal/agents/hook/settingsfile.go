package hook

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// settingsFile is a file and its state when it was read.
type settingsFile struct {
	path    string
	content []byte
	info    fs.FileInfo // nil: no file
}

// readSettings reads a file. It follows no symbolic link, because that could lead to another user's settings.
func readSettings(path string) (settingsFile, error) {
	s := settingsFile{path: path}
	for _, p := range []string{filepath.Dir(path), path} {
		info, err := os.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) {
			return s, nil
		}
		if err != nil {
			return s, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return s, refusal.New(refusal.Conflict, "%s is a symbolic link", op.Shown(p)).
				WithHint("name the file that it leads to: --agent-settings FILE, and --file FILE of gated mcp")
		}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return s, err
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return s, err
	}
	if !info.Mode().IsRegular() {
		return s, refusal.New(refusal.Conflict, "%s is no regular file", op.Shown(path))
	}
	s.info = info
	if s.content, err = readAll(f, maxSettings, "it"); err != nil {
		return s, named(path, err)
	}
	return s, nil
}

// replace replaces the file's content in one step, and keeps its mode and owner. If the file is no longer what was
// read, it is a Conflict.
func (s settingsFile) replace(content []byte) error {
	if s.info == nil {
		return s.create(content)
	}
	next, err := s.beside(s.path, content)
	if err != nil {
		return err
	}
	if err = s.unchanged(); err == nil {
		err = os.Rename(next, s.path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}

// create makes a new file, and its directory.
func (s settingsFile) create(content []byte) error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return err
	}
	next, err := s.beside(s.path, content)
	if err != nil {
		return err
	}
	err = os.Link(next, s.path) // a link never replaces another file
	if errors.Is(err, fs.ErrExist) {
		err = s.meanwhile()
	}
	return errors.Join(err, os.Remove(next))
}

// remove deletes the file if it is still what was read.
func (s settingsFile) remove() error {
	if err := s.unchanged(); err != nil {
		return err
	}
	return os.Remove(s.path)
}

// removeAll deletes the file, and then those of its directories that a site's file has, if they are empty. It deletes no
// link to a directory.
func (s settingsFile) removeAll(l site) error {
	err := s.remove()
	if !strings.HasSuffix(s.path, "/"+l.file) {
		return err
	}
	gone := err
	for dir := filepath.Dir(l.file); gone == nil && dir != "."; dir = filepath.Dir(dir) {
		gone = syscall.Rmdir(strings.TrimSuffix(s.path, l.file) + dir) // it fails if the directory is not empty, or a link
	}
	return err
}

// copyTo writes the content that was read under another name, unless that has something.
func (s settingsFile) copyTo(path string) error {
	next, err := s.beside(path, s.content)
	if err != nil {
		return err
	}
	if err = os.Link(next, path); errors.Is(err, fs.ErrExist) { // a link never replaces another file
		err = nil
	}
	return errors.Join(err, os.Remove(next))
}

// unchanged is a refusal if the file changed since it was read.
func (s settingsFile) unchanged() error {
	now, err := readSettings(s.path)
	if err != nil {
		return err
	}
	if now.info == nil || !os.SameFile(now.info, s.info) || now.info.Mode() != s.info.Mode() || !bytes.Equal(now.content, s.content) {
		return s.meanwhile()
	}
	return nil
}

func (s settingsFile) meanwhile() error {
	return refusal.New(refusal.Conflict, "%s was changed meanwhile", op.Shown(s.path)).WithHint("do it again")
}

// beside writes content to a new file in a path's directory, with the mode and owner of the file that was read.
func (s settingsFile) beside(path string, content []byte) (name string, err error) {
	return beside(path, content, s.dress)
}

// beside writes content to a new file in a path's directory, and dress sets its mode. It returns the name. The file is
// on disk then, and can be moved to the path.
func beside(path string, content []byte, dress func(*os.File) error) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".gated-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(content)
	err = errors.Join(err, dress(f), f.Sync(), f.Close())
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// move moves a file from beside a path to the path, in one step. If that fails, it deletes the file.
func move(next, path string) error {
	if err := os.Rename(next, path); err != nil {
		return errors.Join(err, os.Remove(next))
	}
	return nil
}

// dress gives a file the mode and owner of the file that was read.
func (s settingsFile) dress(f *os.File) error {
	if s.info == nil {
		return f.Chmod(0o644)
	}
	if st, ok := s.info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return f.Chmod(s.info.Mode().Perm())
}
