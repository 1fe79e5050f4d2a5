package server

import (
	"net/http"
	"strconv"

	"gated/internal/base/refusal"
)

// acceptAlert ends the alert of the change that the path names.
func (s *Server) acceptAlert(c *call) (answer, error) {
	text := c.r.PathValue("change")
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || strconv.FormatInt(n, 10) != text {
		return answer{}, ownRefusal(refusal.New(refusal.Malformed, "%q is not the number of an audit entry", clip(text)))
	}
	return answer{status: http.StatusNoContent}, s.Canary.Accept(c.ctx, c.by.String(), n)
}
