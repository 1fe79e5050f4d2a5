// Package access is the outer wall of the pages in a browser. A request passes, in this order: the exact list of Hosts, the
// check of its origin, the limits of its rate, and its session. Every answer has the same strict headers, and every
// refusal is a page that says what to do. It decides nothing about gates.
package access

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Config says who may reach the pages.
type Config struct {
	// Origins are all origins that a browser may use, exactly: https://console.example.com, http://localhost:7480. They
	// decide which Hosts are answered.
	Origins []string

	// Local: sessions begin with a token of NewToken, as on an operator's own machine. Else SignIn is the path to which a
	// browser without a session is sent.
	Local  bool
	SignIn string

	// Wanted, if not nil, is called when a browser on this machine has no session: a new token may help.
	Wanted func()

	// Proxied: requests come through a unix socket from a proxy of this host. The last address of its
	// X-Forwarded-For is believed, for the limits of rates alone.
	Proxied bool

	Limits Limits
	Now    func() time.Time
	Logger *slog.Logger
}

// Limits are the bounds of a Wall. A zero member means the default.
type Limits struct {
	Sessions       int           // in all; the oldest one goes
	SessionsPerKey int           // of one key; the oldest one goes
	Idle, Absolute time.Duration // of a session
	Launch         time.Duration // of a token of NewToken

	Streams           int     // in all
	StreamsPerSession int     // of one session
	PerSecond         float64 // requests of one client, with bursts of five times as many
	AllPerSecond      float64 // requests of all clients
	TriesPerMinute    float64 // to sign in, of one client
	AllTriesPerMinute float64
}

var usual = Limits{Sessions: 1000, SessionsPerKey: 10, Idle: 30 * time.Minute, Absolute: 8 * time.Hour, Launch: 10 * time.Minute,
	Streams: 400, StreamsPerSession: 12, PerSecond: 40, AllPerSecond: 400, TriesPerMinute: 12, AllTriesPerMinute: 240}

func orUsual[T int | float64 | time.Duration](is *T, usual T) {
	if *is <= 0 {
		*is = usual
	}
}

func (l Limits) orUsual() Limits {
	orUsual(&l.Sessions, usual.Sessions)
	orUsual(&l.SessionsPerKey, usual.SessionsPerKey)
	orUsual(&l.Idle, usual.Idle)
	orUsual(&l.Absolute, usual.Absolute)
	orUsual(&l.Launch, usual.Launch)
	orUsual(&l.Streams, usual.Streams)
	orUsual(&l.StreamsPerSession, usual.StreamsPerSession)
	orUsual(&l.PerSecond, usual.PerSecond)
	orUsual(&l.AllPerSecond, usual.AllPerSecond)
	orUsual(&l.TriesPerMinute, usual.TriesPerMinute)
	orUsual(&l.AllTriesPerMinute, usual.AllTriesPerMinute)
	return l
}

// Problem writes a refusal as a page with that status. The headers of the wall are set already.
type Problem func(w http.ResponseWriter, r *http.Request, status int, why *refusal.Refusal)

// Wall stands in front of all pages. Several goroutines may use it, after Dress and Open were called.
type Wall struct {
	config   Config
	origins  map[string]bool
	hosts    map[string]bool
	secure   bool   // its origins are https
	cookie   string // its name
	crossing *http.CrossOriginProtection
	open     []string
	sessions *sessions
	launches *launches
	rates    *rates
	problem  Problem
	launch   http.HandlerFunc
	stopping chan struct{} // closed when streams have to end
	waits    waits
	owner    func(net.Conn) (uid uint32, known bool, err error)
}

// New returns a wall. It refuses as Malformed an origin that is none, and origins of which some are https and some not.
func New(c Config) (*Wall, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.Limits = c.Limits.orUsual()
	w := &Wall{config: c, origins: map[string]bool{}, hosts: map[string]bool{}, crossing: http.NewCrossOriginProtection(),
		sessions: newSessions(c.Limits, c.Now), launches: &launches{now: c.Now, lasts: c.Limits.Launch}, rates: newRates(c.Limits, c.Now),
		stopping: make(chan struct{}), waits: usualWaits, owner: peerOwner}
	w.problem, w.launch = plainProblem, plainLaunch
	if len(c.Origins) == 0 {
		return nil, refusal.New(refusal.Malformed, "the pages have no origin, so no request could be answered")
	}
	port := ""
	for i, text := range c.Origins {
		u, err := ParseOrigin(text)
		if err != nil {
			return nil, err
		}
		if i > 0 && w.secure != (u.Scheme == "https") {
			return nil, refusal.New(refusal.Malformed, "some of the origins are https and some are http: %s", strings.Join(c.Origins, ", "))
		}
		w.secure, port = u.Scheme == "https", u.Port()
		w.origins[text], w.hosts[u.Host] = true, true
	}
	w.cookie = "__Host-gated"
	if !w.secure {
		// Cookies are sent to every port of a host, so each port needs a name of its own. A prefix needs Secure, which
		// some browsers take over https alone, even from this machine.
		w.cookie = "gated_" + port
	}
	return w, nil
}

