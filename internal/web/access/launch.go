package access

import (
	"crypto/subtle"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/base/refusal"
)

// LaunchPath is where a token becomes a session.
const LaunchPath = "/launch"

// launches are the tokens that were given out and not used. There are at most maxLaunches.
type launches struct {
	now   func() time.Time
	lasts time.Duration

	mu   sync.Mutex
	kept []launch
}

const maxLaunches = 8

type launch struct {
	hash [32]byte
	ends time.Time
}

// NewToken returns a token that opens one local session within Limits.Launch. It belongs into the fragment of the address
// of LaunchPath, which browsers send to nobody.
func (w *Wall) NewToken() string {
	l := w.launches
	secret, hash := newSecret()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, launch{hash, l.now().Add(l.lasts)})
	if len(l.kept) > maxLaunches {
		l.kept = l.kept[1:]
	}
	return secret
}

// TokenWaits reports whether there is a token that still opens a session.
func (w *Wall) TokenWaits() bool {
	l := w.launches
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.kept) > 0 && l.now().Before(l.kept[len(l.kept)-1].ends)
}

// use reports whether a token was given out and not used, and takes it.
func (l *launches) use(token string) bool {
	hash, ok := parseSecret(token)
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, found := l.now(), -1
	for i := range l.kept {
		if subtle.ConstantTimeCompare(l.kept[i].hash[:], hash[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return false
	}
	ends := l.kept[found].ends
	l.kept = append(l.kept[:found:found], l.kept[found+1:]...)
	return now.Before(ends)
}

// isLaunch reports whether a path is LaunchPath or the script of its page, which need no session.
func (w *Wall) isLaunch(path string) bool {
	return w.config.Local && (path == LaunchPath || path == launchScriptPath)
}

// launching answers LaunchPath and the script of its page.
func (w *Wall) launching(rw http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == launchScriptPath:
		rw.Header().Set("Content-Type", "text/javascript; charset=utf-8")
		_, _ = rw.Write(launchScript) // a client that is gone needs no answer
	case r.Method != http.MethodPost:
		w.launch(rw, r)
	default:
		w.exchange(rw, r)
	}
}

// exchange begins a session for a token.
func (w *Wall) exchange(rw http.ResponseWriter, r *http.Request) {
	if err := w.TrySignIn(r); err != nil {
		w.Refuse(rw, r, err)
		return
	}
	token, err := launchToken(r)
	if err != nil {
		w.Refuse(rw, r, err)
		return
	}
	if !w.launches.use(token) {
		w.config.Logger.Warn("a launch token was refused")
		w.wanted()
		w.Refuse(rw, r, refusal.New(refusal.NotAllowed, "this token is not valid: it was used, is older than %s, or is of another launch",
			w.config.Limits.Launch).WithHint("open the newest address in the terminal of opsign web"))
		return
	}
	w.Begin(rw, r, Session{Local: true})
	http.Redirect(rw, r, "/", http.StatusSeeOther)
}

// launchToken reads the token of a JSON object or a form.
func launchToken(r *http.Request) (string, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 4<<10))
	if err != nil {
		return "", refusal.New(refusal.Malformed, "the request broke off")
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return parseLaunch(kind, body)
}

func parseLaunch(kind string, body []byte) (string, error) {
	switch kind {
	case "application/json":
		var in struct {
			Token string `json:"token"`
		}
		if err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true)); err == nil && in.Token != "" {
			return in.Token, nil
		}
	case "application/x-www-form-urlencoded":
		v, err := url.ParseQuery(string(body))
		if err == nil && len(v) == 1 && len(v["token"]) == 1 && v.Get("token") != "" {
			return v.Get("token"), nil
		}
	}
	return "", refusal.New(refusal.Malformed, "the request has no token").WithHint("paste the token that opsign web printed")
}
