package local

import (
	"context"
	"log/slog"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/proc"
	"gated/internal/base/refusal"
)

// Defaults of Config.
const (
	DefaultTrashKeep = 24 * time.Hour
	DefaultStopGrace = 10 * time.Second
)

// Config says where guests live and which commands they may run.
type Config struct {
	Root      string        // an absolute path; made 0700 if it does not exist
	TrashKeep time.Duration // how long the trash keeps a guest; 0 means DefaultTrashKeep
	StopGrace time.Duration // from SIGTERM to SIGKILL; 0 means DefaultStopGrace

	// Commands are the only programs that guests can run, by the name in a guest's command.
	Commands map[string]Command

	// GuestUIDs are the uids of guests' commands. Each guest has its own uid, but a command
	// that names a user runs as that user. A daemon that is not root needs the capabilities to
	// change to them.
	GuestUIDs UIDRange

	// SingleUser is the operator's consent that guests and daemon share a uid. Without it, the
	// driver refuses a command that would run under the daemon's own uid. If that uid is
	// root's, it always refuses.
	SingleUser bool

	// CgroupRoot is a cgroup v2 directory in which the daemon may make groups, such as
	// /sys/fs/cgroup/gated. If it is empty or lacks a controller, rlimits set the limits.
	CgroupRoot string

	Now    func() time.Time // required
	Logger *slog.Logger     // nil discards

	// Wanted reports whether a caller asked to bring back a destroyed guest that had the name.
	// Sweep then keeps the guest, also if Wanted fails. If Wanted is nil, Sweep does not ask.
	Wanted func(ctx context.Context, name string, inc op.Incarnation) (bool, error)

	// Exited, if not nil, gets every guest whose process ended. It must not block.
	Exited func(op.Target)

	// BootID replaces the kernel's boot id, for tests.
	BootID string

	strayWait time.Duration // how long the driver waits for processes of lost guests; tests shorten killWait

	// Tests remove one layer to show that another layer is enough. They also give the kernel an
	// older Landlock than it has.
	without  layers
	landlock int // the highest version; 0 is the kernel's
}

// layers are the barriers between a guest's program and everything else.
type layers struct{ uid, landlock, seccomp bool }

func (c *Config) setDefaults() error {
	if c.Now == nil {
		return refusal.New(refusal.Internal, "local: Config.Now is missing")
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
