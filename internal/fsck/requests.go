package fsck

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"gated/internal/op"
)

// request is a row of requests with the step that it is for.
type request struct {
	step            op.Step
	payload, params []byte
	nonce           string
	needed          int
	issued, expires int64 // Unix nanoseconds; an expiry of 0 is what a restore sets
	signed          int
	roles, facts    []byte
	signers         string // a line each, as the log names them
	approval        approval
	approved        bool
}

// requests checks that a request's payload is for its step and that what was
// approved is what the log says.
func (c *check) requests() error {
	return c.each(`SELECT r.job, r.idx, r.payload, r.nonce, r.needed, r.roles, r.facts, r.issued_at, r.expires_at, s.op, s.kind, s.name,
			s.incarnation, s.fingerprint, s.params, s.state,
			(SELECT count(*) FROM signatures g WHERE g.job = r.job AND g.idx = r.idx),
			(SELECT coalesce(group_concat(principal || ' ' || role || ' ' || key, char(10)), '') FROM signatures g
				WHERE g.job = r.job AND g.idx = r.idx)
		FROM requests r JOIN steps s ON s.job = r.job AND s.idx = r.idx`, func(scan func(...any) error) error {
		var r request
		s := &r.step
		err := scan(&s.ID.Job, &s.ID.Index, &r.payload, &r.nonce, &r.needed, &r.roles, &r.facts, &r.issued, &r.expires, &s.Op, &s.Target.Kind,
			&s.Target.Name, &s.Incarnation, &s.Fingerprint, &r.params, &s.State, &r.signed, &r.signers)
		if err != nil {
			return err
		}
		c.report.Checked["requests"]++
		r.approval, r.approved = c.log.approved[s.ID]
		c.request(r)
		return nil
	})
}

func (c *check) request(r request) {
	step := r.step.ID.String()
	p, err := op.DecodePayload(r.payload)
	if err != nil {
		c.found(ruleSigned, step, "its payload does not decode")
		return
	}
	if !r.names(p) {
		c.found(ruleSigned, step, "its payload is for another step")
	}
	if p.IssuedAt.UnixNano() != r.issued || r.expires != 0 && p.ExpiresAt.UnixNano() != r.expires {
		c.found(ruleSigned, step, "the journal has other times than its payload")
	}
	if r.step.State == op.StatePending && r.expires != 0 && p.Gate != c.log.gate {
		c.found(ruleSigned, step, "it waits, and its payload is for the gate %s, not %s", p.Gate, c.log.gate)
	}
	if !r.demands() {
		c.found(ruleSigned, step, "who has to sign it is not what the catalogue demands")
	}
	var facts []op.Fact
	if json.Unmarshal(r.facts, &facts) != nil {
		c.found(ruleSigned, step, "its facts do not decode")
	}
	if r.approved {
		c.approved(r, step)
	}
}

// names compares a payload with its step. What a create or an undelete brings
// into being gets its incarnation afterwards.
func (r request) names(p op.Payload) bool {
	brought := r.step.State == op.StateSucceeded && (r.step.Op == "guest.create" || r.step.Op == "guest.undelete")
	return p.Nonce == r.nonce && p.Op == r.step.Op && p.Target == r.step.Target && bytes.Equal(p.Params.Canonical(), r.params) &&
		p.State == r.step.Fingerprint && (brought || p.Incarnation == r.step.Incarnation)
}

// demands reports whether somebody has to sign, in roles that the catalogue
// has for the operation.
func (r request) demands() bool {
	spec, err := op.Lookup(r.step.Op)
	var roles []op.Role
	if err != nil || json.Unmarshal(r.roles, &roles) != nil {
		return false
	}
	foreign := slices.ContainsFunc(roles, func(role op.Role) bool { return !spec.MayApprove(role) })
	return r.needed >= 1 && len(roles) > 0 && !foreign
}

func (c *check) approved(r request, step string) {
	if r.approval.payload != op.SHA256(r.payload) {
		c.found(ruleSigned, step, "the log says that another payload was approved")
	}
	if r.signed < r.needed || r.signed == 0 {
		c.found(ruleSigned, step, "it was approved with %d of %d signatures", r.signed, r.needed)
		return
	}
	if digestSigners(strings.Split(r.signers, "\n")) != r.approval.signers {
		c.found(ruleSigned, step, "its signatures are not those that the log names")
	}
}
