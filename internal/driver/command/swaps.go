package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/driver"
	"gated/internal/driver/command/catalogue"
)

// maxSwapNames is how many names below a root are looked at.
const maxSwapNames = 20_000

// maxSwapLinks is the most links on the way to a root, as in path_resolution(7).
const maxSwapLinks = 40

// swap is who may write a directory below or above a root, or why that is not known.
type swap struct {
	who, dir string
	err      error
}

// checkPaths warns of each path parameter whose root, or a directory above or below it, a user may
// write who may ask. That user can put a link in the place of what an operator was shown. roots has
// the answers of one check, because commands often share a root.
func (d *Driver) checkPaths(ctx context.Context, name string, e catalogue.Entry, roots map[string]swap) (out []driver.Finding) {
	for _, param := range slices.Sorted(maps.Keys(e.Params)) {
		p := e.Params[param]
		if p.Type != catalogue.Path {
			continue
		}
		at, known := roots[p.Below]
		if !known {
			at.who, at.dir, at.err = d.swaps(ctx, p.Below)
			roots[p.Below] = at
		}
		f := driver.Finding{What: op.Target{Kind: op.KindCommand, Name: name}.String() + " -p " + param, State: driver.Note}
		switch {
		case at.who != "":
			f.Detail = fmt.Sprintf("%s may write %s, and so put a link in the place of a path below it", at.who, op.Shown(at.dir))
			f.Hint = "a moved link is another request, which opsign shows again; to rule it out, name below: a directory that only root writes, with all that is in it"
		case at.err != nil:
			f.Detail = fmt.Sprintf("it is not known who may write below %s: %v", p.Below, at.err)
			f.Hint = "name below: a smaller directory, which gated can read"
		default:
			continue
		}
		out = append(out, f)
	}
	return out
}

// swaps finds a directory or link on the way from / to a root, or a directory below the root, that a
// user may write who may ask. If it finds none, but did not look at all of them, that is an error.
func (d *Driver) swaps(ctx context.Context, root string) (who, dir string, err error) {
	end, who, dir, err := d.swapsAbove(root)
	if who != "" || err != nil {
		return who, dir, err
	}
	return d.swapsBelow(ctx, end)
}

// swapsAbove is swaps for the way to a root. It follows each link by itself, because who may write the
// directory that a link is in may put another one there. end is the root without links.
func (d *Driver) swapsAbove(root string) (end, who, dir string, err error) {
	end = "/"
	links := 0
	for rest := strings.Split(root, "/"); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(end, name)
		if who, err := d.writer(end, true); who != "" || err != nil {
			return "", who, end, err
		}
		info, err := os.Lstat(next)
		if err != nil {
			return "", "", "", err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			end = next
			continue
		}
		if who, err := d.owner(next, info); who != "" || err != nil {
			return "", who, next, err
		}
		to, err := os.Readlink(next)
		if links++; err == nil && links > maxSwapLinks {
			err = &fs.PathError{Op: "follow", Path: root, Err: syscall.ELOOP}
		}
		if err != nil {
			return "", "", "", err
		}
		if filepath.IsAbs(to) {
			end = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return end, "", "", nil
}

// swapsBelow is swaps for a root and what is below it.
func (d *Driver) swapsBelow(ctx context.Context, root string) (who, dir string, err error) {
	left, unread := maxSwapNames, error(nil)
	for dirs := []string{root}; len(dirs) > 0; dirs = dirs[1:] {
		if ctx.Err() != nil {
			return "", "", ctx.Err()
		}
		who, err := d.writer(dirs[0], false)
		if who != "" {
			return who, dirs[0], nil
		}
		names, more, err2 := list(dirs[0], left)
		if left -= len(names); more {
			err2 = fmt.Errorf("there are more than %d names", maxSwapNames)
		}
		unread = cmp.Or(unread, err, err2)
		for _, e := range names {
			if e.IsDir() {
				dirs = append(dirs, filepath.Join(dirs[0], e.Name()))
			}
		}
		if more {
			break
		}
	}
	return "", "", unread
}

// list returns at most so many entries of a directory, and whether there are more.
func list(dir string, most int) (out []fs.DirEntry, more bool, err error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil // it went meanwhile
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = f.Close() }() // it was only read
	out, err = f.ReadDir(most + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(out) > most {
		return out[:most], true, err
	}
	return out, false, err
}

// writer says who may write a directory of those who may ask; empty if only root and others may. A
// group counts, because its members are not known for sure. In a directory on the way to the root,
// the sticky bit leaves each name to its owner, who is asked about by itself.
func (d *Driver) writer(dir string, way bool) (string, error) {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // it went meanwhile
	}
	if err != nil {
		return "", err
	}
	if who, err := d.owner(dir, info); who != "" || err != nil {
		return who, err
	}
	if way && info.Mode()&fs.ModeSticky != 0 {
		return "", nil
	}
	switch st := info.Sys().(*syscall.Stat_t); {
	case info.Mode().Perm()&0o002 != 0:
		return "everybody", nil
	case info.Mode().Perm()&0o020 == 0:
		return "", nil
	case st.Gid != 0:
		return fmt.Sprintf("the group %d", st.Gid), nil
	}
	// Of a directory with an access list, the group's bits are the list's mask (acl(5)).
	if n, err := unix.Lgetxattr(dir, "system.posix_acl_access", nil); err == nil && n > 0 {
		return "who is in its access list", nil
	}
	return "", nil
}

// owner says who owns a file; empty if that is root, or a user who may not ask.
func (d *Driver) owner(path string, info fs.FileInfo) (string, error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("the owner of %s is not known", path)
	}
	if st.Uid != 0 && d.asks(st.Uid) {
		return ownfile.Owner(st.Uid), nil
	}
	return "", nil
}

// asks reports whether a user may ask for steps. The daemon's own user does if gated runs as the user
// whose agents ask.
func (d *Driver) asks(uid uint32) bool {
	if int(uid) == os.Geteuid() {
		return d.cfg.SingleUser
	}
	return d.cfg.Asks == nil || d.cfg.Asks(uid)
}
