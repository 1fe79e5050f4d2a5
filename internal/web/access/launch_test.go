package access

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func own(t *testing.T) *house { return build(t, Config{Origins: []string{local}, Local: true}) }

func TestATokenOpensOneSession(t *testing.T) {
	h := own(t)
	token := h.NewToken()
	require.Len(t, token, 43)

	// Reading the page takes nothing, whatever stands in its address.
	page := text(t, h.ask(http.MethodGet, "/launch?token="+token, ""))
	require.Contains(t, page, `name="token"`)
	require.Contains(t, page, "opsign web printed")

	resp := h.ask(http.MethodPost, "/launch token="+token, "", "Origin: null")
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	require.Equal(t, "/", resp.Header.Get("Location"))
	require.True(t, h.alive(resp.Cookies()[0].Value))
	h.reached = 0
	h.refused(t, http.StatusForbidden, h.ask(http.MethodPost, "/launch token="+token, ""), "a second time")

	token = h.NewToken()
	resp = h.ask(http.MethodPost, `/launch {"token":"`+token+`"}`, "", "Content-Type: application/json")
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
}

func TestTokensEnd(t *testing.T) {
	h := own(t)
	token := h.NewToken()
	h.pass(10*time.Minute - time.Second)
	require.True(t, h.launches.use(token))
	token = h.NewToken()
	h.pass(10 * time.Minute)
	require.False(t, h.launches.use(token))

	first := h.NewToken()
	for range maxLaunches {
		token = h.NewToken()
	}
	require.False(t, h.launches.use(first), "no more are kept")
	require.True(t, h.launches.use(token))
}

func TestBadTokens(t *testing.T) {
	token := own(t).NewToken() // of another launch
	for name, c := range map[string]struct {
		body, kind string
		status     int
	}{
		"another launch's": {"token=" + token, "", http.StatusForbidden},
		"empty":            {"token=", "", http.StatusBadRequest},
		"twice":            {"token=" + token + "&token=" + token, "", http.StatusBadRequest},
		"something else":   {"token=" + token + "&x=", "", http.StatusBadRequest},
		"doubled member":   {`{"token":"` + token + `","token":"` + token + `"}`, "application/json", http.StatusBadRequest},
		"another member":   {`{"token":"` + token + `","x":1}`, "application/json", http.StatusBadRequest},
		"plain text":       {"token=" + token, "text/plain", http.StatusBadRequest},
		"long":             {"token=" + strings.Repeat("a", 8<<10), "", http.StatusForbidden},
	} {
		h := own(t)
		h.NewToken()
		var headers []string
		if c.kind != "" {
			headers = append(headers, "Content-Type: "+c.kind)
		}
		h.refused(t, c.status, h.ask(http.MethodPost, "/launch "+c.body, "", headers...), name)
		require.Empty(t, h.sessions.all, name)
	}
}

// A browser without a session, and one with a token that does not count, have a new token printed. A token that waits is enough.
func TestANewTokenIsWanted(t *testing.T) {
	wanted := 0
	h := build(t, Config{Origins: []string{local}, Local: true, Wanted: func() { wanted++ }})
	require.False(t, h.TokenWaits())
	h.ask(http.MethodGet, "/", "")
	h.ask(http.MethodPost, "/launch token=x", "")
	require.Equal(t, 2, wanted)
	h.ask(http.MethodGet, "/", "", "Host: evil.example")
	h.ask(http.MethodGet, "/", "", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: cors")
	require.Equal(t, 2, wanted, "another page asks for nothing")
	token := h.NewToken()
	require.True(t, h.TokenWaits())
	require.True(t, h.launches.use(token))
	require.False(t, h.TokenWaits())
	h.NewToken()
	h.pass(10 * time.Minute)
	require.False(t, h.TokenWaits())
}

func TestTokensAreNotGuessed(t *testing.T) {
	h := own(t)
	token := h.NewToken()
	for range int(usual.TriesPerMinute) {
		h.ask(http.MethodPost, "/launch token=x", "")
	}
	h.refused(t, http.StatusTooManyRequests, h.ask(http.MethodPost, "/launch token="+token, ""), "too many tries")
}

func TestAConsoleHasNoLaunch(t *testing.T) {
	h := console(t, Limits{})
	h.refused(t, http.StatusUnauthorized, h.ask(http.MethodPost, "/launch token="+h.NewToken(), ""), "launch")
}

func TestTheLaunchScript(t *testing.T) {
	h := own(t)
	resp := h.ask(http.MethodGet, "/launch.js", "")
	require.Contains(t, resp.Header.Get("Content-Type"), "text/javascript")
	script := text(t, resp)
	for _, sink := range []string{"innerHTML", "eval", "document.write", "insertAdjacentHTML"} {
		require.NotContains(t, script, sink)
	}
	require.Less(t, strings.Count(script, "\n"), 30)
}

func FuzzLaunch(f *testing.F) {
	f.Add("application/json", []byte(`{"token":"a"}`))
	f.Add("application/x-www-form-urlencoded", []byte("token=a%20b"))
	f.Add("text/plain", []byte("token=a"))
	f.Fuzz(func(t *testing.T, kind string, body []byte) {
		token, err := parseLaunch(kind, body)
		if err == nil {
			require.NotEmpty(t, token)
			require.Contains(t, []string{"application/json", "application/x-www-form-urlencoded"}, kind)
		}
	})
}

func FuzzSecret(f *testing.F) {
	secret, _ := newSecret()
	f.Add(secret)
	f.Add(secret + "=")
	f.Add(strings.Repeat("A", 42) + "B")
	seen := map[[32]byte]string{}
	f.Fuzz(func(t *testing.T, text string) {
		kept, ok := parseSecret(text)
		if !ok {
			return
		}
		require.Len(t, text, 43)
		if other := seen[kept]; other != "" { // one secret has one form
			require.Equal(t, other, text)
		}
		seen[kept] = text
	})
}

func FuzzOrigin(f *testing.F) {
	for _, s := range []string{team, local, "http://[::1]:7480", "https://h:443", "https://h/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := ParseOrigin(text)
		if err == nil {
			require.Equal(t, text, u.Scheme+"://"+u.Host)
			require.Equal(t, strings.ToLower(text), text)
		}
	})
}

func FuzzLocalPath(f *testing.F) {
	for _, s := range []string{"/", "/g/a?b=c", "//evil.example", "/\\evil.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path, ok := LocalPath(text)
		if ok {
			require.Equal(t, text, path)
			require.True(t, strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") && !strings.Contains(path, "\\"))
		}
	})
}
