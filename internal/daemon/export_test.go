package daemon

import (
	"context"

	"gated/internal/driver"
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
