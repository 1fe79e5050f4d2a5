package page

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"rsc.io/qr"

	"gated/internal/web/access"
	"gated/internal/web/gates"
)

// margin is the empty margin that a QR code needs, in modules (ISO/IEC 18004, section 6.3.8).
const margin = 4

// qr answers with the QR code of a request's address, for a phone. It has no secret: the
// phone signs in by itself.
func (s signing) qr(w http.ResponseWriter, r *http.Request) {
	name, id := r.PathValue("gate"), r.PathValue("id")
	session, _ := access.SessionOf(r.Context())
	g, ok := s.Gates.Get(name)
	if !ok || !s.may(session, g, id) {
		s.Wall.Refuse(w, r, gates.Unknown(name))
		return
	}
	picture, err := qrOf(s.Origin + "/g/" + url.PathEscape(name) + "/r/" + url.PathEscape(id))
	if err != nil {
		s.Wall.Refuse(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "image/svg+xml")
	_, _ = w.Write([]byte(picture)) // a client that is gone needs no answer
}

// qrOf draws a text as SVG, dark on light in every colour scheme, because many readers know
// no other.
func qrOf(text string) (string, error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return "", err
	}
	size := code.Size + 2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" shape-rendering="crispEdges">`, size, size)
	fmt.Fprintf(&b, `<path fill="#fff" d="M0 0h%dv%dH0z"/><path d="`, size, size)
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) {
				fmt.Fprintf(&b, "M%d %dh1v1h-1z", x+margin, y+margin)
			}
		}
	}
	b.WriteString(`"/></svg>`)
	return b.String(), nil
}
