package server

import (
	"net/http"
	"sort"
	"strings"
)

// who is the audience of an end point.
type who int

const (
	anyone who = iota // every caller that may connect
	submitters
	operators
)

// route is one end point.
type route struct {
	method string
	path   string // a pattern of http.ServeMux
	who    who
	body   int64    // the largest body in bytes; 0 means that there is none
	query  []string // the parameters that it accepts
	answer func(*call) (answer, error)
}

// takeoverPath has a standby become the active member.
const takeoverPath = "/v1/takeover"

// onStandby reports whether a standby answers: what it can read, and what does not rest on the processes of its host.
func (r route) onStandby() bool {
	switch r.path {
	case "/v1/agents", selfPath, "/v1/reservations", "/v1/scopes", "/v1/backup":
		return false
	}
	return r.method == http.MethodGet || r.path == takeoverPath
}

// ofHost reports whether each member answers a call about agents and reservations itself: from its database, or because the
// processes are of its host.
func (r route) ofHost() bool {
	switch r.path {
	case "/v1/agents", selfPath, "/v1/agents/{name}":
		return true
	}
	return r.method == http.MethodGet && r.path != "/v1/backup"
}

// forwarded reports whether a standby has the active member answer, if it can.
func (r route) forwarded() bool {
	switch r.path {
	case "/v1/reload", "/v1/backup", "/v1/backup/verified": // of one host's daemon
		return false
	}
	return true
}

// table is every end point (protocol section 4).
func (s *Server) table() []route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return []route{
		{get, "/v1/status", anyone, 0, nil, s.status},
		{get, "/v1/health", anyone, 0, nil, s.health},
		{get, "/v1/metrics", anyone, 0, nil, s.metrics},
		{get, "/v1/ops", anyone, 0, nil, s.catalogue},
		{post, "/v1/ops", anyone, MaxBody, nil, s.approveOffline},
		{post, "/v1/jobs", submitters, MaxBody, nil, s.submit},
		{get, "/v1/jobs", anyone, 0, []string{"state", "after", "limit"}, s.inTurn(s.jobs)},
		{get, "/v1/jobs/{id}", anyone, 0, []string{"wait_seconds", "until"}, s.job},
		{del, "/v1/jobs/{id}", anyone, 0, nil, s.cancel},
		{get, "/v1/requests", anyone, 0, []string{"state", "after", "limit"}, s.inTurn(s.requests)},
		{get, "/v1/requests/{id}", anyone, 0, nil, s.inTurn(s.request)},
		{get, "/v1/requests/{id}/payload", anyone, 0, nil, s.payload},
		{post, "/v1/requests/{id}/approve", anyone, MaxBody, nil, s.approve},
		{post, "/v1/requests/{id}/reject", anyone, MaxBody, nil, s.reject},
		{post, "/v1/classify", anyone, MaxBody, nil, s.inTurn(s.classify)},
		{post, "/v1/plan", anyone, MaxDesired, []string{"set"}, s.plan},
		{get, "/v1/guests", anyone, 0, []string{"after", "limit"}, s.inTurn(s.guests)},
		{get, "/v1/guests/{name}", anyone, 0, nil, s.inTurn(s.guest)},
		{get, "/v1/commands", anyone, 0, nil, s.inTurn(s.commands)},
		{get, "/v1/commands/{name}", anyone, 0, nil, s.inTurn(s.command)},
		{get, "/v1/steering", anyone, 0, nil, s.steering},
		{get, "/v1/trust", anyone, 0, nil, s.inTurn(s.trust)},
		{get, "/v1/backends", anyone, 0, nil, s.backends},
		{get, "/v1/desired", operators, 0, nil, s.inTurn(s.sets)},
		{put, "/v1/desired/{set}", operators, MaxDesired, nil, s.putSet},
		{get, "/v1/desired/{set}", operators, 0, nil, s.set},
		{del, "/v1/desired/{set}", operators, 0, nil, s.deleteSet},
		{get, "/v1/agents", anyone, 0, nil, s.inTurn(s.agents)},
		{post, "/v1/agents", anyone, MaxBody, nil, s.registerAgent},
		{get, selfPath, anyone, 0, nil, s.self},
		{del, "/v1/agents/{name}", anyone, 0, nil, s.unregister},
		{get, "/v1/reservations", anyone, 0, []string{"scope", "agent", "after", "limit"}, s.inTurn(s.reservations)},
		{post, "/v1/reservations", anyone, MaxBody, nil, s.reserve},
		{post, "/v1/reservations/check", anyone, MaxBody, nil, s.check},
		{post, "/v1/reservations/release-mine", anyone, 0, nil, s.releaseMine},
		{post, "/v1/reservations/{id}/renew", anyone, MaxBody, nil, s.renew},
		{post, "/v1/reservations/{id}/transfer", anyone, MaxBody, nil, s.transfer},
		{del, "/v1/reservations/{id}", anyone, 0, nil, s.release},
		{get, "/v1/scopes", anyone, 0, []string{"after"}, s.inTurn(s.scopes)},
		{post, "/v1/scopes", anyone, MaxBody, nil, s.registerScope},
		{get, "/v1/events", anyone, 0, []string{"after", "follow", "for"}, s.events},
		{get, "/v1/audit", anyone, 0, []string{"after", "limit"}, s.inTurn(s.audit)},
		{get, "/v1/audit/head", anyone, 0, nil, s.auditHead},
		{get, "/v1/audit/verified", anyone, 0, nil, s.auditVerified},
		{get, "/v1/audit/consistency", anyone, 0, []string{"old", "size"}, s.inTurn(s.consistency)},
		{get, "/v1/audit/inclusion", anyone, 0, []string{"seq"}, s.inTurn(s.inclusion)},
		{post, "/v1/canary/{change}/accept", operators, 0, nil, s.acceptAlert},
		{post, "/v1/reload", operators, 0, nil, s.reload},
		{post, takeoverPath, operators, 0, nil, s.takeover},
		{get, "/v1/backup", operators, 0, nil, s.backup},
		{post, "/v1/backup/verified", operators, MaxBody, nil, s.backupVerified},
	}
}

// mux finds a path's routes. It checks methods here instead of by patterns, so that a wrong one is also answered with a
// problem.
func (s *Server) mux() *http.ServeMux {
	byPath := map[string]map[string]route{}
	for _, r := range s.table() {
		if byPath[r.path] == nil {
			byPath[r.path] = map[string]route{}
		}
		byPath[r.path][r.method] = r
	}
	mux := http.NewServeMux()
	for path, methods := range byPath {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if rt, ok := methods[r.Method]; ok {
				s.run(w, r, rt)
				return
			}
			w.Header().Set("Allow", allowed(methods))
			s.refuse(w, r, noMethod(r.Method, allowed(methods)))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.refuse(w, r, noPath()) })
	return mux
}

func allowed(methods map[string]route) string {
	var names []string
	for m := range methods {
		names = append(names, m)
	}
	sort.Strings(names)
	return strings.Join(names, ", ")
}
