package reconcile

import (
	"context"

	"gated/internal/wire/desired"
)

// SetDoc is one named document of a source.
type SetDoc struct {
	Set    string
	Doc    desired.Document // never changed; the same object while the digest is the same
	Digest string           // SHA-256 of the document's bytes, lower-case hex
}

// Source is where desired state comes from.
type Source interface {
	// Name is what status calls the source.
	Name() string

	// Read returns every document, sorted by set. The caller must not change the result, and a source may return the
	// same slice again. An error means that the source could not be read completely. Then reconcile plans nothing from
	// it, and withdraws nothing that it wished for.
	Read(ctx context.Context) ([]SetDoc, error)
}

// Notifier is a source that knows when it changed.
type Notifier interface {
	// Changed receives after the source changed. Several changes may send one signal.
	Changed() <-chan struct{}
}
