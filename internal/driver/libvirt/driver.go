package libvirt

import (
	"context"

	"gated/internal/driver"
	"gated/internal/op"
)

// Driver is safe for concurrent use.
type Driver struct {
	cfg  Config
	ops  []string // that there are preparers for
	idle chan *session
}

var _ driver.Backend = (*Driver)(nil)

// New returns a driver. It needs no libvirtd yet: one that is away makes its
// guests unknown, and is asked again at the next look. It refuses, with
// BadParams, templates that could not be used.
func New(cfg Config) (*Driver, error) {
	if err := cfg.setDefaults(); err != nil {
		return nil, err
	}
	return &Driver{cfg: cfg, ops: operations(), idle: make(chan *session, maxIdle)}, nil
}

// Close ends the connections that are idle. Guests go on as they are.
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

// Task reports, as every piece of this driver's work is done when an
// action returns, that there is no such task.
func (d *Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, op.Refuse(op.UnknownTarget, "the libvirt driver has no task %q", task)
}
