package fsck

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/authz"
	"gated/internal/journal"
	"gated/internal/op"
)

// request is a row of requests with the step that it is for.
type request struct {
	step            op.Step
	payload, params []byte
	nonce           string
	need            string
	issued, expires int64 // Unix nanoseconds; an expiry of 0 is what a restore sets
	facts, labels   []byte
	offline         int64 // 1: it says that an operator's own payload made it
	askedOffline    bool  // one of its job's requesters came so

	signatureRows, proofRows []byte // JSON
	signatures, proofs       []op.Signed
	list                     *authz.Trust // that counted them, or nil
	before                   *authz.Trust // the one in force just before, or nil
	counted                  time.Time    // when
	wrong                    []wrong      // what verify found
}

// requestRows reads the rows of a request's signatures and proofs with it.
const requestRows = `SELECT r.job, r.idx, r.payload, r.nonce, r.need, r.facts, r.labels, r.issued_at, r.expires_at, r.offline,
		EXISTS(SELECT 1 FROM requesters q WHERE q.job = r.job AND q.source IN ('offline', 'hub')),
		s.op, s.kind, s.name, s.incarnation, s.fingerprint, s.params, s.state,
		(SELECT json_group_array(json_object('principal', principal, 'role', role, 'key', key, 'ca', ca, 'armor', armor,
			'flags', flags, 'counter', counter)) FROM signatures g WHERE g.job = r.job AND g.idx = r.idx),
		(SELECT json_group_array(json_object('principal', principal, 'role', role, 'key', key, 'ca', '', 'armor', armor,
			'flags', -1, 'counter', 0)) FROM proofs g WHERE g.job = r.job AND g.idx = r.idx)
	FROM requests r JOIN steps s ON s.job = r.job AND s.idx = r.idx`

// requests checks that a request's payload is for its step, that each of its
// signatures verifies, and that what was signed and approved is what the log
// says.
func (c *check) requests() error {
	queue := inOrder[request]{prepare: (*request).verify, take: c.request}
	err := c.each(requestRows, func(scan func(...any) error) error {
		var r request
		s := &r.step
		err := scan(&s.ID.Job, &s.ID.Index, &r.payload, &r.nonce, &r.need, &r.facts, &r.labels, &r.issued, &r.expires, &r.offline,
			&r.askedOffline, &s.Op, &s.Target.Kind, &s.Target.Name, &s.Incarnation, &s.Fingerprint, &r.params, &s.State,
			&r.signatureRows, &r.proofRows)
		if err == nil {
			err = c.trusted(&r)
		}
		if err == nil {
			queue.put(r)
		}
		return err
	})
	queue.finish()
	return err
}

func (c *check) request(r request) {
	step := r.step.ID.String()
	c.report.Checked["requests"]++
	c.report.Checked["signatures"] += int64(len(r.signatures) + len(r.proofs))
	p, err := op.DecodePayload(r.payload)
	if err != nil {
		c.found(payloadUnreadable, step, "its payload does not decode")
		return
	}
	if !r.names(p) {
		c.found(payloadOtherStep, step, "its payload is for another step")
	}
	if p.IssuedAt.UnixNano() != r.issued || p.ExpiresAt.UnixNano() != r.expires && !c.endedEarly(r, p) {
		c.found(payloadTimes, step, "the journal has other times than its payload")
	}
	if r.step.State == op.StatePending && r.expires != 0 && p.Gate != c.log.gate {
		c.found(payloadOtherGate, step, "it waits, and its payload is for the gate %s, not %s", p.Gate, c.log.gate)
	}
	if c.host != "" && p.Gate == c.log.gate && p.Host != c.host {
		c.found(payloadOtherHost, step, "its payload is for the host %q, not %q", op.Shown(p.Host), op.Shown(c.host))
	}
	need, err := journal.DecodeNeed(r.need)
	if err != nil || !demands(r.step.Op, need) {
		c.found(needTooLittle, step, "who has to sign it is not what the catalogue demands")
	} else if asked := c.log.needs[r.step.ID]; journal.EncodeExtra(need) != asked {
		c.found(needChanged, step, "what rules ask of it is not what the log says")
	}
	c.shownWith(r, step)
	for _, wrong := range r.wrong {
		c.found(wrong.code, step, "%s", wrong.says)
	}
	c.signed(r, need, step)
}