// ParseOrigin reads an origin as a gate takes it (op.Origin), so that passkeys of these pages can count. It refuses http for
// another name than localhost as NotAllowed: cookies and pages would cross the network in the clear, and browsers have no passkeys
// there. Another form is Malformed.
func ParseOrigin(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	_, ok := op.Origin(text)
	switch {
	case err == nil && ok:
		return u, nil
	case err == nil && u.Scheme == "http" && text == "http://"+u.Host && u.Hostname() != "localhost" && u.Host != "":
		return nil, refusal.New(refusal.NotAllowed, "the origin %s is not https", text).
			WithHint("browsers have passkeys over https alone, but for http://localhost")
	}
	return nil, refusal.New(refusal.Malformed, "%q is not an origin as browsers write it", text).
		WithHint("write https://console.example.com: a name of two parts at the least in lower case, no path, and a port only if it is not 443")
}

// Dress sets how refusals and the page of /launch look. A nil one stays plain. It is called before the first request.
func (w *Wall) Dress(p Problem, launch http.HandlerFunc) {
	if p != nil {
		w.problem = p
	}
	if launch != nil {
		w.launch = launch
	}
}

// Open lets requests without a session pass to those paths; one that ends with a slash means all below it. Every other
// path needs a session. It is called before the first request.
func (w *Wall) Open(paths ...string) { w.open = append(w.open, paths...) }

func (w *Wall) isOpen(path string) bool {
	for _, p := range w.open {
		if path == p || strings.HasSuffix(p, "/") && strings.HasPrefix(path, p) {
			return true
		}
	}
	return false
}

// Refuse answers with a refusal as a page. Errors that are no refusal are answered as internal, without their text.
func (w *Wall) Refuse(rw http.ResponseWriter, r *http.Request, err error) {
	why := refusal.As(err)
	w.refuse(rw, r, statusOf(why), why)
}

func (w *Wall) refuse(rw http.ResponseWriter, r *http.Request, status int, why *refusal.Refusal) {
	rw.Header().Del("ETag")
	noStore(rw.Header())
	w.problem(rw, r, status, why)
}

// Handler returns the wall in front of next. next finds the session in the request's context (SessionOf).
func (w *Wall) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.headers(rw.Header())
		w.hurry(rw, r)
		if status, err := w.outside(r); err != nil {
			w.config.Logger.Info("refused", "status", status, "method", r.Method, "path", r.URL.Path, "why", err.Detail)
			w.refuse(rw, r, status, err)
			return
		}
		s, ok := w.session(r)
		most := int64(maxBodyBefore)
		switch {
		case ok:
			r = r.WithContext(context.WithValue(r.Context(), sessionKey{}, s))
			most = maxBody
		case !w.isOpen(r.URL.Path) && !w.isLaunch(r.URL.Path):
			w.sendToSignIn(rw, r)
			return
		}
		if err := w.wholeBody(rw, r, most); err != nil {
			w.Refuse(rw, r, err)
			return
		}
		if w.isLaunch(r.URL.Path) {
			w.launching(rw, r)
			return
		}
		next.ServeHTTP(rw, r)
	})
}

// outside checks what needs no session: Host, method, whose connection it is, origin and rate.
func (w *Wall) outside(r *http.Request) (status int, why *refusal.Refusal) {
	switch {
	case !w.hosts[r.Host]:
		return http.StatusMisdirectedRequest, w.wrongHost(r)
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, refusal.New(refusal.NotAllowed, "%q is no method of these pages", r.Method).
			WithHint("use a browser")
	}
	if why := strange(r.Context()); why != nil {
		return http.StatusForbidden, why
	}
	if why := w.crossed(r); why != nil {
		return http.StatusForbidden, why
	}
	if !w.rates.pass(w.client(r)) {
		return http.StatusTooManyRequests, tooFast("requests come from this address too fast")
	}
	return 0, nil
}

func (w *Wall) wrongHost(r *http.Request) *refusal.Refusal {
	return refusal.New(refusal.NotAllowed, "these pages are not at %q", r.Host).
		WithHint("open %s. If you did not type another name, a page tried to reach this one by a name of its own: close it",
			strings.Join(w.config.Origins, " or "))
}

// crossed refuses what another site's page, or one of another port, asks for.
func (w *Wall) crossed(r *http.Request) *refusal.Refusal {
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	refused := refusal.New(refusal.NotAllowed, "another page sent this request, and it was not carried out").
		WithHint("do it on the page itself: open %s", w.config.Origins[0])
	if w.crossing.Check(r) != nil {
		return refused
	}
	if r.Method == http.MethodPost {
		switch {
		case site == "" && origin == "":
			return refusal.New(refusal.NotAllowed, "the request does not say which page it comes from").
				WithHint("use a browser of 2020 or later; a program says Origin: %s", w.config.Origins[0])
		case origin != "" && origin != "null" && !w.origins[origin], origin == "null" && site != "same-origin":
			// A form sends null from a page whose referrer policy is no-referrer.
			return refused
		}
		return nil
	}
	// A link of another page may be followed. Nothing else of these pages is for other pages.
	followed := r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
	if (site == "cross-site" || site == "same-site") && !followed {
		return refused
	}
	return nil
}
