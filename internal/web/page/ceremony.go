package page

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/web/passkey"
)

// maxChallenges is how many challenges wait for an answer at most, and challengeLasts how
// long one does.
const (
	maxChallenges  = 1024
	challengeLasts = 2 * time.Minute
)

// ceremony is what the page's module gives to the browser's WebAuthn calls.
type ceremony struct {
	Challenge        string `json:"challenge"` // base64url
	RPID             string `json:"rpId"`
	UserVerification string `json:"userVerification"`
	Message          string `json:"message"` // what is signed, base64url; sent back with the answer
}

func (c Config) ceremony(namespace string, message []byte, verify bool) ceremony {
	out := ceremony{Challenge: text64(passkey.Challenge(namespace, message)), RPID: c.RPID, UserVerification: "preferred",
		Message: text64(message)}
	if verify {
		out.UserVerification = "required"
	}
	return out
}

func text64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// bytes64 reads base64url in its one form.
func bytes64(text string) ([]byte, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || text64(b) != text {
		return nil, refusal.New(refusal.Malformed, "what was signed is not base64url without padding").WithHint("reload the page")
	}
	return b, nil
}

// challenges are the messages that wait for one signature each. Nothing else is kept of a
// sign-in or an enrolment.
type challenges struct {
	origin string
	now    func() time.Time

	mu   sync.Mutex
	wait map[string]time.Time // message to its end
}

func (c Config) challenges() *challenges {
	return &challenges{origin: c.Origin, now: c.Now, wait: map[string]time.Time{}}
}

// add returns a new message that names what it is for, the origin, a time and 256 random
// bits. OverLimit: too many wait.
func (s *challenges) add(purpose string) ([]byte, error) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // it never fails (crypto/rand)
	now := s.now()
	message := fmt.Sprintf("%sorigin: %s\ntime: %s\nrandom: %s\n", head(purpose), s.origin,
		now.UTC().Format(time.RFC3339), text64(random[:]))
	s.mu.Lock()
	defer s.mu.Unlock()
	for m, ends := range s.wait {
		if !now.Before(ends) {
			delete(s.wait, m)
		}
	}
	if len(s.wait) >= maxChallenges {
		return nil, refusal.New(refusal.OverLimit, "too many browsers sign in at the same time").WithHint("try again in two minutes")
	}
	s.wait[message] = now.Add(challengeLasts)
	return []byte(message), nil
}

// head is the first line of a message.
func head(purpose string) string { return "gated: " + purpose + "\n" }

// take reports whether a message waits for that purpose, and ends that: each one is signed once.
func (s *challenges) take(purpose string, message []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	ends, ok := s.wait[string(message)]
	delete(s.wait, string(message))
	if !ok || !s.now().Before(ends) || !strings.HasPrefix(string(message), head(purpose)) {
		return refusal.New(refusal.Expired, "this challenge was used, or is older than %s", challengeLasts).
			WithHint("press the button again")
	}
	return nil
}

// maxPosted is the longest body that the module posts: an assertion, and a payload or a
// rejection in base64url.
const maxPosted = passkey.MaxAssertion + 2*op.MaxPayload

// posted reads the one JSON object that the page's module sends.
func posted(r *http.Request, into any) error {
	b, err := io.ReadAll(io.LimitReader(r.Body, maxPosted+1))
	switch {
	case err != nil:
		return refusal.New(refusal.Malformed, "the request broke off").WithHint("try again")
	case len(b) > maxPosted:
		return refusal.New(refusal.Oversized, "the request has more than %d bytes", maxPosted).WithHint("reload the page")
	}
	return decodePosted(b, into)
}

func decodePosted(b []byte, into any) error {
	if err := api.DecodeBody(b, into); err != nil {
		return refusal.New(refusal.Malformed, "the request is not what this page sends").WithHint("reload the page")
	}
	return nil
}

// answer writes a JSON object for the page's module.
func answer(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		refuse(w, err)
		return
	}
	w.Header().Set("Content-Type", api.ContentType)
	_, _ = w.Write(b) // a client that is gone needs no answer
}

// refuse writes a refusal for the page's module, which shows sentence and hint.
func refuse(w http.ResponseWriter, why error) {
	p := api.ProblemOf(why)
	if p.Hint == "" {
		p.Hint = api.HintOf(p.Code) // as on a command line
	}
	b, err := json.Marshal(p)
	if err != nil {
		http.Error(w, "internal", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", api.ProblemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(b) // a client that is gone needs no answer
}
