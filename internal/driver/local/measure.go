package local

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
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

// readMountinfo returns this process's mount table (proc_pid_mountinfo(5)).
func readMountinfo() ([]byte, error) { return os.ReadFile("/proc/self/mountinfo") }

// mountPoints returns the mount points of a mountinfo table.
func mountPoints(table []byte) ([]string, error) {
	var points []string
	lines := bufio.NewScanner(bytes.NewReader(table))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Split(lines.Text(), " ")
		if len(fields) < 10 {
			return nil, fmt.Errorf("mountinfo: a line has %d fields", len(fields))
		}
		points = append(points, unescapeMount(fields[4]))
	}
	return points, lines.Err()
}

// unescapeMount undoes the octal escapes of space, tab, newline and backslash.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// checkNoMount refuses with Conflict if something is mounted at or below path, an absolute path
// without symlinks. It also fails if it cannot read the mount table.
func (d *Driver) checkNoMount(path, doing string) error {
	table, err := d.mountinfo()
	if err != nil {
		return fmt.Errorf("mount table: %w", err)
	}
	points, err := mountPoints(table)
	if err != nil {
		return err
	}
	for _, p := range points {
		if p == path || strings.HasPrefix(p, path+"/") {
			return refusal.New(refusal.Conflict, "%s would reach through the mount at %s", doing, p).WithHint("unmount it first")
		}
	}
	return nil
}
