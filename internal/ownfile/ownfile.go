// Package ownfile reads and replaces small files that one user keeps and that
// prove something to that user: which gates were met, what their logs said. What
// another could have written proves nothing, and is refused.
package ownfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"gated/internal/op"
)

// File is one such file. Its methods never wait for anybody.
type File struct {
	Path  string
	Max   int64  // bytes that are read
	What  string // it holds, in the plural: "the gates that are known"
	Moved string // the variable that puts it elsewhere
}

// Read returns the file's text; none if there is no file. NotAllowed is what
// proves nothing: a file, or its directory, that others may write or that belongs
// to another than root and the user, and what is no ordinary file, a symbolic
// link or a pipe too. More bytes than Max are Oversized.
func (f File) Read() ([]byte, error) {
	if err := f.CheckDir(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	switch {
	case absent(f.Path, err):
		return nil, nil
	case errors.Is(err, syscall.ELOOP):
		return nil, op.Refuse(op.NotAllowed, "%s is a symbolic link, and opsign writes a file of its own", f.Path).
			WithHint("put the file itself there; to have it elsewhere, set %s", f.Moved)
	case err != nil:
		return nil, f.unread(err)
	}
	defer func() { _ = file.Close() }() // nothing was written
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, op.Refuse(op.NotAllowed, "%s is not an ordinary file", f.Path).WithHint("find out whose it is, and move it away")
	}
	if err := f.own(f.Path, info); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(file, f.Max+1))
	if err == nil && int64(len(text)) > f.Max {
		err = f.oversized("has")
	}
	return text, err
}

func (f File) unread(err error) error {
	return op.Refuse(op.NotAllowed, "%s cannot be read: %v", f.What, err)
}

func (f File) oversized(verb string) error {
	return op.Refuse(op.Oversized, "%s %s more than %d bytes", f.Path, verb, f.Max)
}

// CheckDir refuses a directory in which another could put a file in the place of
// this one, as Read does. One that is not there is none.
func (f File) CheckDir() error {
	dir := filepath.Dir(f.Path)
	info, err := os.Stat(dir)
	switch {
	case absent(dir, err):
		return nil
	case err != nil:
		return f.unread(err)
	}
	return f.own(dir, info)
}

// own refuses what is neither the user's nor root's, or what others may write.
func (f File) own(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return op.Refuse(op.NotAllowed, "the owner of %s is not known, so that it proves nothing", path)
	}
	if uid := os.Geteuid(); st.Uid != 0 && int(st.Uid) != uid {
		return op.Refuse(op.NotAllowed, "%s belongs to %s, who is neither root nor you (uid %d), so that it proves nothing", path, Owner(st.Uid), uid).
			WithHint("look at what is in it, then move it away; or set %s to a directory of your own", f.Moved)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return op.Refuse(op.NotAllowed, "%s may be written by others, so that it proves nothing", path).
			WithHint("look at what is in it, then chmod go-w %s", path)
	}
	return nil
}

// Owner is a uid with the name that this host has for it.
func Owner(uid uint32) string {
	text := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(text); err == nil {
		return fmt.Sprintf("uid %s (%s)", text, u.Username)
	}
	return "uid " + text
}

// absent reports whether an error of opening a path says that nothing can have
// been kept there: there is no such path, or it is below a directory that this
// user may not look into, another's home.
func absent(path string, err error) bool {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return true
	}
	if errors.Is(err, fs.ErrPermission) {
		_, err := os.Lstat(path)
		return errors.Is(err, fs.ErrPermission)
	}
	return false
}
