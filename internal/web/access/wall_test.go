package access

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

const (
	team  = "https://console.example.com"
	local = "http://localhost:7480"
)

// clock is a time that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// house is a wall with pages behind it that count what reached them.
type house struct {
	*Wall
	*clock
	http.Handler
	reached int
}

func build(t *testing.T, c Config) *house {
	t.Helper()
	h := &house{clock: &clock{at: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}}
	c.Now = h.now
	h.Wall = must.Get(New(c))(t)
	h.Open("/sign-in", "/files/")
	h.Handler = h.Wall.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.reached++
		switch r.URL.Path {
		case "/sign-in":
			h.Begin(w, r, Session{Key: r.FormValue("key"), Principal: "alice@example.com"})
		case "/out":
			h.End(w, r)
		default:
			s, _ := SessionOf(r.Context())
			_, _ = io.WriteString(w, "page of "+s.Principal)
		}
	}))
	return h
}

// console is a wall of a team's console.
func console(t *testing.T, l Limits) *house {
	return build(t, Config{Origins: []string{team}, SignIn: "/sign-in", Limits: l})
}

// ask makes a request as a browser at origin makes it of its own page. Each header is "Name: value"; an empty value
// removes it.
func (h *house) ask(method, path, cookie string, headers ...string) *http.Response {
	var body io.Reader
	path, form, posts := strings.Cut(path, " ")
	if posts {
		body = strings.NewReader(form)
	}
	r := httptest.NewRequest(method, path, body)
	origin := h.config.Origins[0]
	r.Host = strings.TrimPrefix(strings.TrimPrefix(origin, "https://"), "http://")
	r.RemoteAddr = "192.0.2.7:999"
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if method == http.MethodPost {
		r.Header.Set("Origin", origin)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case name == "Host":
			r.Host = value
		case name == "From":
			r.RemoteAddr = value
		case value == "":
			r.Header.Del(name)
		default:
			r.Header.Set(name, value)
		}
	}
	if cookie != "" {
		r.AddCookie(&http.Cookie{Name: h.cookie, Value: cookie})
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func text(t *testing.T, resp *http.Response) string {
	t.Helper()
	return string(must.Get(io.ReadAll(resp.Body))(t))
}

// signIn returns the cookie of a new session of a key.
func (h *house) signIn(t *testing.T, key string) string {
	t.Helper()
	resp := h.ask(http.MethodPost, "/sign-in key="+key, "")
	require.Equal(t, http.StatusOK, resp.StatusCode, text(t, resp))
	require.Len(t, resp.Cookies(), 1)
	return resp.Cookies()[0].Value
}

// refused checks that nothing behind the wall was reached, and that the refusal is a page with the wall's headers.
func (h *house) refused(t *testing.T, status int, resp *http.Response, what string) {
	t.Helper()
	page := text(t, resp)
	require.Equal(t, status, resp.StatusCode, "%s: %s", what, page)
	require.Zero(t, h.reached, what)
	require.Contains(t, resp.Header.Get("Content-Type"), "text/html", what)
	require.Contains(t, page, "<p>", what)
	require.Equal(t, Policy, resp.Header.Get("Content-Security-Policy"), what)
	require.Empty(t, resp.Cookies(), what)
}

func TestOtherHosts(t *testing.T) {
	h := console(t, Limits{})
	cookie := h.signIn(t, "a")
	h.reached = 0
	for _, host := range []string{"evil.example", "console.example.com:8443", "console.example.com.", "CONSOLE.example.com",
		"127.0.0.1", "", "console.example.com.evil.example", "console.example.com:443"} {
		for _, path := range []string{"/", "/sign-in", "/files/a.css", "/launch"} {
			resp := h.ask(http.MethodGet, path, cookie, "Host: "+host)
			h.refused(t, http.StatusMisdirectedRequest, resp, host+path)
		}
	}
	require.Equal(t, http.StatusOK, h.ask(http.MethodGet, "/", cookie).StatusCode)
}

func TestOtherPages(t *testing.T) {
	for name, headers := range map[string][]string{
		"cross-site":                          {"Sec-Fetch-Site: cross-site", "Origin: https://evil.example"},
		"cross-site without an origin":        {"Sec-Fetch-Site: cross-site", "Origin: "},
		"another port of this host":           {"Sec-Fetch-Site: same-site", "Origin: https://console.example.com:8443"},
		"an old browser":                      {"Sec-Fetch-Site: ", "Origin: https://evil.example"},
		"an old browser, over http":           {"Sec-Fetch-Site: ", "Origin: http://console.example.com"},
		"an old browser, from another port":   {"Sec-Fetch-Site: ", "Origin: https://console.example.com:8443"},
		"an old browser, from a sandbox":      {"Sec-Fetch-Site: ", "Origin: null"},
		"says that it is same, and is not":    {"Sec-Fetch-Site: same-origin", "Origin: https://evil.example"},
		"no page at all":                      {"Sec-Fetch-Site: ", "Origin: "},
		"from a file or a sandbox":            {"Sec-Fetch-Site: cross-site", "Origin: null"},
		"a value that browsers do not send":   {"Sec-Fetch-Site: x", "Origin: https://console.example.com"},
		"an origin with what looks like ours": {"Sec-Fetch-Site: ", "Origin: https://console.example.com.evil.example"},
	} {
		h := console(t, Limits{})
		cookie := h.signIn(t, "a")
		h.reached = 0
		h.refused(t, http.StatusForbidden, h.ask(http.MethodPost, "/g/pve1 x=y", cookie, headers...), name)
	}
	for name, headers := range map[string][]string{
		"fetch":                              nil,
		"form":                               {"Origin: null"},
		"an old browser, of the page itself": {"Sec-Fetch-Site: "},
	} {
		h := console(t, Limits{})
		cookie := h.signIn(t, "a")
		require.Equal(t, http.StatusOK, h.ask(http.MethodPost, "/g/pve1 x=y", cookie, headers...).StatusCode, name)
	}
}

func TestOtherPagesMayLinkAndNothingElse(t *testing.T) {
	h := console(t, Limits{})
	cookie := h.signIn(t, "a")
	h.reached = 0
	for _, headers := range [][]string{
		{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"},
		{"Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"},
		{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"},
		{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: object"},
	} {
		h.refused(t, http.StatusForbidden, h.ask(http.MethodGet, "/", cookie, headers...), strings.Join(headers, " "))
	}
	link := []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"}
	require.Equal(t, "page of alice@example.com", text(t, h.ask(http.MethodGet, "/g/a", cookie, link...)))

	// The browser holds a strict cookie back. It sends it once this page asks.
	resp := h.ask(http.MethodGet, "//evil.example/g/a", "", link...)
	page := text(t, resp)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, page, `http-equiv="refresh"`)
	require.NotContains(t, page, "evil.example")
}

func TestNoSession(t *testing.T) {
	h := console(t, Limits{})
	resp := h.ask(http.MethodGet, "/g/pve1?a=b", "", "Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate")
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	require.Equal(t, "/sign-in?to=%2Fg%2Fpve1%3Fa%3Db", resp.Header.Get("Location"))
	h.refused(t, http.StatusUnauthorized, h.ask(http.MethodPost, "/g/pve1 a=b", ""), "post")
	h.refused(t, http.StatusUnauthorized, h.ask(http.MethodGet, "/live", "", "Sec-Fetch-Mode: cors"), "fetch")
	h.refused(t, http.StatusUnauthorized, h.ask(http.MethodGet, "/sign-in/x", "", "Sec-Fetch-Mode: cors"), "below an open page")
	require.Equal(t, http.StatusOK, h.ask(http.MethodGet, "/files/a.css", "").StatusCode)
}

func TestMethods(t *testing.T) {
	h := console(t, Limits{})
	for _, method := range []string{"PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "X"} {
		h.refused(t, http.StatusMethodNotAllowed, h.ask(method, "/files/a", ""), method)
	}
}

func TestHeaders(t *testing.T) {
	h := console(t, Limits{})
	cookie := h.signIn(t, "a")
	for _, resp := range []*http.Response{h.ask(http.MethodGet, "/", cookie), h.ask(http.MethodGet, "/", "", "Host: x"),
		h.ask(http.MethodPost, "/", ""), h.ask(http.MethodGet, "/", "")} {
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
				"form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Cache-Control":                "no-store",
			"Strict-Transport-Security":    "max-age=31536000",
		} {
			require.Equal(t, want, resp.Header.Get(name), name)
		}
		require.Contains(t, resp.Header.Get("Permissions-Policy"), "publickey-credentials-get=(self)")
		require.Contains(t, resp.Header.Get("Permissions-Policy"), "camera=()")
	}
	own := build(t, Config{Origins: []string{local}, Local: true})
	require.Empty(t, own.ask(http.MethodGet, "/", "").Header.Get("Strict-Transport-Security"))
}

func TestProblemsAreMarkupOfNobody(t *testing.T) {
	h := console(t, Limits{})
	page := text(t, h.ask(http.MethodGet, "/", "", "Host: <script>alert(1)</script>"))
	require.NotContains(t, page, "<script>")
	require.Contains(t, page, "&lt;script&gt;")

	h.Dress(func(w http.ResponseWriter, _ *http.Request, status int, why *refusal.Refusal) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "dressed "+why.Detail)
	}, nil)
	require.Contains(t, text(t, h.ask(http.MethodGet, "/", "", "Host: x")), "dressed ")
}

