package reconcile

import (
	"context"

	"gated/internal/desired"
)

// SetDoc is one named document of a source.
type SetDoc struct {
	Set    string
	Doc    desired.Document // never changed; the same one while the digest is the same
	Digest string           // SHA-256 of the document's bytes, lower-case hex
}

// Source is where desired state comes from.
type Source interface {
	// Name is what status calls the source.
	Name() string

	// Read returns every document, sorted by set. The caller does not change
	// what it gets, and a source may return the same slice again. An error means
	// that the source could not be read whole: nothing is planned from it and
	// nothing that it wished for is taken back.
	Read(ctx context.Context) ([]SetDoc, error)
}

// Notifier is a source that knows when it is worth reading again.
type Notifier interface {
	// Changed receives after the source changed; several changes may be one.
	Changed() <-chan struct{}
}
