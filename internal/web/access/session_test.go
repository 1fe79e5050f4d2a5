package access

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

func TestCookies(t *testing.T) {
	h := console(t, Limits{})
	resp := h.ask(http.MethodPost, "/sign-in key=a", "")
	c := resp.Cookies()[0]
	require.Equal(t, "__Host-gated", c.Name)
	require.True(t, c.Secure && c.HttpOnly && c.Path == "/" && c.Domain == "" && c.SameSite == http.SameSiteStrictMode)
	require.Len(t, c.Value, 43)

	own := build(t, Config{Origins: []string{local}, Local: true})
	c = own.ask(http.MethodPost, "/launch token="+own.NewToken(), "").Cookies()[0]
	require.Equal(t, "gated_7480", c.Name)
	require.True(t, !c.Secure && c.HttpOnly && c.Path == "/" && c.SameSite == http.SameSiteStrictMode)
}

func (h *house) alive(cookie string) bool {
	return h.ask(http.MethodGet, "/live", cookie, "Sec-Fetch-Mode: cors").StatusCode == http.StatusOK
}

func TestSessionsEnd(t *testing.T) {
	h := console(t, Limits{})
	idle := h.signIn(t, "a")
	h.pass(30*time.Minute - time.Second)
	require.True(t, h.alive(idle))
	h.pass(30*time.Minute - time.Second)
	require.True(t, h.alive(idle), "the last use counts")
	h.pass(30 * time.Minute)
	require.False(t, h.alive(idle))
	require.False(t, h.alive(idle))
	require.Empty(t, h.sessions.all, "and nothing is kept")

	old := h.signIn(t, "a")
	for range 8*3 - 1 {
		h.pass(20 * time.Minute)
		require.True(t, h.alive(old))
	}
	h.pass(20*time.Minute - time.Second)
	require.True(t, h.alive(old))
	h.pass(time.Second)
	require.False(t, h.alive(old))
}

func TestStolenCookies(t *testing.T) {
	h := console(t, Limits{})
	cookie := h.signIn(t, "a")
	other := h.signIn(t, "b")
	resp := h.ask(http.MethodPost, "/out x=y", cookie)
	require.Negative(t, resp.Cookies()[0].MaxAge)
	require.False(t, h.alive(cookie), "after its owner signed out")
	require.True(t, h.alive(other))

	// One that signs in again leaves no session behind.
	again := h.ask(http.MethodPost, "/sign-in key=b", other).Cookies()[0].Value
	require.False(t, h.alive(other))
	require.True(t, h.alive(again))

	flipped := []byte(again)
	flipped[0] ^= 1
	for _, bad := range []string{string(flipped), again + "A", again[1:], again + "=", "x"} {
		require.False(t, h.alive(bad), bad)
	}

	// Two cookies of one name: another server of this host set one of them.
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	for range 2 {
		r.AddCookie(&http.Cookie{Name: h.cookie, Value: again})
	}
	_, ok := h.session(r)
	require.False(t, ok)
}

func TestNoCookieIsKept(t *testing.T) {
	h := console(t, Limits{})
	cookie := h.signIn(t, "a")
	for hash, r := range h.sessions.all {
		require.NotContains(t, string(hash[:]), cookie)
		require.NotContains(t, r.ID, cookie)
	}
}

func TestEndAll(t *testing.T) {
	h := console(t, Limits{})
	a, b := h.signIn(t, "a"), h.signIn(t, "b")
	h.EndAll(func(s Session) bool { return s.Key == "a" })
	require.False(t, h.alive(a))
	require.True(t, h.alive(b))
}

func TestSessionsAreBounded(t *testing.T) {
	h := console(t, Limits{PerSecond: 1e6, AllPerSecond: 1e6})
	var cookies []string
	for i := range 1001 {
		h.pass(time.Millisecond)
		cookies = append(cookies, h.signIn(t, "k"+strconv.Itoa(i)))
	}
	require.Len(t, h.sessions.all, 1000)
	require.False(t, h.alive(cookies[0]), "the oldest one went")
	require.True(t, h.alive(cookies[1]))
	require.True(t, h.alive(cookies[1000]))

	h = console(t, Limits{})
	cookies = nil
	for range 11 {
		h.pass(time.Millisecond)
		cookies = append(cookies, h.signIn(t, "one"))
	}
	require.False(t, h.alive(cookies[0]))
	require.True(t, h.alive(cookies[1]))
}

// streaming is a request of a session that passed the wall.
func (h *house) streaming(t *testing.T, cookie string) *http.Request {
	t.Helper()
	rec, ok := h.sessions.find(cookie)
	require.True(t, ok)
	r := httptest.NewRequest(http.MethodGet, "/live", nil)
	return r.WithContext(context.WithValue(r.Context(), sessionKey{}, rec))
}

func TestThousandsOfStreams(t *testing.T) {
	h := console(t, Limits{PerSecond: 1e6, AllPerSecond: 1e6})
	var ends []func()
	taken, refused := 0, 0
	for i := range 50 {
		r := h.streaming(t, h.signIn(t, "k"+strconv.Itoa(i)))
		for range 100 {
			_, done, err := h.Stream(r)
			if err != nil {
				require.ErrorIs(t, err, refusal.OverLimit)
				refused++
				continue
			}
			taken++
			ends = append(ends, done)
		}
	}
	require.Equal(t, usual.Streams, taken)
	require.Equal(t, 5000-usual.Streams, refused)
	for _, done := range ends {
		done()
	}
	require.Zero(t, h.sessions.streams)
	_, done, err := h.Stream(h.streaming(t, h.signIn(t, "last")))
	require.NoError(t, err)
	done()

	_, _, err = h.Stream(httptest.NewRequest(http.MethodGet, "/live", nil))
	require.ErrorIs(t, err, refusal.NotAllowed)
}

func TestAStreamEndsWithItsSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := console(t, Limits{})
		cookie := h.signIn(t, "a")
		ctx, done, err := h.Stream(h.streaming(t, cookie))
		require.NoError(t, err)
		h.ask(http.MethodPost, "/out x=y", cookie)
		<-ctx.Done()
		done()

		ctx, done, err = h.Stream(h.streaming(t, h.signIn(t, "b")))
		require.NoError(t, err)
		h.pass(29 * time.Minute)
		<-time.After(streamLook)
		synctest.Wait()
		require.NoError(t, ctx.Err())
		h.pass(time.Minute)
		<-ctx.Done()
		require.Empty(t, h.sessions.all)
		done()
	})
}
