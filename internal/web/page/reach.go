package page

import (
	"context"
	"errors"
	"net/http"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/web/access"
	"gated/internal/web/gates"
	"gated/internal/wire/cli"
)

// gateAnswers is how long a page waits for a gate.
const gateAnswers = 10 * time.Second

// reached is a gate of which a session asked for a page.
type reached struct {
	session access.Session
	gate    gates.Gate
	client  *client.Client
	status  api.Status // as it answered now
}

// readable returns the gate of a page's path. It refuses, as UnknownTarget, a gate that the session may not read, in the
// words of one that there is not: nobody learns which gates there are. If id is not empty, that request is enough.
func (c Config) readable(r *http.Request, id string) (reached, error) {
	session, _ := access.SessionOf(r.Context())
	name := r.PathValue("gate")
	g, known := c.Gates.Get(name)
	if !known || !c.may(session, g, id) {
		return reached{}, gates.Unknown(name)
	}
	cl, _ := c.Gates.Client(name)
	return reached{session: session, gate: g, client: cl}, nil
}

// atGate adds a page that asks its gate. The gate says first who it is, so that no page shows what another one says.
func (c Config) atGate(mux *http.ServeMux, path string, show func(context.Context, http.ResponseWriter, *http.Request, reached) error) {
	mux.HandleFunc("GET /g/{gate}/"+path, func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") != "" && c.linked(w, r) {
			return
		}
		at, err := c.readable(r, r.PathValue("id"))
		if err != nil {
			c.Wall.Refuse(w, r, err)
			return
		}
		ctx, stop := context.WithTimeout(r.Context(), gateAnswers)
		defer stop()
		if at.status, err = c.Gates.Identify(ctx, at.gate.Name); err == nil {
			err = show(ctx, w, r, at)
		}
		switch {
		case err == nil:
		case isAway(err) && c.remembered(w, r, at, err):
		case isAway(err):
			c.refuse(w, r, at.tab("", "Away"), http.StatusServiceUnavailable, refusal.As(away(err)))
		default:
			c.Wall.Refuse(w, r, err)
		}
	})
}

// tab is the frame of a page about a gate.
func (at reached) tab(name, title string) frame {
	return frame{Title: title + " · " + at.gate.Name, Live: at.gate.Name, Version: at.gate.Version, Gate: at.gate.Name, Tab: name}
}

// isAway reports whether an error says that a gate does not answer.
func isAway(err error) bool {
	var gone *client.Unreachable
	return errors.As(err, &gone) || errors.Is(err, context.DeadlineExceeded)
}

// away puts what kept a gate from answering into a refusal.
func away(err error) error {
	if !isAway(err) {
		return err
	}
	return refusal.New(refusal.Unavailable, "%s", whyAway(err)).WithHint("nothing was changed. The page of all gates says since " +
		"when it is away; the others go on")
}

// whyAway says in one line why a gate is not up to date.
func whyAway(err error) string {
	var refused *refusal.Refusal
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the gate did not answer in time"
	case errors.As(err, &refused):
		return cli.Inline(refused.Sentence())
	default:
		return cli.Inline(err.Error())
	}
}
