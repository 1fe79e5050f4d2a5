package doctor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

// backendsAsk bounds the question about the daemon's back ends. Each may take seconds; all are asked side by side.
const backendsAsk = 15 * time.Second

// backends makes the daemon check its back ends, and adds their findings.
func (d Doctor) backends(ctx context.Context, r *Report) {
	ctx, cancel := context.WithTimeout(ctx, backendsAsk)
	defer cancel()
	g, err := d.Connect(d.Socket, "")
	if err != nil {
		return // the report says it of the daemon already
	}
	defer g.Close()
	list, err := g.Backends(ctx)
	switch {
	case errors.Is(err, refusal.Malformed):
		r.add(whatBackends, Note, wordsOlder).hint(hintOlder)
		return
	case err != nil:
		r.add(whatBackends, Bad, fmt.Sprintf(wordsNoBackends, short(err)))
		return
	}
	for _, b := range list {
		r.backend(b)
	}
}

// backend says what one back end found.
func (r *Report) backend(b api.Backend) {
	what := fmt.Sprintf(whatBackend, b.Name)
	if b.State == api.BackendAway {
		f := r.add(what, Bad, fmt.Sprintf(wordsAway, op.Shown(b.Detail)))
		if b.Since != nil {
			f.Detail = fmt.Sprintf(wordsAwaySince, b.Since.UTC().Format(time.RFC3339), op.Shown(b.Detail))
		}
		f.hint(hintAway)
	}
	for _, x := range b.Findings {
		f := r.add(what+": "+x.What, Bad, op.Shown(x.Detail))
		switch s := State(x.State); s {
		case OK, Note:
			f.State = s
		}
		f.Hint = op.Shown(x.Hint)
	}
}
