package page

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Terminal asks the operator in the terminal in which the program runs, and signs there with the operator's SSH key. A
// wish of the page decides nothing: the terminal shows the request itself, and asks. Both methods return once the operator
// answered. payloadSHA256 is the digest of the payload that the page showed, in hex: another payload by now is
// StaleTarget. With an empty role, it is the one in which a signature is missing.
//
// Together asks once for several like requests, all of which it shows, and then decides on one after the other, each with a
// signature of its own. It returns those that it decided on, as they are then, in their order. An error says what ended it
// before the next one. Requests that are not alike, or are not as the page showed them, are StaleTarget.
type Terminal interface {
	Approve(ctx context.Context, gate, id, payloadSHA256 string, role op.Role) (api.Request, error)
	Reject(ctx context.Context, gate, id, payloadSHA256, reason string, role op.Role) (api.Request, error)
	Together(ctx context.Context, named []Named, rejection string) ([]api.Request, error) // an empty rejection approves
}

// Named is a request, as a page showed it.
type Named struct{ Gate, ID, PayloadSHA256 string }

// wish is what a page asks the terminal for.
type wish struct {
	gate, id, payload, reason string
	role                      op.Role
}

// terminalRoutes adds the two routes by which a page has the terminal ask. The form has payload_sha256, role, which may be
// empty, and to reject also reason.
func (c Config) terminalRoutes(mux *http.ServeMux) {
	var asked sync.Mutex
	route := func(what string, members []string, ask func(context.Context, wish) (api.Request, error)) {
		mux.HandleFunc("POST /g/{gate}/r/{id}/terminal/"+what, func(w http.ResponseWriter, r *http.Request) {
			in, err := readWish(r, members)
			if err == nil {
				err = oneQuestion(&asked, func() error { _, err := ask(r.Context(), in); return err })
			}
			if err != nil {
				c.Wall.Refuse(w, r, err)
				return
			}
			http.Redirect(w, r, "/g/"+url.PathEscape(in.gate)+"/r/"+url.PathEscape(in.id), http.StatusSeeOther)
		})
	}
	route("approve", []string{"payload_sha256", "role"}, func(ctx context.Context, in wish) (api.Request, error) {
		return c.Terminal.Approve(ctx, in.gate, in.id, in.payload, in.role)
	})
	route("reject", []string{"payload_sha256", "role", "reason"}, func(ctx context.Context, in wish) (api.Request, error) {
		return c.Terminal.Reject(ctx, in.gate, in.id, in.payload, in.reason, in.role)
	})
	mux.HandleFunc("POST "+groupPath+"/terminal/approve", c.togetherInTerminal(&asked, "op", "key", "member"))
	mux.HandleFunc("POST "+groupPath+"/terminal/reject", c.togetherInTerminal(&asked, "op", "key", "member", "reason"))
}

// oneQuestion refuses a second question while one waits: two texts in one terminal are mistaken for each other.
func oneQuestion(asked *sync.Mutex, ask func() error) error {
	if !asked.TryLock() {
		return refusal.New(refusal.Conflict, "another question waits in the terminal").
			WithHint("answer that one in the terminal first, then ask again")
	}
	defer asked.Unlock()
	return ask()
}

// readWish reads a form strictly: each member once, and no other.
func readWish(r *http.Request, members []string) (wish, error) {
	bad := func(format string, args ...any) (wish, error) {
		return wish{}, refusal.New(refusal.Malformed, format, args...).WithHint("load the page of the request again")
	}
	if err := r.ParseForm(); err != nil {
		return bad("the form cannot be read")
	}
	for name, values := range r.PostForm {
		if !slices.Contains(members, name) || len(values) != 1 {
			return bad("the form has %q, which does not belong there once", name)
		}
	}
	in := wish{gate: r.PathValue("gate"), id: r.PathValue("id"), payload: r.PostForm.Get("payload_sha256"),
		reason: r.PostForm.Get("reason"), role: op.Role(r.PostForm.Get("role"))}
	if _, err := op.ParseStepID(in.id); err != nil {
		return bad("%q is no request", in.id)
	}
	if _, ok := op.ParseDigest(in.payload); !ok {
		return bad("the form does not say which payload was shown")
	}
	if in.role != "" && (!slices.Contains(op.Roles, in.role) || in.role == op.BreakGlass) {
		return bad("%q is no role", in.role)
	}
	if slices.Contains(members, "reason") && in.reason == "" {
		return wish{}, refusal.New(refusal.Malformed, "a rejection needs a reason").WithHint("say why, for the requester")
	}
	return in, nil
}
