package page

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/web/access"
)

// asking is a terminal that notes what it is asked.
type asking struct {
	asked []string
	done  []api.Request // of a group
	err   error
	wait  chan struct{} // nil: it answers at once
	began chan struct{}
}

func (a *asking) answer(words ...string) (api.Request, error) {
	a.asked = append(a.asked, strings.Join(words, " "))
	if a.wait != nil {
		a.began <- struct{}{}
		<-a.wait
	}
	return api.Request{}, a.err
}

func (a *asking) Approve(_ context.Context, gate, id, payload string, role op.Role) (api.Request, error) {
	return a.answer("approve", gate, id, payload[:4], string(role))
}

func (a *asking) Reject(_ context.Context, gate, id, payload, reason string, role op.Role) (api.Request, error) {
	return a.answer("reject", gate, id, payload[:4], string(role), reason)
}

func (a *asking) Together(_ context.Context, named []Named, rejection string) ([]api.Request, error) {
	words := []string{"together", rejection}
	for _, n := range named {
		words = append(words, n.Gate, n.ID, n.PayloadSHA256[:4])
	}
	_, err := a.answer(words...)
	return a.done, err
}

// terminal returns the routes over a terminal.
func terminal(t *testing.T, a *asking) *http.ServeMux {
	t.Helper()
	wall := must.Get(access.New(access.Config{Origins: []string{"http://localhost:7480"}, Local: true, Now: time.Now}))(t)
	mux := http.NewServeMux()
	Config{Wall: wall, Terminal: a}.terminalRoutes(mux)
	return mux
}

func post(mux *http.ServeMux, path, form string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	return w.Result()
}

var digest = strings.Repeat("0a", 32)

func TestTerminalIsAsked(t *testing.T) {
	a := &asking{}
	mux := terminal(t, a)
	resp := post(mux, "/g/pve1/r/j1.1/terminal/approve", "payload_sha256="+digest+"&role=operational")
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	require.Equal(t, "/g/pve1/r/j1.1", resp.Header.Get("Location"))
	post(mux, "/g/pve1/r/j1.1/terminal/approve", "payload_sha256="+digest+"&role=")
	post(mux, "/g/pve1/r/j2.1/terminal/reject", "payload_sha256="+digest+"&role=recovery&reason="+url.QueryEscape("still <in> use"))
	require.Equal(t, []string{"approve pve1 j1.1 0a0a operational", "approve pve1 j1.1 0a0a ", "reject pve1 j2.1 0a0a recovery still <in> use"}, a.asked)
}

func TestTerminalIsNotAsked(t *testing.T) {
	a := &asking{}
	mux := terminal(t, a)
	for form, path := range map[string]string{
		"":                  "/g/pve1/r/j1.1/terminal/approve",
		"payload_sha256=0a": "/g/pve1/r/j1.1/terminal/approve",
		"payload_sha256=" + strings.ToUpper(digest):                 "/g/pve1/r/j1.1/terminal/approve",
		"payload_sha256=" + digest + "&payload_sha256=" + digest:    "/g/pve1/r/j1.1/terminal/approve",
		"payload_sha256=" + digest + "&reason=x":                    "/g/pve1/r/j1.1/terminal/approve",
		"payload_sha256=" + digest + "&yes=1":                       "/g/pve1/r/j1.1/terminal/approve",
		"payload_sha256=" + digest + "&role=nobody":                 "/g/pve1/r/j1.1/terminal/approve",
		"payload_sha256=" + digest:                                  "/g/pve1/r/j1.1/terminal/reject",
		"payload_sha256=" + digest + "&role=operational":            "/g/pve1/r/..%2Fx/terminal/approve",
		"payload_sha256=" + digest + "&role=operational&reason=%zz": "/g/pve1/r/j1.1/terminal/reject",
	} {
		require.Equal(t, http.StatusBadRequest, post(mux, path, form).StatusCode, "%s %s", path, form)
	}
	r := httptest.NewRequest(http.MethodGet, "/g/pve1/r/j1.1/terminal/approve?payload_sha256="+digest, nil)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, r)
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	require.Empty(t, a.asked)
}

func TestTerminalRefuses(t *testing.T) {
	for err, status := range map[error]int{
		refusal.New(refusal.StaleTarget, "x"): http.StatusConflict,
		errors.New("disk on fire"):            http.StatusInternalServerError,
	} {
		mux := terminal(t, &asking{err: err})
		require.Equal(t, status, post(mux, "/g/pve1/r/j1.1/terminal/approve", "payload_sha256="+digest).StatusCode)
	}
}

func TestOneQuestionAtATime(t *testing.T) {
	a := &asking{wait: make(chan struct{}), began: make(chan struct{})}
	mux := terminal(t, a)
	first := make(chan int)
	go func() { first <- post(mux, "/g/pve1/r/j1.1/terminal/approve", "payload_sha256="+digest).StatusCode }()
	<-a.began
	for _, what := range []string{"approve", "reject"} {
		form := "payload_sha256=" + digest
		if what == "reject" {
			form += "&reason=x"
		}
		require.Equal(t, http.StatusConflict, post(mux, "/g/pve1/r/j2.1/terminal/"+what, form).StatusCode)
	}
	close(a.wait)
	require.Equal(t, http.StatusSeeOther, <-first)
	require.Len(t, a.asked, 1)
}
