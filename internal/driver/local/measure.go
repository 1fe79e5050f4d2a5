package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"time"

	"gated/internal/base/op"

	"golang.org/x/sys/unix"
)

// maxDepth is the depth in directories of the deepest tree that is copied or measured. It
// bounds the open descriptors of one pass.
const maxDepth = 256

// usage is the size of a tree.
type usage struct {
	entries   int64 // everything below the top
	files     int64 // regular files
	apparent  int64 // bytes
	allocated int64 // bytes
	last      time.Time
	newer     usageSince
	partial   bool   // the look stopped at a limit; the rest is not counted
	obstacle  string // the first thing that cannot be copied, in words, or ""
}

// usageSince is the part of a tree that was written or changed at or after a moment. It uses a
// time of the inode that the writer of a file cannot set back.
type usageSince struct {
	files int64
	bytes int64 // apparent
	last  int64 // ns since 1970
}

// errEnough ends a walk at its limit.
var errEnough = errors.New("limit reached")

// measure counts the entries below d. It stops after limit entries or at the end of ctx, and
// then sets partial. It opens only directories.
func measure(ctx context.Context, d *dir, limit int64) (usage, error) {
	return measureSince(ctx, d, limit, math.MaxInt64)
}

// measureSince is measure, and also counts what is newer than a moment, in ns since 1970.
func measureSince(ctx context.Context, d *dir, limit, since int64) (usage, error) {
	m := measuring{ctx: ctx, limit: limit, since: since}
	err := m.walk(d, "", 1)
	if errors.Is(err, errEnough) || ctx.Err() != nil {
		m.partial, err = true, nil
	}
	return m.usage, err
}

type measuring struct {
	usage
	ctx   context.Context
	limit int64
	since int64
}

func (m *measuring) walk(d *dir, path string, depth int) error {
	return d.each(func(name string) error {
		if m.entries >= m.limit || m.ctx.Err() != nil {
			return errEnough
		}
		e, err := d.stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed during the look, because a guest may run
		}
		if err != nil {
			return err
		}
		m.count(path+name, e)
		if !e.isDir() {
			return nil
		}
		if depth >= maxDepth {
			m.refuse("%s is more than %d directories deep", path+name, maxDepth)
			m.partial = true
			return nil
		}
		return m.enter(d, name, path, depth)
	})
}

func (m *measuring) enter(d *dir, name, path string, depth int) error {
	sub, err := d.sub(name)
	if err == nil {
		defer sub.close()
		err = m.walk(sub, path+name+"/", depth+1)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return nil // replaced during the look
	case errors.Is(err, unix.EXDEV):
		m.refuse("%s is a mount point", path+name)
		return nil
	case errors.Is(err, fs.ErrPermission):
		m.refuse("%s cannot be read", path+name)
		m.partial = true
		return nil
	}
	return err
}

func (m *measuring) count(path string, e entry) {
	m.entries++
	m.allocated += e.blocks
	if e.modified.After(m.last) {
		m.last = e.modified
	}
	switch {
	case e.isRegular():
		m.files++
		m.apparent += e.size
		if e.changed >= m.since {
			m.newer.files++
			m.newer.bytes += e.size
			m.newer.last = max(m.newer.last, e.changed)
		}
	case !e.isDir() && !e.isSymlink():
		m.refuse("%s is %s", path, e.kind())
	}
}

// refuse records the first obstacle. A guest may have chosen the path.
func (m *measuring) refuse(format, path string, args ...any) {
	if m.obstacle == "" {
		m.obstacle = fmt.Sprintf(format, append([]any{op.Shown(path)}, args...)...)
	}
}
