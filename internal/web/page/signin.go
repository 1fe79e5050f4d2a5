package page

import (
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/web/access"
	"gated/internal/web/gates"
	"gated/internal/web/passkey"
)

// What a challenge is for. A person reads it in the message, and a trial signature of a new key is no sign-in.
const (
	toSignIn = "sign-in"
	toEnrol  = "enrolment"
)

// signing has the pages that need a passkey.
type signing struct {
	Config
	waiting *challenges
}

// passkeyRoutes adds the pages that need a passkey, and opens those that need no session. On an
// operator's own machine nobody signs in: its sessions begin with a token.
func (c Config) passkeyRoutes(mux *http.ServeMux) {
	s := signing{Config: c, waiting: c.challenges()}
	if !c.Local {
		mux.HandleFunc("GET /sign-in", s.signInPage)
		mux.HandleFunc("POST /sign-in/challenge", s.challengeFor(toSignIn))
		mux.HandleFunc("POST /sign-in", s.signIn)
		c.Wall.Open("/sign-in", "/sign-in/challenge", "/enrol", "/enrol/challenge")
	}
	mux.HandleFunc("POST /sign-out", s.signOut)
	mux.HandleFunc("GET /enrol", s.enrolPage)
	mux.HandleFunc("POST /enrol/challenge", s.challengeFor(toEnrol))
	mux.HandleFunc("POST /enrol", s.enrol)
	mux.HandleFunc("POST /g/{gate}/r/{id}/challenge", s.decisionChallenge)
	mux.HandleFunc("POST /g/{gate}/r/{id}/approve", s.approve)
	mux.HandleFunc("POST /g/{gate}/r/{id}/reject", s.reject)
	mux.HandleFunc("GET /g/{gate}/r/{id}/qr.svg", s.qr)
	mux.HandleFunc("GET /events", s.events)
}

// challengeFor answers with a new challenge for a purpose. Each one counts as a try to
// sign in, because it takes a place in memory.
func (s signing) challengeFor(purpose string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.Wall.TrySignIn(r); err != nil {
			refuse(w, err)
			return
		}
		message, err := s.waiting.add(purpose)
		if err != nil {
			refuse(w, err)
			return
		}
		answer(w, s.ceremony(authz.SignInNamespace, message, false))
	}
}

// signInIn is what the page posts after a signature.
type signInIn struct {
	Message   string         `json:"message"`
	Assertion jsontext.Value `json:"assertion"`
	To        string         `json:"to"`
}

// next is where the browser goes after an answer.
type next struct {
	To    string   `json:"to"`
	State op.State `json:"state"` // of the request that was decided; empty after a sign-in
}

// signIn begins a session of a passkey that a gate lists, or that an open rotation adds.
func (s signing) signIn(w http.ResponseWriter, r *http.Request) {
	var in signInIn
	if err := posted(r, &in); err != nil {
		refuse(w, err)
		return
	}
	message, err := bytes64(in.Message)
	if err == nil {
		err = s.waiting.take(toSignIn, message)
	}
	var a passkey.Assertion
	if err == nil {
		a, err = passkey.DecodeAssertion(in.Assertion)
	}
	if err != nil {
		refuse(w, err)
		return
	}
	who, err := s.find(message, a)
	if err != nil {
		s.Logger.Info("a sign-in was refused", "why", err)
		refuse(w, err)
		return
	}
	if !who.Listed {
		who.Principal = "" // which whoever asked for the rotation made up
	}
	s.Wall.Begin(w, r, access.Session{Key: who.Key, Principal: who.Principal})
	to, ok := access.LocalPath(in.To)
	if !ok {
		to = "/"
	}
	answer(w, next{To: to})
}

// find finds the gate that lists the key of a signature, or at which an open rotation would.
func (s signing) find(message []byte, a passkey.Assertion) (authz.SignedIn, error) {
	refused := error(refusal.New(refusal.UnknownSigner, "this passkey is not listed at any gate of this console").
		WithHint("to have it listed, open %s/enrol; to use another passkey, sign in again", s.Origin))
	for _, g := range s.Gates.All() {
		if g.Trust.Blocked || len(g.Trust.Text) > authz.MaxTrust {
			continue
		}
		adds := addedAt(g)
		key, ok := a.Made(passkey.Listed(g.Trust.Text + "\n" + strings.Join(adds, "\n"))...)
		if !ok {
			continue
		}
		who, err := s.verify(key, a, message, g.Trust.Text, adds)
		switch {
		case err != nil:
			refused = err
		case slices.Contains(g.Trust.Revoked, who.Key):
			refused = refusal.New(refusal.SignerRevoked, "this passkey is revoked").WithHint("sign in with another one")
		default:
			return who, nil
		}
	}
	return authz.SignedIn{}, refused
}

// verify has authz say who made a signature over message for these pages: by a list of
// signers in force, or by one of the lines that rotations would add. It checks the origin,
// too. A gate that refuses synced passkeys says so when one signs there.
func (s signing) verify(key passkey.Key, a passkey.Assertion, message []byte, list string, adds []string) (authz.SignedIn, error) {
	armor, err := a.Armor(key, authz.SignInNamespace, passkey.Challenge(authz.SignInNamespace, message))
	if err != nil {
		return authz.SignedIn{}, err
	}
	trust, err := authz.LoadTrust([]byte(list))
	if err != nil {
		return authz.SignedIn{}, err
	}
	return trust.SignIn(message, armor, op.Passkeys{Origins: []string{s.Origin}, Synced: true}, adds, s.Now())
}

// addedAt returns the lines that open rotations of a gate would add, the oldest first, as many as a list of signers may have. Each
// key is tried at a sign-in, which anybody may try, so a gate that lies must not have a hundred thousand.
func addedAt(g gates.Gate) (lines []string) {
	size := 0
	for _, r := range g.Requests {
		for _, line := range addedLines(r) {
			if size += len(line) + 1; size > authz.MaxTrust {
				return lines
			}
			lines = append(lines, line)
		}
	}
	return lines
}

// signOut ends the session.
func (s signing) signOut(w http.ResponseWriter, r *http.Request) {
	s.Wall.End(w, r)
	http.Redirect(w, r, "/", http.StatusSeeOther) // where the wall says how to begin anew
}