// endedEarly reports whether the time of a request is 0 because the gate got
// another id while the request waited: a restore, or time that was accepted.
func (c *check) endedEarly(r request, p op.Payload) bool {
	_, approved := c.log.approved[r.step.ID]
	return r.expires == 0 && p.Gate != c.log.gate && !approved
}

// shownWith checks what people see beside a payload, as far as the log tells of
// it. One that came offline has the requester who brought it, until that one
// withdraws, and is never issued anew.
func (c *check) shownWith(r request, step string) {
	var facts []op.Fact
	if json.Unmarshal(r.facts, &facts) != nil {
		c.found(shownUnreadable, step, "its facts do not decode")
	}
	var labels map[string]string
	if json.Unmarshal(r.labels, &labels) != nil {
		c.found(shownUnreadable, step, "its labels do not decode")
	}
	said := c.log.issued[r.step.ID]
	if _, approved := c.log.approved[r.step.ID]; !approved && said.payload != (issue{}).payload && said.payload != sha256.Sum256(r.payload) {
		c.found(payloadNotIssued, step, "its payload is not the one that the log says was issued")
	}
	if said.shown != (issue{}).shown && said.shown != digestOf(journal.DigestShown(r.facts, r.labels)) {
		c.found(shownChanged, step, "its facts or labels are not those that the log says were shown")
	}
	offline := r.offline == 1
	if r.offline&^1 != 0 || offline != r.askedOffline && !(offline && c.log.withdrawn[r.step.ID.Job]) {
		c.found(offlineChanged, step, "whether an operator's own payload made it is not what its requesters say")
	}
	if offline && c.log.reissued[r.step.ID] {
		c.found(offlineReissued, step, "the log says that it was issued anew, which an operator's own payload never is")
	}
}

// names compares a payload with its step. What a create or an undelete brings
// into being gets its incarnation afterwards.
func (r request) names(p op.Payload) bool {
	brought := r.step.State == op.StateSucceeded && (r.step.Op == "guest.create" || r.step.Op == "guest.clone" || r.step.Op == "guest.undelete")
	return p.Nonce == r.nonce && p.Op == r.step.Op && p.Target == r.step.Target && bytes.Equal(p.Params.Canonical(), r.params) &&
		p.State == r.step.Fingerprint && (brought || p.Incarnation == r.step.Incarnation)
}

// demands reports whether every way asks for somebody's signature in roles that
// the catalogue has for the operation.
func demands(name string, need op.Requirement) bool {
	spec, err := op.Lookup(name)
	if err != nil || len(need.Ways) == 0 {
		return false
	}
	for _, w := range need.Ways {
		asks := slices.ContainsFunc(w.Demands, func(d op.Demand) bool {
			foreign := slices.ContainsFunc(d.Roles, func(role op.Role) bool { return !spec.MayApprove(role) })
			return d.Threshold >= 1 && len(d.Roles) > 0 && !foreign
		})
		if !asks {
			return false
		}
	}
	return true
}

// signed compares the signatures of a request with those that the log names.
func (c *check) signed(r request, need op.Requirement, step string) {
	was, approved := c.log.approved[r.step.ID]
	stored := words(r.signatures, r.proofs)
	switch {
	case !approved && !slices.Equal(stored, c.log.counted[r.step.ID].words):
		c.found(signaturesUncounted, step, "its signatures are not those that count by the log")
	case !approved:
	case was.payload != op.SHA256(r.payload):
		c.found(payloadNotApproved, step, "the log says that another payload was approved")
	case len(r.signatures) == 0 || !need.Met(r.signatures):
		c.found(signaturesNotMet, step, "it was approved with %d signatures, and they are not what it needs", len(r.signatures))
	case digestWords(stored) != was.signers:
		c.found(signaturesOther, step, "its signatures are not those that the log names")
	}
}
