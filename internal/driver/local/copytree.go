package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// copying copies a tree: regular files, directories and symlinks. Files share blocks if the
// file system can, and keep their holes. The copy has the modes and times of modification, and
// the owners if the daemon can change them. Two names of one file become two files. Extended
// attributes are not copied. An entry that a running guest removes meanwhile is left out.
type copying struct {
	ctx     context.Context
	limit   int64 // entries
	entries int64
	owners  bool // whether the copy keeps the owners
}

// copyTree fills the empty directory to with a copy of from and makes it durable. If it fails,
// a part of the copy stays.
func copyTree(ctx context.Context, from, to *dir, limit int64) error {
	c := copying{ctx: ctx, limit: limit, owners: os.Geteuid() == 0 || switches()}
	if err := c.dir(from, to, 1); err != nil {
		return err
	}
	return to.syncTree()
}

func (c *copying) dir(from, to *dir, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: more than %d directories deep", from.path(), maxDepth)
	}
	err := from.each(func(name string) error {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		if c.entries++; c.entries > c.limit {
			return fmt.Errorf("%s: more than %d entries", from.path(), c.limit)
		}
		return c.entry(from, to, name, depth)
	})
	if err != nil {
		return err
	}
	// This comes last: a directory that is not writable must be filled first, and filling it
	// changes its time.
	e, err := from.self()
	if err != nil {
		return err
	}
	if c.owners {
		if err := unix.Fchown(to.fd(), int(e.uid), int(e.gid)); err != nil {
			return fmt.Errorf("chown %s: %w", to.path(), err)
		}
	}
	if err := unix.Fchmod(to.fd(), e.mode&0o7777); err != nil {
		return fmt.Errorf("chmod %s: %w", to.path(), err)
	}
	return setModified(to.fd(), "", e.modified, unix.AT_EMPTY_PATH)
}

func (c *copying) entry(from, to *dir, name string, depth int) error {
	e, err := from.stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case e.isDir():
		sub, err := from.sub(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer sub.close()
		made, err := to.mkdir(name, 0o700)
		if err != nil {
			return err
		}
		defer made.close()
		return c.dir(sub, made, depth+1)
	case e.isSymlink():
		return c.symlink(from, to, name, e)
	case e.isRegular():
		return c.file(from, to, name, e)
	default:
		// Even to open one could block or have an effect, so it is not tried.
		return fmt.Errorf("%s/%s is %s", from.path(), name, e.kind())
	}
}

func (c *copying) symlink(from, to *dir, name string, e entry) error {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(from.fd(), name, buf)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("readlink %s/%s: %w", from.path(), name, err)
	}
	if err := unix.Symlinkat(string(buf[:n]), to.fd(), name); err != nil {
		return fmt.Errorf("symlink %s/%s: %w", to.path(), name, err)
	}
	if c.owners {
		if err := unix.Fchownat(to.fd(), name, int(e.uid), int(e.gid), unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("chown %s/%s: %w", to.path(), name, err)
		}
	}
	return setModified(to.fd(), name, e.modified, unix.AT_SYMLINK_NOFOLLOW)
}

func (c *copying) file(from, to *dir, name string, e entry) (err error) {
	src, err := from.open(name, unix.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer src.Close()
	if info, err := src.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("%s changed its type", src.Name()))
	}
	dst, err := to.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if err := copyContent(c.ctx, src, dst); err != nil {
		return err
	}
	if c.owners { // before the mode, because a change of owner clears set-user-id
		if err := dst.Chown(int(e.uid), int(e.gid)); err != nil {
			return err
		}
	}
	if err := unix.Fchmod(int(dst.Fd()), e.mode&0o7777); err != nil {
		return fmt.Errorf("chmod %s: %w", dst.Name(), err)
	}
	return setModified(int(dst.Fd()), "", e.modified, unix.AT_EMPTY_PATH)
}

// copyContent shares src's blocks with dst if the file system can. Otherwise it copies
// everything but holes, up to the size that src has now. So a file that grows meanwhile does
// not make the copy endless.
func copyContent(ctx context.Context, src, dst *os.File) error {
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil {
		return nil
	}
	info, err := src.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if err := dst.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		data, err := unix.Seek(int(src.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // a hole up to the end
		}
		if err != nil {
			return fmt.Errorf("seek %s: %w", src.Name(), err)
		}
		hole, err := unix.Seek(int(src.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return fmt.Errorf("seek %s: %w", src.Name(), err)
		}
		hole = min(hole, size)
		if err := copyRange(ctx, src, dst, data, hole); err != nil {
			return err
		}
		at = max(hole, at+1)
	}
	return nil
}

// chunk is how many bytes are copied between two checks of the context.
const chunk = 64 << 20

func copyRange(ctx context.Context, src, dst *os.File, from, to int64) error {
	if from >= to {
		return nil
	}
	if _, err := src.Seek(from, io.SeekStart); err != nil {
		return err
	}
	if _, err := dst.Seek(from, io.SeekStart); err != nil {
		return err
	}
	for from < to {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(dst, src, min(chunk, to-from))
		if errors.Is(err, io.EOF) {
			return nil // the guest truncated it meanwhile; the rest stays a hole
		}
		if err != nil {
			return err
		}
		from += n
	}
	return nil
}

// setModified sets the time of modification and keeps the time of access.
func setModified(fd int, name string, at time.Time, flags int) error {
	ts := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: at.Unix(), Nsec: int64(at.Nanosecond())}}
	if err := unix.UtimesNanoAt(fd, name, ts, flags); err != nil {
		return fmt.Errorf("set the time of %q: %w", name, err)
	}
	return nil
}