func TestRates(t *testing.T) {
	h := console(t, Limits{PerSecond: 2, AllPerSecond: 4})
	many := func(from string, n int) (passed int) {
		for range n {
			if h.ask(http.MethodGet, "/files/a", "", "From: "+from).StatusCode == http.StatusOK {
				passed++
			}
		}
		return passed
	}
	require.Equal(t, 10, many("192.0.2.1:1", 50), "a burst of one client")
	require.Equal(t, 10, many("192.0.2.2:1", 50), "another one is not held up by it")
	require.Zero(t, many("192.0.2.3:1", 5), "all together")
	h.pass(time.Second)
	require.Equal(t, 2, many("192.0.2.1:2", 5))
	require.Equal(t, 2, many("192.0.2.3:2", 5))
	h.reached = 0
	h.refused(t, http.StatusTooManyRequests, h.ask(http.MethodGet, "/files/a", "", "From: 192.0.2.1:9"), "one too many")
}

func TestTriesToSignIn(t *testing.T) {
	h := console(t, Limits{TriesPerMinute: 3})
	r := httptest.NewRequest(http.MethodPost, "/sign-in", nil)
	for range 3 {
		require.NoError(t, h.TrySignIn(r))
	}
	require.ErrorIs(t, h.TrySignIn(r), refusal.OverLimit)
	h.pass(20 * time.Second)
	require.NoError(t, h.TrySignIn(r))
	require.ErrorIs(t, h.TrySignIn(r), refusal.OverLimit)
}

