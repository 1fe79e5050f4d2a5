package fsck

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

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
	signed          int
	facts           []byte
	signers         string // a line each, as the log names them
	roles           string // of the same: role, flags
	approval        approval
	approved        bool
}

// requests checks that a request's payload is for its step and that what was
// approved is what the log says.
func (c *check) requests() error {
	return c.each(`SELECT r.job, r.idx, r.payload, r.nonce, r.need, r.facts, r.issued_at, r.expires_at, s.op, s.kind, s.name,
			s.incarnation, s.fingerprint, s.params, s.state,
			(SELECT count(*) FROM signatures g WHERE g.job = r.job AND g.idx = r.idx),
			(SELECT coalesce(group_concat(principal || ' ' || role || ' ' || key || iif(ca = '', '', ' ca=' || ca) ||
				iif(flags < 0, '', printf(' flags=0x%02x counter=%d', flags, counter)), char(10)), '') FROM signatures g
				WHERE g.job = r.job AND g.idx = r.idx),
			(SELECT coalesce(group_concat(role || ' ' || flags, char(10)), '') FROM signatures g WHERE g.job = r.job AND g.idx = r.idx)
		FROM requests r JOIN steps s ON s.job = r.job AND s.idx = r.idx`, func(scan func(...any) error) error {
		var r request
		s := &r.step
		err := scan(&s.ID.Job, &s.ID.Index, &r.payload, &r.nonce, &r.need, &r.facts, &r.issued, &r.expires, &s.Op, &s.Target.Kind,
			&s.Target.Name, &s.Incarnation, &s.Fingerprint, &r.params, &s.State, &r.signed, &r.signers, &r.roles)
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
	need, err := journal.DecodeNeed(r.need)
	if err != nil || !demands(r.step.Op, need) {
		c.found(ruleSigned, step, "who has to sign it is not what the catalogue demands")
	} else if asked := c.log.needs[r.step.ID]; journal.EncodeExtra(need) != asked {
		c.found(ruleSigned, step, "what rules ask of it is not what the log says")
	}
	var facts []op.Fact
	if json.Unmarshal(r.facts, &facts) != nil {
		c.found(ruleSigned, step, "its facts do not decode")
	}
	if r.approved {
		c.approved(r, need, step)
	}
}

// names compares a payload with its step. What a create or an undelete brings
// into being gets its incarnation afterwards.
func (r request) names(p op.Payload) bool {
	brought := r.step.State == op.StateSucceeded && (r.step.Op == "guest.create" || r.step.Op == "guest.undelete")
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

// signatures returns what a requirement looks at of the rows of signatures.
func signatures(rows string) []op.Signed {
	var out []op.Signed
	for row := range strings.SplitSeq(rows, "\n") {
		role, flags, _ := strings.Cut(row, " ")
		s := op.Signed{Role: op.Role(role)}
		if n, err := strconv.ParseUint(flags, 10, 8); err == nil {
			s.Attested = &op.Attested{Flags: byte(n)}
		}
		out = append(out, s)
	}
	return out
}

func (c *check) approved(r request, need op.Requirement, step string) {
	if r.approval.payload != op.SHA256(r.payload) {
		c.found(ruleSigned, step, "the log says that another payload was approved")
	}
	if r.signed == 0 || !need.Met(signatures(r.roles)) {
		c.found(ruleSigned, step, "it was approved with %d signatures, and they are not what it needs", r.signed)
		return
	}
	if digestSigners(strings.Split(r.signers, "\n")) != r.approval.signers {
		c.found(ruleSigned, step, "its signatures are not those that the log names")
	}
}
