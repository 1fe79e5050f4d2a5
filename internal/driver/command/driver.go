package command

import (
	"context"
	"log/slog"
	"time"

	"gated/internal/driver"
	"gated/internal/driver/command/catalogue"
	"gated/internal/op"
)

// grace is what a program has between SIGTERM and SIGKILL.
const grace = 5 * time.Second

// Config is what the driver is made of.
type Config struct {
	Entries    map[string]catalogue.Entry // as the operator's file has them, each checked
	SingleUser bool                       // commands may run as the daemon's own user
	Logger     *slog.Logger
	Grace      time.Duration // from SIGTERM to SIGKILL; 0 is 5 s
	// Now tells how old a file is whose digest a list may remember; nil remembers none.
	Now func() time.Time
}

// Driver is safe for concurrent use.
type Driver struct {
	cfg         Config
	looks, runs copies // the room for what they copy
	digests     digests

	// beforeRun is called between the permit's use and the start; tests alone set it.
	beforeRun func()
}

var _ driver.Backend = (*Driver)(nil)

// New returns the driver. It looks at nothing yet: an entry that cannot run is
// said when somebody looks at it.
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

// Task answers for no task: a command is over when its action returns.
func (*Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, op.Refuse(op.UnknownTarget, "there is no task %q", task)
}
