package page

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/web/passkey"
	"gated/internal/wire/question"
)

// The two decisions, as the page names them.
const (
	approve = "approve"
	reject  = "reject"
)

// decisionIn is what the page asks a challenge for.
type decisionIn struct {
	Decision string  `json:"decision"` // approve or reject
	Role     op.Role `json:"role"`
	Payload  string  `json:"payload_sha256"` // of the payload that the page shows
	Seen     string  `json:"seen"`           // question.Seen of what it shows
	Reason   string  `json:"reason"`         // of a rejection
	Group    string  `json:"group"`          // the key of the group as one of which it was shown; empty: by itself
}

// decidedIn is a signature for an approval or a rejection.
type decidedIn struct {
	Role      op.Role        `json:"role"`
	Payload   string         `json:"payload_sha256"`
	Seen      string         `json:"seen"`
	Group     string         `json:"group"`
	Message   string         `json:"message"` // what was signed, base64url
	Assertion jsontext.Value `json:"assertion"`
}

// open is a request as the gate has it now, with the bytes that an approval signs.
type open struct {
	reached
	question.Question
}

// look asks the gate for a request right before something is signed or relayed. It refuses
// another gate at its address, a request that is decided, and one that is not as the page
// showed it, or not of the group in which it did.
func (s signing) look(r *http.Request, decision, payload, seen, group string) (o open, err error) {
	id := r.PathValue("id")
	if o.reached, err = s.readable(r, id); err != nil {
		return o, err
	}
	if _, err := op.ParseStepID(id); err != nil {
		return o, refusal.New(refusal.UnknownTarget, "%q is no request", id).WithHint("the first page has all that wait")
	}
	if o.status, err = s.Gates.Identify(r.Context(), o.gate.Name); err != nil {
		return o, away(err)
	}
	if o.Question, err = question.Fetch(r.Context(), o.client, o.status, id); err != nil {
		return o, away(err)
	}
	if err := o.check(decision, payload, seen); err != nil {
		return o, err
	}
	return o, ofKind(o.Request, group)
}

// check refuses what a decision would have no use for, or was not shown.
func (o open) check(decision, payload, seen string) error {
	switch {
	case o.Request.State != op.StatePending && !(decision == reject && stoppable(o.Request)):
		return refusal.New(refusal.Conflict, "%s is %s: there is nothing to sign any more", o.Request.ID, o.Request.State).
			WithHint("reload the page to see what became of it")
	case op.SHA256(o.Bytes) != payload || o.Seen() != seen:
		return refusal.New(refusal.StaleTarget, "%s changed after it was shown, and was not signed", o.Request.ID).
			WithHint("reload the page and read it again")
	}
	return nil
}

// decisionChallenge answers with the bytes that a decision signs.
func (s signing) decisionChallenge(w http.ResponseWriter, r *http.Request) {
	var in decisionIn
	if err := posted(r, &in); err != nil {
		refuse(w, err)
		return
	}
	o, err := s.look(r, in.Decision, in.Payload, in.Seen, in.Group)
	if err == nil {
		err = s.mayDecide(o, in)
	}
	message := o.Bytes
	if err == nil && in.Decision == reject {
		message, err = o.Rejection(in.Reason, s.Now())
	}
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, s.ceremony(in.Role.Namespace(), message, asksToVerify(o.Request, []op.Role{in.Role})))
}

// mayDecide refuses what the page would not have offered.
func (s signing) mayDecide(o open, in decisionIn) error {
	d := s.decision(o.session, o.gate, o.Request)
	switch in.Decision {
	case reject:
		if in.Reason == "" {
			return refusal.New(refusal.BadParams, "a rejection needs a reason").WithHint("say why, for the requester")
		}
		if d.RejectRole == "" || in.Role != d.RejectRole {
			return refusal.New(refusal.RoleDenied, "your passkey cannot reject this as %q", in.Role).WithHint("reload the page")
		}
		return nil
	case approve:
		if d.Cannot != "" {
			return refusal.New(refusal.RoleDenied, "%s", d.Cannot).WithHint("opsign show %s says who could sign", o.Request.ID)
		}
		if !slices.Contains(d.Roles, in.Role) {
			return refusal.New(refusal.RoleDenied, "your passkey cannot approve this as %q", in.Role).WithHint("reload the page")
		}
		return nil
	}
	return refusal.New(refusal.Malformed, "a decision is approve or reject").WithHint("reload the page")
}

