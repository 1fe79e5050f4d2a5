package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"net/url"
	"sync"
	"time"

	"gated/internal/base/refusal"
)

// Session is who uses a browser. It is known in this process's memory alone.
type Session struct {
	ID        string    // names it in logs and tests; it does not open it
	Local     bool      // of the operator on whose machine this runs; else Key signed in
	Key       string    // SHA256:… of the passkey that signed in
	Principal string    // that the key is listed for; empty if no gate lists it yet
	Began     time.Time // set by Begin
	Ends      time.Time // at the latest; set by Begin
}

type sessionKey struct{}

// SessionOf returns the session of a request that passed the wall; false if there is none.
func SessionOf(ctx context.Context) (Session, bool) {
	r, ok := ctx.Value(sessionKey{}).(*record)
	if !ok {
		return Session{}, false
	}
	return r.Session, true
}

// secretBytes is the size of a cookie and of a launch token.
const secretBytes = 32

// newSecret returns 256 random bits, and what is kept of them.
func newSecret() (secret string, kept [sha256.Size]byte) {
	var b [secretBytes]byte
	_, _ = rand.Read(b[:]) // it never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b[:]), sha256.Sum256(b[:])
}

// parseSecret reads what newSecret returned, in that one form.
func parseSecret(text string) (kept [sha256.Size]byte, ok bool) {
	if len(text) != base64.RawURLEncoding.EncodedLen(secretBytes) {
		return kept, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != secretBytes {
		return kept, false
	}
	return sha256.Sum256(b), true
}

// record is a session with what changes of it.
type record struct {
	Session
	hash    [sha256.Size]byte // of its cookie
	used    time.Time
	streams int
	ended   chan struct{} // closed at its end
}

// sessions are all that there are.
type sessions struct {
	limits Limits
	now    func() time.Time

	mu      sync.Mutex
	all     map[[sha256.Size]byte]*record
	streams int
}

func newSessions(l Limits, now func() time.Time) *sessions {
	return &sessions{limits: l, now: now, all: map[[sha256.Size]byte]*record{}}
}

// over reports whether a session is too old, or was not used for too long.
func (s *sessions) over(r *record, now time.Time) bool {
	return !now.Before(r.Ends) || now.Sub(r.used) >= s.limits.Idle
}

// drop ends a session.
func (s *sessions) drop(r *record) {
	if s.all[r.hash] == r {
		delete(s.all, r.hash)
		close(r.ended)
	}
}

// add begins a session and returns its cookie. It ends those that are over, and the oldest ones above the bounds.
func (s *sessions) add(is Session) (cookie string, r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, old := range s.all {
		if s.over(old, now) {
			s.drop(old)
		}
	}
	s.bound(s.limits.Sessions, func(*record) bool { return true })
	s.bound(s.limits.SessionsPerKey, func(old *record) bool { return old.Local == is.Local && old.Key == is.Key })
	cookie, hash := newSecret()
	is.ID = hex.EncodeToString(hash[:8])
	is.Began, is.Ends = now, now.Add(s.limits.Absolute)
	r = &record{Session: is, hash: hash, used: now, ended: make(chan struct{})}
	s.all[hash] = r
	return cookie, r
}

// bound ends the oldest sessions of a sort until there is room for one more.
func (s *sessions) bound(most int, of func(*record) bool) {
	for {
		n, oldest := 0, (*record)(nil)
		for _, r := range s.all {
			if !of(r) {
				continue
			}
			if n++; oldest == nil || r.Began.Before(oldest.Began) {
				oldest = r
			}
		}
		if n < most {
			return
		}
		s.drop(oldest)
	}
}

// find returns the session of a cookie, and notes that it was used.
func (s *sessions) find(cookie string) (*record, bool) {
	hash, ok := parseSecret(cookie)
	if !ok {
		return nil, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, now := s.all[hash], s.now()
	switch {
	case r == nil:
		return nil, false
	case s.over(r, now):
		s.drop(r)
		return nil, false
	}
	r.used = now
	return r, true
}

// session returns the session of a request.
func (w *Wall) session(r *http.Request) (*record, bool) {
	c := r.CookiesNamed(w.cookie)
	if len(c) != 1 { // with two of one name, somebody else set one
		return nil, false
	}
	return w.sessions.find(c[0].Value)
}

// Begin begins a session and sets its cookie. A session that the browser had before ends.
func (w *Wall) Begin(rw http.ResponseWriter, r *http.Request, s Session) Session {
	w.forget(r)
	cookie, rec := w.sessions.add(s)
	http.SetCookie(rw, w.cookieOf(cookie, int(w.config.Limits.Absolute/time.Second)))
	w.config.Logger.Info("session began", "session", rec.ID, "local", s.Local, "key", s.Key, "principal", s.Principal)
	return rec.Session
}

// End ends the session of a request, with its streams, and removes the cookie.
func (w *Wall) End(rw http.ResponseWriter, r *http.Request) {
	w.forget(r)
	http.SetCookie(rw, w.cookieOf("", -1))
	rw.Header().Set("Clear-Site-Data", `"cache", "storage"`)
}

func (w *Wall) forget(r *http.Request) {
	if old, ok := w.session(r); ok {
		w.EndAll(func(s Session) bool { return s.ID == old.ID })
	}
}

// EndAll ends every session that which reports, for example those of a key that is no longer listed.
func (w *Wall) EndAll(which func(Session) bool) {
	w.sessions.mu.Lock()
	defer w.sessions.mu.Unlock()
	for _, r := range w.sessions.all {
		if which(r.Session) {
			w.sessions.drop(r)
			w.config.Logger.Info("session ended", "session", r.ID, "key", r.Key, "principal", r.Principal)
		}
	}
}

func (w *Wall) cookieOf(value string, age int) *http.Cookie {
	return &http.Cookie{Name: w.cookie, Value: value, Path: "/", MaxAge: age, Secure: w.secure, HttpOnly: true,
		SameSite: http.SameSiteStrictMode}
}

// sendToSignIn answers a request without a session.
func (w *Wall) sendToSignIn(rw http.ResponseWriter, r *http.Request) {
	site := r.Header.Get("Sec-Fetch-Site")
	reads := r.Method != http.MethodPost
	switch {
	case reads && (site == "cross-site" || site == "same-site"):
		// The browser held the cookie back, because another page has the link. It sends it when this page goes on.
		goOn(rw)
	case reads && !w.config.Local && w.config.SignIn != "" && r.Header.Get("Sec-Fetch-Mode") != "cors":
		http.Redirect(rw, r, w.config.SignIn+"?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
	default:
		hint := "sign in again"
		if w.config.Local {
			hint = "open the address in the terminal of opsign web: each one opens one session"
			w.wanted()
		}
		w.refuse(rw, r, http.StatusUnauthorized,
			refusal.New(refusal.NotAllowed, "this browser has no session here, or it ended").WithHint("%s", hint))
	}
}

// wanted says that a new token may help.
func (w *Wall) wanted() {
	if w.config.Wanted != nil {
		w.config.Wanted()
	}
}
