package page

import (
	"net/http"
	"net/url"

	"gated/internal/base/op"
	"gated/internal/web/access"
)

// linked sends the browser on from a link that names a gate by its id, as messages do: a name is given by a console, and an id is not. It
// reports whether it did.
func (c Config) linked(w http.ResponseWriter, r *http.Request) bool {
	is, id := op.GateID(r.PathValue("gate")), r.PathValue("id")
	if !is.Valid() {
		return false
	}
	session, _ := access.SessionOf(r.Context())
	for _, g := range c.Gates.All() {
		if (g.ID == is || g.Status.Gate == is) && g.Name != string(is) && c.may(session, g, id) {
			http.Redirect(w, r, "/g/"+url.PathEscape(g.Name)+"/r/"+url.PathEscape(id), http.StatusSeeOther)
			return true
		}
	}
	return false
}
