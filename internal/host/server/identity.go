package server

import (
	"context"
	"errors"
	"net/http"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

// maxToken is the longest token that the server looks up, in bytes. The registry checks the exact length.
const maxToken = 128

// identify returns the requester at this moment: a name can end while its connection stays. With an error it is the
// bare uid. A wrong token is refused, and the process does not count then: otherwise a withdrawn token would still work
// for an agent's descendants.
func (s *Server) identify(r *http.Request) (op.Requester, error) {
	p := peerOf(r.Context())
	by := op.Requester{Source: op.SourceAPI, UID: p.uid, PID: p.pid}
	token, err := agentToken(r.Header)
	if err != nil {
		return by, err
	}
	if p.caller == nil {
		if token != "" {
			err = ownRefusal(refusal.New(refusal.NotAllowed, "this gate knows no tokens").
				WithHint("call without %s", api.TokenHeader))
		}
		return by, err
	}
	agent, err := p.caller.Who(token)
	var refused *refusal.Refusal
	switch {
	case errors.As(err, &refused):
		return by, ownRefusal(err)
	case err != nil:
		return by, err
	}
	by.Agent = agent
	return by, nil
}

// agentToken returns the header's one value, "" if there is none. It is secret: no refusal repeats it.
func agentToken(h http.Header) (string, error) {
	values := h.Values(api.TokenHeader)
	if len(values) == 0 {
		return "", nil
	}
	token := values[0]
	bad := len(values) > 1 || token == "" || len(token) > maxToken
	for i := 0; i < len(token) && !bad; i++ {
		bad = !inToken(token[i])
	}
	if bad {
		return "", errToken()
	}
	return token, nil
}

func errToken() error {
	return ownRefusal(refusal.New(refusal.Malformed, "%s is not one value of 1 to %d characters A-Z a-z 0-9 _ and -",
		api.TokenHeader, maxToken))
}

func inToken(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

type requesterKey struct{}

func withRequester(r *http.Request, by op.Requester) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), requesterKey{}, by))
}

// requesterOf returns the requester, as it was identified last.
func requesterOf(ctx context.Context) op.Requester {
	by, _ := ctx.Value(requesterKey{}).(op.Requester)
	return by
}
