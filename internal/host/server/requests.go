package server

import (
	"fmt"
	"net/http"
	"os/user"
	"strings"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/wire/convert"
)

func (s *Server) requests(c *call) (answer, error) {
	q := gate.RequestFilter{Bytes: pageBytes}
	var err error
	if q.State, err = c.state(); err != nil {
		return answer{}, err
	}
	if q.Limit, err = c.limit(requestsMax); err != nil {
		return answer{}, err
	}
	if text := c.query.Get("after"); c.query.Has("after") {
		if q.After, err = op.ParseStepID(text); err != nil {
			return answer{}, ownRefusal(err)
		}
	}
	rs, err := s.Gate.RequestPage(c.ctx, q)
	if err != nil {
		return answer{}, err
	}
	out := api.RequestList{}
	for _, r := range rs {
		w, err := wireRequest(r)
		if err != nil {
			return answer{}, err
		}
		out.Requests = append(out.Requests, w)
	}
	if len(rs) > 0 && (len(rs) == q.Limit || weightOf(rs) >= q.Bytes) {
		last := rs[len(rs)-1].ID.String()
		out.Next = &last
	}
	return ok(out), nil
}

func (s *Server) request(c *call) (answer, error) {
	id, err := c.requestID()
	if err != nil {
		return answer{}, err
	}
	r, err := s.Gate.Shown(c.ctx, id)
	if err != nil {
		return answer{}, err
	}
	w, err := wireRequest(r)
	w.Users = users(r.Requesters)
	return ok(w), err
}

// payload answers with the exact bytes to sign, which are JSON. It tells the gate that an operator reads them, so that
// the gate keeps this payload until the signature comes.
func (s *Server) payload(c *call) (answer, error) {
	id, err := c.requestID()
	if err != nil {
		return answer{}, err
	}
	if s.operator(c.by) && c.by.Agent == "" {
		if err := s.Gate.ShowPayload(c.ctx, id); err != nil {
			s.Logger.Warn("benign steps do not wait for operators who read a request", "request", id.String(), "error", err)
		}
	}
	r, err := s.Gate.Request(c.ctx, id)
	return answer{status: http.StatusOK, raw: r.Payload, kind: api.ContentType}, err
}

func (s *Server) approve(c *call) (answer, error) {
	id, e, err := c.envelope(convert.Envelope)
	if err != nil {
		return answer{}, err
	}
	r, err := s.Gate.Approve(c.ctx, c.by, id, e)
	return decided(r, err)
}

func (s *Server) reject(c *call) (answer, error) {
	id, e, err := c.envelope(plain)
	if err != nil {
		return answer{}, err
	}
	r, err := s.Gate.Reject(c.ctx, c.by, id, e)
	return decided(r, err)
}

// approveOffline takes an operation that was signed before the gate issued a payload.
func (s *Server) approveOffline(c *call) (answer, error) {
	e, err := openEnvelope(c.body, plain)
	if err != nil {
		return answer{}, err
	}
	r, err := s.Gate.ApproveOffline(c.ctx, c.by, e)
	return decided(r, err)
}

// users returns what this host calls the users who ask, by what they are in requested_by. A user of another member is left out,
// because its uid is another user here.
func users(rs []op.Requester) map[string]string {
	out := map[string]string{}
	for _, r := range rs {
		text, isUID := strings.CutPrefix(r.String(), "uid:")
		if u, err := user.LookupId(text); err == nil && isUID && r.Account().Member == "" {
			out[r.String()] = u.Username
		}
	}
	return out
}

// decided answers with 202 while signatures are missing, else with 200.
func decided(r op.Request, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	a := answer{status: http.StatusOK}
	if r.Step.State == op.StatePending {
		a.status = http.StatusAccepted
	}
	a.value, err = wireRequest(r)
	return a, err
}

// requestID reads the id in the path.
func (c *call) requestID() (op.RequestID, error) {
	id, err := op.ParseStepID(c.r.PathValue("id"))
	if err != nil {
		return id, ownRefusal(err)
	}
	return id, nil
}

// opener opens an envelope: convert.Envelope, or plain.
type opener func(api.Envelope) ([]byte, *op.Inclusion, error)

// plain opens an envelope that may have no batch.
func plain(e api.Envelope) ([]byte, *op.Inclusion, error) {
	payload, err := e.Open()
	return payload, nil, err
}

// envelope reads the path's request id and the body.
func (c *call) envelope(open opener) (op.RequestID, authz.Envelope, error) {
	id, err := c.requestID()
	if err != nil {
		return id, authz.Envelope{}, err
	}
	e, err := openEnvelope(c.body, open)
	return id, e, err
}

func openEnvelope(body []byte, open opener) (authz.Envelope, error) {
	var in api.Envelope
	_, err := api.Weigh(body)
	if err == nil {
		err = api.DecodeWeighed(body, &in)
	}
	if err != nil {
		return authz.Envelope{}, ownRefusal(refusal.As(err).At(refusal.StageDecode))
	}
	payload, batch, err := open(in)
	if err != nil {
		return authz.Envelope{}, ownRefusal(err)
	}
	return authz.Envelope{Payload: payload, Signatures: in.Signatures, Batch: batch}, nil
}

// wireRequest converts a request for the wire. If its payload does not decode, the fault is the gate's, not the
// caller's.
func wireRequest(r op.Request) (api.Request, error) {
	w, err := convert.RequestOf(r)
	if err != nil {
		return api.Request{}, fmt.Errorf("the stored payload of %s: %s", r.ID, err)
	}
	return w, nil
}
