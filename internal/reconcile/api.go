package reconcile

import (
	"context"

	"gated/internal/gate"
	"gated/internal/wire/desired"
)

// SetReader gives the API source its sets; a *gate.Gate does.
type SetReader interface {
	Sets(ctx context.Context) ([]gate.Set, error)
}

// API is the source of the named sets that operators put over the socket. After a change, its owner calls
// Reconciler.Reread.
type API struct {
	sets SetReader
	docs []SetDoc
}

// NewAPI returns the source.
func NewAPI(sets SetReader) *API { return &API{sets: sets} }

// Name returns "api".
func (*API) Name() string { return "api" }

// Read parses the sets that changed since the last Read.
func (a *API) Read(ctx context.Context) ([]SetDoc, error) {
	sets, err := a.sets.Sets(ctx)
	if err != nil {
		return nil, err
	}
	known := make(map[string]SetDoc, len(a.docs))
	for _, d := range a.docs {
		known[d.Set] = d
	}
	docs := make([]SetDoc, 0, len(sets))
	for _, s := range sets {
		d, ok := known[s.Name]
		if !ok || d.Digest != s.ETag {
			doc, err := desired.Parse(s.Name, s.Body)
			if err != nil {
				return nil, err
			}
			d = SetDoc{Set: s.Name, Doc: doc, Digest: s.ETag}
		}
		docs = append(docs, d)
	}
	a.docs = docs
	return docs, nil
}
