package scope

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"gated/internal/agents/checkout"
	"gated/internal/agents/reserve"
)

// These bounds are for looks at directories that callers chose. A file system in user space, or
// a file server that is gone, may never answer.
const (
	maxLooking = 2 * time.Second // of waiting for one look
	maxStuck   = 16              // looks that have not come back
)

// sight is what the daemon sees at a scope's registered path.
type sight struct {
	another bool   // another thing than the directory
	hidden  string // why the daemon cannot see it; empty if it can
}

// eyes look at directories, at most maxStuck at the same time.
type eyes struct {
	lstat func(path string) (unix.Stat_t, error)
	free  chan struct{}
}

func newEyes(lstat func(string) (unix.Stat_t, error)) *eyes {
	return &eyes{lstat: lstat, free: make(chan struct{}, maxStuck)}
}

func lstat(path string) (st unix.Stat_t, err error) {
	err = unix.Lstat(path, &st)
	return st, err
}

// at reports whether a place still has its directory. The daemon's uid may not be allowed to
// look. Its mount namespace may have nothing there (systemd's ProtectHome and PrivateTmp, or a
// container's path). In both cases nothing is known about the directory.
func (e *eyes) at(ctx context.Context, p reserve.Place) (sight, error) {
	st, err := checkout.Look(ctx, e.free, maxLooking, func() (unix.Stat_t, error) { return e.lstat(p.Path) })
	switch {
	case ctx.Err() != nil:
		return sight{}, ctx.Err()
	case err == nil:
		dir := st.Mode&unix.S_IFMT == unix.S_IFDIR
		return sight{another: !dir || st.Dev != p.Device || st.Ino != p.Inode}, nil
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
		return sight{another: true}, nil // something else is on the way to it
	}
	for errno, why := range blinding {
		if errors.Is(err, errno) {
			return sight{hidden: why}, nil
		}
	}
	return sight{}, fmt.Errorf("look at the directory of a scope: %w", err)
}

// blinding are the errors that do not say what others see at the path.
var blinding = map[error]string{
	unix.EACCES:              "the daemon may not look there",
	unix.EPERM:               "the daemon may not look there",
	unix.ENOENT:              "for the daemon there is nothing at this path",
	context.DeadlineExceeded: "the file system does not answer",
}
