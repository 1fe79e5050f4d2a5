package fsck

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/audit"
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
	var r request
	var unread error
	s := &r.step
	err := c.rows("", requestRows, []any{&s.ID.Job, &s.ID.Index, &r.payload, &r.nonce, &r.need, &r.facts, &r.labels,
		&r.issued, &r.expires, &r.offline, &r.askedOffline, &s.Op, &s.Target.Kind, &s.Target.Name, &s.Incarnation,
		&s.Fingerprint, &r.params, &s.State, &r.signatureRows, &r.proofRows}, func() {
		next := r
		if unread = cmp.Or(unread, c.trusted(&next)); unread == nil {
			queue.put(next)
		}
	})
	queue.finish()
	return cmp.Or(err, unread)
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

// storedSignature is a row of signatures or of proofs, as the query of requests
// makes JSON of it.
type storedSignature struct {
	Principal string  `json:"principal"`
	Role      op.Role `json:"role"`
	Key       string  `json:"key"`
	CA        string  `json:"ca"`
	Armor     string  `json:"armor"`
	Flags     int64   `json:"flags"` // -1: none were kept
	Counter   int64   `json:"counter"`
}

// signed reads the rows of one request. A number that no security key could
// have said is an error: the gate would read another one.
func signed(rows []byte) ([]op.Signed, error) {
	var stored []storedSignature
	if err := json.Unmarshal(rows, &stored); err != nil {
		return nil, err
	}
	out := make([]op.Signed, len(stored))
	for i, s := range stored {
		out[i] = op.Signed{Principal: s.Principal, Role: s.Role, Key: s.Key, CA: s.CA, Armor: s.Armor}
		switch {
		case s.Flags == -1 && s.Counter == 0:
		case s.Flags < 0 || s.Flags > math.MaxUint8 || s.Counter < 0 || s.Counter > math.MaxUint32:
			return nil, errors.New("flags or counter are out of range")
		default:
			out[i].Attested = &op.Attested{Flags: byte(s.Flags), Counter: uint32(s.Counter)}
		}
	}
	return out, nil
}

// proven begins the words of the log about a proof of possession.
const proven = "proof "

// attestation ends them, in the entry that the proof came with and in no other:
// a proof is stored without what its key said.
var attestation = regexp.MustCompile(` flags=0x[0-9a-f]{2} counter=[0-9]+$`)

// counted returns what the log says that a request has, sorted: the signatures
// that count, and the proofs.
func counted(e audit.Entry) []string {
	words := slices.Clone(e.Signers)
	for _, k := range e.Keys {
		words = append(words, attestation.ReplaceAllString(k, ""))
	}
	slices.Sort(words)
	return slices.Compact(words) // one that signed offline may have proved twice
}

// words returns the same of the journal.
func words(signatures, proofs []op.Signed) []string {
	var out []string
	for _, s := range signatures {
		out = append(out, s.String())
	}
	for _, s := range proofs {
		out = append(out, proven+s.String())
	}
	slices.Sort(out)
	return out
}

// sign follows which signatures a request has. Each entry of one that counted
// names all that count then; the gate takes out what no longer does only to
// count another, and a new payload begins without any.
func (h *history) sign(id op.StepID, e audit.Entry) {
	switch e.Kind {
	case audit.Requested, audit.Reissued:
		delete(h.counted, id)
		if e.Kind == audit.Reissued {
			h.reissued[id] = true
		}
	case audit.Signed:
		h.counted[id] = tally{counted(e), h.now(e)}
	case audit.Uncounted:
		t := h.counted[id]
		t.words = slices.DeleteFunc(t.words, func(s string) bool { return slices.Contains(e.Signers, s) })
		h.counted[id] = t
	case audit.Approved:
		delete(h.counted, id)
		h.approved[id] = approval{e.Payload, digestWords(counted(e)), h.now(e)}
	}
}

func (h *history) now(e audit.Entry) when { return when{h.epoch, e.Time.Unix(), h.since} }

// trusted returns the list of signers that counted a request's signatures, nil
// where the log does not know which.
func (c *check) trusted(r *request) (err error) {
	w := c.log.counted[r.step.ID].when
	if a, ok := c.log.approved[r.step.ID]; ok {
		w = a.when
	}
	if w.epoch == 0 {
		return nil
	}
	r.counted = time.Unix(w.unix, 0)
	if r.list, err = c.listOf(w.epoch); err != nil || w.epoch == 1 || r.counted.Sub(time.Unix(w.since, 0)) > replaceTook {
		return err
	}
	// A decision that was under way when the list was replaced went by the one
	// before; such an approval is refused when its step would run.
	r.before, err = c.listOf(w.epoch - 1)
	return err
}

// listOf returns the list of an epoch, nil where it cannot be read: the rule of
// the lists says so.
func (c *check) listOf(epoch int64) (*authz.Trust, error) {
	list, ok := c.lists[epoch]
	if ok {
		return list, nil
	}
	v, err := journal.ReadTrustOf(c.tx, epoch)
	if err != nil {
		return nil, err
	}
	if list, err = authz.LoadTrust(v.Text); err != nil || v.Epoch != epoch {
		list = nil
	}
	c.lists[epoch] = list
	return list, nil
}

// countTook is how long it may take from the moment for which signatures were
// verified to their entry: what is between is a transaction.
const countTook = time.Minute

// replaceTook is how long after the entry of a new list a decision may come that
// was under way by the one before: the rest of its transaction.
const replaceTook = 5 * time.Second

// listed checks that whoever signed was listed for that role, with that key or by
// that CA, when the signature was counted. Keys that were revoked by then are in
// a file, and not in the database.
func (r *request) listed(s op.Signed) error {
	if r.list == nil {
		return nil
	}
	err := r.list.Still(s, r.counted)
	if err != nil && (r.list.Still(s, r.counted.Add(-countTook)) == nil || r.before != nil && r.before.Still(s, r.counted) == nil) {
		err = nil
	}
	return err
}

// wrong is what is wrong with a request, found beside others.
type wrong struct {
	code Code
	says string
}

func (r *request) bad(code Code, format string, args ...any) {
	r.wrong = append(r.wrong, wrong{code, fmt.Sprintf(format, args...)})
}

// verify reads the stored signatures of a request and verifies each again. It
// touches nothing but the request, so that several may be verified at once.
func (r *request) verify() {
	var err error
	if r.signatures, err = signed(r.signatureRows); err != nil {
		r.bad(signaturesUnreadable, "its signatures do not decode")
	}
	if r.proofs, err = signed(r.proofRows); err != nil {
		r.bad(signaturesUnreadable, "its proofs do not decode")
	}
	for _, s := range r.signatures {
		if err := authz.VerifyStored(r.payload, s); err != nil {
			r.bad(signatureInvalid, "the signature of %s does not verify: %s", op.Shown(s.Principal), op.AsRefusal(err).Detail)
		} else if err := r.listed(s); err != nil {
			r.bad(signerNotListed, "the signature of %s should not have counted: %s", op.Shown(s.Principal), op.AsRefusal(err).Detail)
		}
	}
	for _, s := range r.proofs {
		if err := authz.VerifyStored(r.payload, s); err != nil {
			r.bad(proofInvalid, "the proof by the key %s does not verify: %s", op.Shown(s.Key), op.AsRefusal(err).Detail)
		}
	}
	r.signatureRows, r.proofRows = nil, nil
}
