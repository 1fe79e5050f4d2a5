package libvirt

import (
	"context"

	"gated/internal/base/refusal"
	"gated/internal/driver"
)

// Driver is the libvirt driver. It is safe for concurrent use.
type Driver struct {
	cfg  Config
	ops  []string // the operations that have a preparer
	idle chan *session
}

var _ driver.Backend = (*Driver)(nil)

// New returns a driver. It needs no libvirtd yet: while libvirtd is away its guests are
// unknown, and each look asks again. It refuses templates that could not be used, with
// BadParams.
func New(cfg Config) (*Driver, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	return &Driver{cfg: cfg, ops: operations(), idle: make(chan *session, maxIdle)}, nil
}

// Close ends the idle connections. Guests go on.
func (d *Driver) Close() error {
	for {
		select {
		case s := <-d.idle:
			s.close()
		default:
			return nil
		}
	}
}

// Kind returns "guest".
func (d *Driver) Kind() string { return "guest" }

// Name returns "libvirt".
func (d *Driver) Name() string { return "libvirt" }

// Task reports that there is no such task, because all work of this driver is done when an
// action returns.
func (d *Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, refusal.New(refusal.UnknownTarget, "the libvirt driver has no task %q", task)
}
