// Package ownfile reads and replaces small files that one user keeps as proof. Examples are the
// gates that the user met, and the heads of their logs. It refuses a file that another user
// could have written, because such a file proves nothing.
package ownfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// File is one such file. Only Lock waits for another process.
type File struct {
	Path  string
	Max   int64  // the most bytes that the file may have
	What  string // what it holds, in the plural: "the gates that are known"
	Moved string // the environment variable that changes the path
}

// Read returns the file's text, or no text if there is no file. It refuses with NotAllowed if
// others may write the file or its directory, or if another user than root and the user owns
// one of them. It also refuses any file that is no ordinary file, such as a symbolic link or a
// pipe. More bytes than Max are Oversized.
func (f File) Read() ([]byte, error) {
	if err := f.CheckDir(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	switch {
	case absent(f.Path, err):
		return nil, nil
	case errors.Is(err, syscall.ELOOP):
		return nil, refusal.New(refusal.NotAllowed, "%s is a symbolic link, and opsign writes a file of its own", f.Path).
			WithHint("put the file itself there; to have it elsewhere, set %s", f.Moved)
	case err != nil:
		return nil, f.unread(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, refusal.New(refusal.NotAllowed, "%s is not an ordinary file", f.Path).
			WithHint("find out whose it is, and move it away")
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
	return refusal.New(refusal.NotAllowed, "%s cannot be read: %v", f.What, err)
}

func (f File) oversized(verb string) error {
	return refusal.New(refusal.Oversized, "%s %s more than %d bytes", f.Path, verb, f.Max)
}

// CheckDir refuses a directory in which another user could replace the file, as Read does. A
// missing directory is allowed.
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

// own refuses a file that belongs to another user than this one and root, or that others may
// write.
func (f File) own(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return refusal.New(refusal.NotAllowed, "the owner of %s is not known, so that it proves nothing", path)
	}
	if uid := os.Geteuid(); st.Uid != 0 && int(st.Uid) != uid {
		return refusal.New(refusal.NotAllowed,
			"%s belongs to %s, who is neither root nor you (uid %d), so that it proves nothing", path, Owner(st.Uid), uid).
			WithHint("look at what is in it, then move it away; or set %s to a directory of your own", f.Moved)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return refusal.New(refusal.NotAllowed, "%s may be written by others, so that it proves nothing", path).
			WithHint("look at what is in it, then chmod go-w %s", path)
	}
	return nil
}

// Owner is a uid with the name that this host has for it.
func Owner(uid uint32) string {
	text := strconv.FormatUint(uint64(uid), 10)
	if name := Name(uid); name != text {
		return fmt.Sprintf("uid %s (%s)", text, name)
	}
	return "uid " + text
}

// Name is the name that this host has for a uid, or the uid in decimal digits.
func Name(uid uint32) string {
	text := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(text); err == nil {
		return u.Username
	}
	return text
}

// absent reports whether an error of opening a path says that no file can have been kept there.
// Either the path does not exist, or it is below a directory that this user may not look into,
// such as another user's home.
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

const (
	// headLength is how many bytes of a program the kernel reads to find its interpreter
	// (BINPRM_BUF_SIZE). The interpreter of a script may be a script itself. maxInterpreters is how
	// many such scripts the kernel follows (execve(2)).
	headLength      = 256
	maxInterpreters = 5
)

// CheckProgram is Check for a program and, if it is a script, also for its interpreter. If the
// program may not be read, only the program itself is checked.
func (s StrictModes) CheckProgram(path string) error {
	for range maxInterpreters {
		head, err := s.head(path)
		if err != nil {
			return err
		}
		next, ok := parseInterpreter(head)
		if !ok {
			return nil
		}
		if !strings.HasPrefix(next, "/") {
			return refusal.New(refusal.NotAllowed, "%s is run by %s, which is looked for in the directory that it runs in",
				op.Shown(path), op.Shown(next)).
				WithHint("begin its first line with #! and an absolute path")
		}
		path = next
	}
	return refusal.New(refusal.NotAllowed, "%s is run by a script that is run by others", op.Shown(path)).
		WithHint("name the interpreter itself")
}

// head returns the beginning of a program, or nothing if it may not be read.
func (s StrictModes) head(path string) ([]byte, error) {
	f, err := s.Open(path)
	if errors.Is(err, os.ErrPermission) {
		return nil, s.Check(path)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	head := make([]byte, headLength)
	n, err := io.ReadFull(f, head)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	return head[:n], err
}

// parseInterpreter returns the path after #! as execve(2) reads it.
func parseInterpreter(head []byte) (path string, ok bool) {
	rest, ok := bytes.CutPrefix(head, []byte("#!"))
	if !ok {
		return "", false
	}
	rest = bytes.TrimLeft(rest, " \t")
	if end := bytes.IndexAny(rest, " \t\n\x00"); end >= 0 {
		rest = rest[:end]
	}
	return string(rest), len(rest) > 0
}

// InGroup reports whether the system's list of groups has a user in a group. The kernel does not ask that list: a process has the groups
// that its login began with.
func InGroup(u *user.User, gid string) bool {
	groups, err := u.GroupIds()
	return err == nil && slices.Contains(groups, gid)
}

// PrivateGroup returns a function that reports whether a group is a uid's private one: its
// primary group, with the same name (useradd(8), -U). Root has none. It does not check that the
// group has no other members. So use it only for files that a person reads, not for files that
// a daemon trusts.
func PrivateGroup(uid uint32) func(gid uint32) bool {
	return func(gid uint32) bool {
		if uid == 0 || gid == 0 {
			return false
		}
		text := strconv.FormatUint(uint64(gid), 10)
		u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
		if err != nil || u.Gid != text {
			return false
		}
		g, err := user.LookupGroupId(text)
		return err == nil && g.Name == u.Username
	}
}
