// Package page has the pages for operators in a browser.
package page

import (
	"log/slog"
	"net/http"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/web/access"
	"gated/internal/web/gates"
)

// Config is what the pages need.
type Config struct {
	Gates    *gates.Set
	Wall     *access.Wall // it stands in front of what New returns: the caller serves Wall.Handler of it
	Origin   string       // of the pages: https://console.example.com
	RPID     string       // of passkeys: console.example.com
	Local    bool         // on the operator's own machine: every session is that operator
	Terminal Terminal     // nil: nobody signs in a terminal
	Now      func() time.Time
	Logger   *slog.Logger
}

// New returns the pages. It calls Wall.Dress and Wall.Open.
func New(c Config) (http.Handler, error) {
	layouts() // a template that does not parse ends the program now
	mux := http.NewServeMux()
	c.assetRoutes(mux)
	c.Wall.Dress(c.problem, c.launchPage)
	mux.HandleFunc("GET /{$}", c.waitingPage)
	mux.HandleFunc("GET "+groupPath, c.groupPage())
	mux.HandleFunc("GET /gates", c.gatesPage)
	mux.HandleFunc("GET /g/{gate}/{$}", c.statusPage)
	c.atGate(mux, "r/{id}", c.requestPage)
	c.atGate(mux, "jobs", c.jobsPage)
	c.atGate(mux, "jobs/{job}", c.jobPage)
	c.atGate(mux, "guests", c.guestsPage)
	c.atGate(mux, "guests/{name}", c.guestPage)
	c.atGate(mux, "log", c.logPage)
	c.atGate(mux, "agents", c.agentsPage)
	mux.HandleFunc("/", c.notFound)
	c.passkeyRoutes(mux)
	if c.Terminal != nil {
		c.terminalRoutes(mux)
	}
	return mux, nil
}

// notFound answers for a path that these pages do not have.
func (c Config) notFound(w http.ResponseWriter, r *http.Request) {
	c.Wall.Refuse(w, r, refusal.New(refusal.UnknownTarget, "there is no page at %q", r.URL.Path).WithHint("the first page has all that waits"))
}
