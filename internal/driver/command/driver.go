package command

import (
	"context"
	"log/slog"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/driver/command/catalogue"
)

// grace is the time that a program has between SIGTERM and SIGKILL.
const grace = 5 * time.Second

// Config is the configuration of the driver.
type Config struct {
	Entries    map[string]catalogue.Entry // the operator's entries, each checked
	SingleUser bool                       // commands may run as the daemon's own user
	Logger     *slog.Logger
	Grace      time.Duration // from SIGTERM to SIGKILL; 0 is 5 s
	// Now tells the age of a file. A list remembers no digest of a new file. If Now is nil, it
	// remembers none.
	Now func() time.Time
}

// Driver is the command driver. It is safe for concurrent use.
type Driver struct {
	cfg         Config
	looks, runs copies // the room for the copies of looks and of runs
	digests     digests

	// beforeRun is called between the permit's use and the start. Only tests set it.
	beforeRun func()
}

var _ driver.Backend = (*Driver)(nil)

// New returns the driver. It looks at no program: a look reports an entry that cannot run.
func New(c Config) *Driver {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Grace == 0 {
		c.Grace = grace
	}
	return &Driver{cfg: c, looks: copies{most: maxCopies}, runs: copies{most: maxCopies}, digests: digests{now: c.Now}}
}

// Kind returns "command".
func (*Driver) Kind() string { return op.KindCommand }

// Name returns "command".
func (*Driver) Name() string { return "command" }

// Task reports that there is no such task, because a command is over when its action returns.
func (*Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, refusal.New(refusal.UnknownTarget, "there is no task %q", task)
}
