package matrix_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/web/access"
)

const consoleAt = "https://console.example.com"

// walled is a page behind the wall that hands in what an operator signed, and a browser that is signed in.
type walled struct {
	wall    *access.Wall
	handler http.Handler
	now     time.Time
	cookie  *http.Cookie
	refused *refusal.Refusal
}

// newWalled makes a page whose every POST approves a request for real, if the wall lets it pass.
func newWalled(w *world, local bool, approve func() error) *walled {
	r := &walled{now: w.now()}
	origin := consoleAt
	if local {
		origin = "http://localhost:7480"
	}
	r.wall = must.Get(access.New(access.Config{Origins: []string{origin}, Local: local, Now: func() time.Time { return r.now }}))(w.t)
	r.wall.Dress(func(rw http.ResponseWriter, _ *http.Request, status int, why *refusal.Refusal) {
		r.refused = why
		rw.WriteHeader(status)
	}, nil)
	r.wall.Open("/sign-in")
	r.handler = r.wall.Handler(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/sign-in":
			r.wall.Begin(rw, q, access.Session{Key: "SHA256:alice", Principal: "alice"})
		case "/out":
			r.wall.End(rw, q)
		default:
			if err := approve(); err != nil {
				w.t.Error(err)
			}
		}
	}))
	return r
}

// sends makes a browser's request of the page itself, which change makes another's.
func (r *walled) sends(path, body string, change func(*http.Request)) *http.Response {
	q := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	q.Host = "console.example.com"
	q.Header.Set("Sec-Fetch-Site", "same-origin")
	q.Header.Set("Origin", consoleAt)
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if r.cookie != nil {
		q.AddCookie(r.cookie)
	}
	change(q)
	rec := httptest.NewRecorder()
	r.handler.ServeHTTP(rec, q)
	return rec.Result()
}

func asIs(*http.Request) {}

// behindTheWall is an attack by what a browser sends, while its operator is signed in and a request waits.
func behindTheWall(id, what string, attacked func(*walled)) attack {
	return attack{id: id, what: what, want: refusal.NotAllowed, run: func(w *world) error {
		waits := w.destroyRequest()
		r := newWalled(w, false, func() error { return failure(w.approve(waits)) })
		r.cookie = r.sends("/sign-in", "", asIs).Cookies()[0]
		w.armUnlogged("the wall refuses it, and no gate is asked")
		attacked(r)
		if r.refused == nil {
			return nil
		}
		return r.refused
	}}
}

// sent is behindTheWall for one request.
func sent(id, what string, change func(*http.Request)) attack {
	return behindTheWall(id, what, func(r *walled) { r.sends("/approve", "", change) })
}

var wallRows = []attack{
	sent("C01a", "a name of another site leads to the console", func(q *http.Request) { q.Host = "evil.example" }),
	sent("C01b", "the console is asked by the host at another port", func(q *http.Request) { q.Host = "console.example.com:8443" }),
	sent("C01c", "the console is asked by its address", func(q *http.Request) { q.Host = "127.0.0.1:7443" }),
	sent("C01d", "a page of another site posts", func(q *http.Request) {
		q.Header.Set("Sec-Fetch-Site", "cross-site")
		q.Header.Set("Origin", "https://evil.example")
	}),
	sent("C01e", "a page at another port of the same host posts", func(q *http.Request) {
		q.Header.Set("Sec-Fetch-Site", "same-site")
		q.Header.Set("Origin", "https://console.example.com:8443")
	}),
	sent("C01f", "an old browser's page of another site posts", func(q *http.Request) {
		q.Header.Del("Sec-Fetch-Site")
		q.Header.Set("Origin", "https://evil.example")
	}),
	sent("C01g", "a sandboxed page posts", func(q *http.Request) {
		q.Header.Set("Sec-Fetch-Site", "cross-site")
		q.Header.Set("Origin", "null")
	}),
	sent("C01h", "the same host without TLS posts", func(q *http.Request) {
		q.Header.Del("Sec-Fetch-Site")
		q.Header.Set("Origin", "http://console.example.com")
	}),
	sent("C01i", "what says of no page posts", func(q *http.Request) {
		q.Header.Del("Sec-Fetch-Site")
		q.Header.Del("Origin")
	}),
	sent("C01j", "another method, which no check of origins looks at", func(q *http.Request) { q.Method = "OPTIONS" }),
	sent("C02a", "no cookie", func(q *http.Request) { q.Header.Del("Cookie") }),
	sent("C02b", "a second cookie beside the right one", func(q *http.Request) {
		q.AddCookie(&http.Cookie{Name: "__Host-gated", Value: strings.Repeat("A", 43)})
	}),
	sent("C02c", "a cookie that was never given out", func(q *http.Request) {
		q.Header.Set("Cookie", "__Host-gated="+strings.Repeat("A", 43))
	}),
	behindTheWall("C02d", "a cookie that was stolen, after its operator signed out", func(r *walled) {
		r.sends("/out", "", asIs)
		r.sends("/approve", "", asIs)
	}),
	behindTheWall("C02e", "a cookie that was not used for half an hour", func(r *walled) {
		r.now = r.now.Add(30 * time.Minute)
		r.sends("/approve", "", asIs)
	}),
	behindTheWall("C02f", "the cookie of a key that is not listed any more", func(r *walled) {
		r.wall.EndAll(func(s access.Session) bool { return s.Key == "SHA256:alice" })
		r.sends("/approve", "", asIs)
	}),
	{id: "C02g", what: "a launch token is used a second time", want: refusal.NotAllowed, run: func(w *world) error {
		waits := w.destroyRequest()
		r := newWalled(w, true, func() error { return failure(w.approve(waits)) })
		atHome := func(q *http.Request) {
			q.Host = "localhost:7480"
			q.Header.Set("Origin", "http://localhost:7480")
		}
		token := "token=" + r.wall.NewToken()
		must.Get(r.sends("/launch", token, atHome).Location())(w.t)
		w.armUnlogged("the wall refuses it, and no gate is asked")
		r.sends("/launch", token, atHome)
		r.sends("/approve", "", atHome)
		if r.refused == nil {
			return nil
		}
		return r.refused
	}},
}
