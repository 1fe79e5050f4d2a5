package daemon

import (
	"context"

	"gated/internal/driver"
	"gated/internal/host/unit"
)

// WayBack says how to go back after a change.
var WayBack = backTo

// PutBackend has b opened in the place of the back end of its name, until restore
// is called.
func PutBackend(b driver.Backend) (restore func()) {
	was := guestOpeners[b.Name()]
	guestOpeners[b.Name()] = func(context.Context, *daemon) (driver.Backend, func() error, error) { return b, nil, nil }
	return func() { guestOpeners[b.Name()] = was }
}

// RunsBy has a daemon find the unit that it runs by in p.
func (o *ServeOptions) RunsBy(p unit.Place) { o.unit = p }
