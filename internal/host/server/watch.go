package server

import (
	"net/http"

	"gated/client/api"
)

// metricsType is the media type of Prometheus' text format 0.0.4.
const metricsType = "text/plain; version=0.0.4; charset=utf-8"

// health answers monitors. A bad state has a status that they understand without reading.
func (s *Server) health(c *call) (answer, error) {
	h := s.Health(c.ctx)
	a := ok(h)
	if h.State == api.HealthBad {
		a.status = http.StatusServiceUnavailable
	}
	return a, nil
}

// metrics answers a scrape. The answer is whole before its first byte is sent, so a reader that takes nothing holds its
// bytes and its connection for Limits.Write, and nothing else.
func (s *Server) metrics(c *call) (answer, error) {
	text, err := s.Metrics(c.ctx)
	return answer{status: http.StatusOK, raw: text, kind: metricsType}, err
}
