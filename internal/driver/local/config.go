package local

import (
	"context"
	"log/slog"
	"time"

	"gated/internal/op"
	"gated/internal/proc"
)

// Defaults of Config.
const (
	DefaultTrashKeep = 24 * time.Hour
	DefaultStopGrace = 10 * time.Second
)

// Config says where guests live and what they may run.
type Config struct {
	Root      string        // an absolute path; made 0700 if it does not exist
	TrashKeep time.Duration // how long what was destroyed is kept; 0 means DefaultTrashKeep
	StopGrace time.Duration // from SIGTERM to SIGKILL; 0 means DefaultStopGrace

	// Commands are all that a guest can run, by the name that its command names.
	Commands map[string]Command

	// GuestUIDs are the uids that guests' commands run as, each guest under one of
	// its own, but for commands that name a user. A daemon that is not root has to
	// be able to become them.
	GuestUIDs UIDRange

	// SingleUser says that guests and daemon share a uid on purpose. Without it,
	// a command that would run under the daemon's own uid is refused, and always
	// where that uid is root's.
	SingleUser bool

	// CgroupRoot is a cgroup v2 directory that the daemon may make groups in,
	// such as /sys/fs/cgroup/gated. Empty, or where it lacks a controller, limits
	// are set by rlimits.
	CgroupRoot string

	Now    func() time.Time // required
	Logger *slog.Logger     // nil discards

	// Wanted reports whether a caller asked to bring back a destroyed guest that had
	// the name: Sweep keeps it then, and also if Wanted fails. nil: Sweep asks about
	// nothing.
	Wanted func(ctx context.Context, name string, inc op.Incarnation) (bool, error)

	// Exited, if not nil, is told of every guest whose process ended. It must not
	// block.
	Exited func(op.Target)

	// BootID replaces the kernel's boot id, for tests.
	BootID string

	strayWait time.Duration // for what lost guests left behind; tests shorten killWait

	// Tests take a layer out, to show that another one stands alone, and let the
	// kernel have an older Landlock than it has.
	without  layers
	landlock int // the highest version; 0 is the kernel's
}

// layers are what stands between a guest's program and everything else.
type layers struct{ uid, landlock, seccomp bool }

func (c *Config) setDefaults() error {
	if c.Now == nil {
		return op.Refuse(op.Internal, "local: Config.Now is missing")
	}
	if c.TrashKeep <= 0 {
		c.TrashKeep = DefaultTrashKeep
	}
	if c.StopGrace <= 0 {
		c.StopGrace = DefaultStopGrace
	}
	if c.strayWait <= 0 {
		c.strayWait = killWait
	}
	if c.Wanted == nil {
		c.Wanted = func(context.Context, string, op.Incarnation) (bool, error) { return false, nil }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.BootID == "" {
		id, err := proc.BootID()
		if err != nil {
			return err
		}
		c.BootID = id
	}
	return nil
}
