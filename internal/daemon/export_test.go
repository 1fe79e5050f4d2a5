package daemon

import (
	"context"

	"gated/internal/driver"
	"gated/internal/unit"
)

// MayAdopt is who may take over an edit of the signers in a directory.
func MayAdopt(dir string, by int) error {
	_, err := mayAdopt(dir, by)
	return err
}

// WayBack says how to go back after a change.
var WayBack = backTo

// PutBackend has b opened in the place of the back end of its name, until restore
// is called.
func PutBackend(b driver.Backend) (restore func()) {
	was := guestOpeners[b.Name()]
	guestOpeners[b.Name()] = func(context.Context, *daemon) (driver.Backend, func() error, error) { return b, nil, nil }
	return func() { guestOpeners[b.Name()] = was }
}

// Before has an init tell fn each path before it is made.
func (o *InitOptions) Before(fn func(path string)) { o.before = fn }

// RunsBy has a daemon find the unit that it runs by in p.
func (o *ServeOptions) RunsBy(p unit.Place) { o.unit = p }
