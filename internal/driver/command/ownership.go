package command

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/op"
)

// maxLinks is how many symbolic links a path may lead through, as in path_resolution(7).
const maxLinks = 40

// ownedAlone refuses, as Unavailable, a path that anybody but root and the
// daemon's own user could make lead elsewhere: each directory and link on the way
// to the file, and the file, is owned by one of them, and nobody else may write
// to it. In a directory with the sticky bit, as /tmp, others cannot replace what
// is not theirs.
func ownedAlone(path string) error {
	at, rest := "/", strings.TrimPrefix(filepath.Clean(path), "/")
	if err := ownedHere(path, at); err != nil {
		return err
	}
	for links := 0; rest != ""; {
		name, more, _ := strings.Cut(rest, "/")
		rest = more
		if name == "" || name == "." {
			continue
		}
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		if err := ownedHere(path, next); err != nil {
			return err
		}
		target, err := os.Readlink(next)
		if err != nil { // it is no link
			at = next
			continue
		}
		if links++; links > maxLinks {
			return op.Refuse(op.Unavailable, "%s leads through too many symbolic links", path)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = strings.TrimSuffix(strings.TrimPrefix(target, "/")+"/"+rest, "/")
	}
	return nil
}

// ownedHere looks at one step of the way to path.
func ownedHere(path, at string) error {
	var st unix.Stat_t
	if err := unix.Lstat(at, &st); err != nil {
		return op.Refuse(op.Unavailable, "%s cannot be looked at: %s: %v", path, at, err).WithHint("install the program, or correct gated.yaml")
	}
	kind := st.Mode & unix.S_IFMT
	switch {
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return op.Refuse(op.Unavailable, "%s: %s belongs to uid %d, who could run something else", path, at, st.Uid).
			WithHint("chown root %s", at)
	case kind == unix.S_IFLNK: // its mode means nothing; the directory's does
	case st.Mode&0o022 != 0 && (kind != unix.S_IFDIR || st.Mode&unix.S_ISVTX == 0):
		return op.Refuse(op.Unavailable, "%s: others may write to %s, and could run something else", path, at).
			WithHint("chmod go-w %s", at)
	}
	return nil
}