func TestManyClientsAreForgotten(t *testing.T) {
	rs := newRates(Limits{}.orUsual(), time.Now)
	for i := range maxClients + 100 {
		rs.of(string(rune('a'+i%26)) + time.Duration(i).String())
	}
	require.Len(t, rs.clients, maxClients)
}

func TestWhoseRate(t *testing.T) {
	proxied := build(t, Config{Origins: []string{team}, Proxied: true})
	direct := console(t, Limits{})
	for _, c := range []struct {
		h          *house
		remote, by string
		want       string
	}{
		{direct, "192.0.2.1:5", "", "192.0.2.1"},
		{direct, "192.0.2.1:5", "198.51.100.9", "192.0.2.1"},
		{direct, "[2001:db8::1:2]:5", "", "2001:db8::/64"},
		{direct, "[::1]:5", "", "::1"},
		{proxied, "@", "198.51.100.9", "198.51.100.9"},
		{proxied, "@", "10.0.0.1, 198.51.100.9", "198.51.100.9"},
		{proxied, "@", "198.51.100.9, x", "unknown"},
		{proxied, "@", "", "unknown"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = c.remote
		if c.by != "" {
			r.Header.Set("X-Forwarded-For", c.by)
		}
		require.Equal(t, c.want, c.h.client(r), "%s %s", c.remote, c.by)
	}
	// It says nothing about the host.
	proxied.refused(t, http.StatusMisdirectedRequest, proxied.ask(http.MethodGet, "/", "", "Host: x", "X-Forwarded-Host: console.example.com"), "host")
}

func TestOrigins(t *testing.T) {
	for _, good := range []string{team, local, "https://console.example.com:8443", "http://localhost:1"} {
		must.Get(ParseOrigin(good))(t, good)
	}
	for _, bad := range []string{"", "console.example.com", "https://", "https://h/", "https://H", "https://h:443", "http://localhost:80",
		"https://h:", "https://h.", "https://h", "https://10.0.0.1", "https://[::1]", "https://u@h", "https://h?x", "https://h#x", "ftp://h", "https://h\n", "https://*.h/"} {
		must.Fail(ParseOrigin(bad))(t, refusal.Malformed, "%q", bad)
	}
	for _, clear := range []string{"http://console.example.com", "http://127.0.0.1:7480", "http://[::1]:7480"} {
		must.Fail(ParseOrigin(clear))(t, refusal.NotAllowed)
	}
	must.Fail(New(Config{Now: time.Now}))(t, refusal.Malformed)
	must.Fail(New(Config{Now: time.Now, Origins: []string{team, local}}))(t, refusal.Malformed)
}

func TestLocalPaths(t *testing.T) {
	for _, good := range []string{"/", "/g/pve1/r/j1.1?details=1"} {
		got, ok := LocalPath(good)
		require.True(t, ok, good)
		require.Equal(t, good, got)
	}
	for _, bad := range []string{"", "g", "//evil.example", "/\\evil.example", "https://evil.example", "/a\n", "/\t/evil.example", "javascript:1", "/a#b"} {
		_, ok := LocalPath(bad)
		require.False(t, ok, "%q", bad)
	}
}

func TestBodies(t *testing.T) {
	h := console(t, Limits{})
	cookie := h.signIn(t, "a")
	for _, kind := range []string{"application/x-www-form-urlencoded", "application/json"} {
		h.reached = 0
		resp := h.ask(http.MethodPost, "/g "+strings.Repeat("x", maxBody+1), cookie, "Content-Type: "+kind)
		h.refused(t, http.StatusRequestEntityTooLarge, resp, kind)
		require.Equal(t, http.StatusOK, h.ask(http.MethodPost, "/g "+strings.Repeat("x", maxBody), cookie, "Content-Type: "+kind).StatusCode)
	}
}