// approve relays an approval. The bytes are those that the gate has now, so the answer of
// the page says only what it saw.
func (s signing) approve(w http.ResponseWriter, r *http.Request) {
	s.relay(w, r, approve, func(ctx context.Context, o open, in decidedIn, message []byte) ([]byte, send, error) {
		if string(message) != string(o.Bytes) {
			return nil, nil, refusal.New(refusal.StaleTarget, "%s changed after it was shown, and was not approved", o.Request.ID).
				WithHint("reload the page and read it again")
		}
		return o.Bytes, o.client.Approve, nil
	})
}

// reject relays a rejection, which has to be one of this request as it is now.
func (s signing) reject(w http.ResponseWriter, r *http.Request) {
	s.relay(w, r, reject, func(ctx context.Context, o open, in decidedIn, message []byte) ([]byte, send, error) {
		j, err := op.DecodeRejection(message)
		if err != nil {
			return nil, nil, refusal.New(refusal.Malformed, "what was signed is no rejection").WithHint("reload the page and decide again")
		}
		if j.Request.String() != o.Request.ID || j.Gate != o.Request.Gate || j.Host != o.Request.Host || j.PayloadSHA256 != op.SHA256(o.Bytes) {
			return nil, nil, refusal.New(refusal.BindingMismatch, "the rejection that was signed is of another request").
				WithHint("reload the page and decide again")
		}
		return message, o.client.Reject, nil
	})
}

// send hands an envelope to the gate.
type send func(ctx context.Context, id string, e api.Envelope) (api.Request, error)

// relay makes an SSH signature of the page's assertion and sends it with its bytes. The gate
// verifies it, and says no where this did not.
func (s signing) relay(w http.ResponseWriter, r *http.Request, decision string,
	of func(context.Context, open, decidedIn, []byte) ([]byte, send, error)) {
	var in decidedIn
	err := posted(r, &in)
	var message []byte
	if err == nil {
		message, err = bytes64(in.Message)
	}
	var o open
	if err == nil {
		o, err = s.look(r, decision, in.Payload, in.Seen, in.Group)
	}
	var bytes []byte
	var to send
	if err == nil {
		bytes, to, err = of(r.Context(), o, in, message)
	}
	var armor string
	if err == nil {
		armor, err = o.armor(in, bytes)
	}
	var now api.Request
	if err == nil {
		now, err = to(r.Context(), o.Request.ID, api.EnvelopeOf(bytes, armor))
	}
	if err != nil {
		s.Logger.Info("a decision was refused", "gate", o.gate.Name, "request", r.PathValue("id"), "session", o.session.ID, "why", err)
		refuse(w, err)
		return
	}
	s.Logger.Info("a decision was relayed", "gate", o.gate.Name, "request", o.Request.ID, "session", o.session.ID, "key", o.session.Key)
	answer(w, next{"/g/" + url.PathEscape(o.gate.Name) + "/r/" + url.PathEscape(o.Request.ID), now.State})
}

// armor finds the key of a signature and puts it into the form of OpenSSH. A session of a
// passkey relays signatures of this one alone, because the page said what that one may do.
func (o open) armor(in decidedIn, message []byte) (string, error) {
	if !in.Role.Valid() {
		return "", refusal.New(refusal.BadParams, "%q is no role", in.Role).WithHint("reload the page")
	}
	a, err := passkey.DecodeAssertion(in.Assertion)
	if err != nil {
		return "", err
	}
	key, ok := a.Made(known(o.gate, o.Request)...)
	switch {
	case !ok:
		return "", refusal.New(refusal.UnknownSigner, "the passkey that signed is not listed at this gate").
			WithHint("choose another passkey when the browser asks")
	case !o.session.Local && key.Fingerprint() != o.session.Key:
		return "", refusal.New(refusal.UnknownSigner, "the passkey that signed is not the one that signed in").
			WithHint("choose the passkey with which you signed in, or sign out first")
	}
	return a.Armor(key, in.Role.Namespace(), passkey.Challenge(in.Role.Namespace(), message))
}
