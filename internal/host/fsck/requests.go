package fsck

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
)

// request is a row of requests with its step.
type request struct {
	step            op.Step
	payload, params []byte
	nonce           string
	need            string
	issued, expires int64 // Unix nanoseconds; a restore sets an expiry of 0
	facts, labels   []byte
	offline         int64 // 1: the row says that an operator's own payload made it
	askedOffline    bool  // a requester of its job came with a payload

	signatureRows, proofRows []byte // JSON
	signatures, proofs       []op.Signed
	list                     *authz.Trust // the list that counted them, or nil
	before                   *authz.Trust // the list just before, or nil
	counted                  time.Time    // when they were counted
	wrong                    []wrong      // what verify found
}

// requestRows reads each request with its signatures and proofs.
const requestRows = `SELECT r.job, r.idx, r.payload, r.nonce, r.need, r.facts, r.labels, r.issued_at, r.expires_at, r.offline,
		EXISTS(SELECT 1 FROM requesters q WHERE q.job = r.job AND q.source IN ('offline', 'hub')),
		s.op, s.kind, s.name, s.incarnation, s.fingerprint, s.params, s.state,
		(SELECT json_group_array(json_object('principal', principal, 'role', role, 'key', key, 'ca', ca, 'armor', armor,
			'flags', flags, 'counter', counter, 'origin', origin, 'batch', hex(batch), 'leaf', leaf, 'path', hex(path))) FROM signatures g WHERE g.job = r.job AND g.idx = r.idx),
		(SELECT json_group_array(json_object('principal', principal, 'role', role, 'key', key, 'ca', '', 'armor', armor,
			'flags', -1, 'counter', 0)) FROM proofs g WHERE g.job = r.job AND g.idx = r.idx)
	FROM requests r JOIN steps s ON s.job = r.job AND s.idx = r.idx`

// requests checks that a request's payload is for its step, and that each of its
// signatures verifies. It compares what was signed and approved with the log.
func (c *check) requests() error {
	queue := inOrder[request]{prepare: (*request).verify, take: c.request}
	var r request
	var unread error
	s := &r.step
	err := c.rows("", requestRows, []any{&s.ID.Job, &s.ID.Index, &r.payload, &r.nonce, &r.need, &r.facts, &r.labels,
		&r.issued, &r.expires, &r.offline, &r.askedOffline, &s.Op, &s.Target.Kind, &s.Target.Name, &s.Incarnation,
		&s.Fingerprint, &r.params, &s.State, &r.signatureRows, &r.proofRows}, func() {
		if c.gone(s.ID.Job) {
			return
		}
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
	if err != nil || !demands(r.step.Op, r.params, need) {
		c.found(needTooLittle, step, "the signatures that it needs are not those that the catalogue demands")
	} else if asked := c.log.needs[r.step.ID]; journal.EncodeExtra(need) != asked {
		c.found(needChanged, step, "what rules ask of it is not what the log says")
	}
	c.shownWith(r, step)
	for _, wrong := range r.wrong {
		c.found(wrong.code, step, "%s", wrong.says)
	}
	c.signed(r, need, step)
}

// endedEarly reports whether a request's expiry is 0 because the gate got another id
// while the request waited: by a restore, or by accepted time.
func (c *check) endedEarly(r request, p op.Payload) bool {
	_, approved := c.log.approved[r.step.ID]
	return r.expires == 0 && p.Gate != c.log.gate && !approved
}

// shownWith checks what people see beside a payload, as far as the log has it. An
// offline request has the requester that brought it, until that requester withdraws,
// and is never issued anew.
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

// names compares a payload with its step. A create or an undelete gets its
// incarnation only afterwards.
func (r request) names(p op.Payload) bool {
	brought := r.step.State == op.StateSucceeded && (r.step.Op == "guest.create" || r.step.Op == "guest.clone" || r.step.Op == "guest.undelete")
	return p.Nonce == r.nonce && p.Op == r.step.Op && p.Target == r.step.Target && bytes.Equal(p.Params.Canonical(), r.params) &&
		p.State == r.step.Fingerprint && (brought || p.Incarnation == r.step.Incarnation)
}

// demands reports whether every way asks for a signature in roles that the catalogue
// has for the operation, or for the one that a drill rehearses.
func demands(name string, params []byte, need op.Requirement) bool {
	spec, err := op.Lookup(name)
	if name == op.Drill {
		var p op.Params
		if p, err = op.ParseParams(params); err == nil {
			spec, _, err = op.Rehearsed(p)
		}
	}
	if err != nil || len(need.Ways) == 0 {
		return false
	}
	for _, w := range need.Ways {
		if w.Name == op.WayBreakGlass {
			// The policy of then says which operations it was for, and no way is for breakglass beside others.
			if spec.Kind == op.KindTrust || spec.Kind == op.KindIncident || !byBreakGlass(w) {
				return false
			}
			continue
		}
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

// byBreakGlass reports whether a way asks for signatures as breakglass alone, and has a delay.
func byBreakGlass(w op.Way) bool {
	return len(w.Demands) > 0 && w.Delay > 0 && !slices.ContainsFunc(w.Demands, func(d op.Demand) bool {
		return d.Threshold < 1 || !slices.Equal(d.Roles, []op.Role{op.BreakGlass})
	})
}

// signed compares the signatures of a request with those in the log.
func (c *check) signed(r request, need op.Requirement, step string) {
	was, approved := c.log.approved[r.step.ID]
	stored := words(r.signatures, r.proofs)
	if !taken(r.step.Op, need, r.signatures) {
		c.found(signaturesNotMet, step, "a signature is over a batch, and the step takes none in that role")
	}
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

// proven begins the log's words about a proof of possession.
const proven = "proof "

// attestation ends these words, only in the entry with which the proof came. A proof
// is stored without what its key attested.
var attestation = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(` flags=0x[0-9a-f]{2} counter=[0-9]+( origin=[^ ]+)?$`)
})

// counted returns the request's counted signatures and proofs in the log, sorted.
func counted(e audit.Entry) []string {
	words := slices.Clone(e.Signers)
	for _, k := range e.Keys {
		words = append(words, attestation().ReplaceAllString(k, ""))
	}
	slices.Sort(words)
	return slices.Compact(words) // an offline signer may have given a proof twice
}

// words returns the same from the journal.
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

// sign follows the signatures of a request. Each entry of a counted signature names
// all that count then. The gate removes old ones only when it counts another. A new
// payload begins without any.
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

// trusted returns the list of signers that counted a request's signatures, nil if
// the log does not say which.
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
	// A decision may have begun before the list was replaced and used the old one.
	// The gate refuses such an approval when its step would run.
	r.before, err = c.listOf(w.epoch - 1)
	return err
}

// listOf returns the list of an epoch. It is nil if the list cannot be read, which
// another rule reports.
func (c *check) listOf(epoch int64) (*authz.Trust, error) {
	list, ok := c.lists[epoch]
	if ok {
		return list, nil
	}
	v, err := journal.ReadTrustOf(c.main, epoch)
	if err != nil {
		return nil, err
	}
	if list, err = authz.LoadTrust(v.Text); err != nil || v.Epoch != epoch {
		list = nil
	}
	c.lists[epoch] = list
	return list, nil
}

// countTook is the longest time from the moment of a signature's verification to its
// entry. Between the two is one transaction.
const countTook = time.Minute

// replaceTook is how long after a new list's entry a decision by the old list may
// come: the rest of its transaction.
const replaceTook = 5 * time.Second

// listed checks that the signer was listed for the role, with that key or by that
// CA, when the signature was counted. It cannot check revoked keys, because they are
// in a file and not in the database.
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

// wrong is a problem of a request, found in parallel with others.
type wrong struct {
	code Code
	says string
}

func (r *request) bad(code Code, format string, args ...any) {
	r.wrong = append(r.wrong, wrong{code, fmt.Sprintf(format, args...)})
}

// verify reads a request's stored signatures and verifies each again. It changes
// only the request, so several requests may be verified at once.
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
			r.bad(signatureInvalid, "the signature of %s does not verify: %s", op.Shown(s.Principal), refusal.As(err).Detail)
		} else if err := r.listed(s); err != nil {
			r.bad(signerNotListed, "the signature of %s should not have counted: %s", op.Shown(s.Principal),
				refusal.As(err).Detail)
		}
	}
	for _, s := range r.proofs {
		if err := authz.VerifyStored(r.payload, s); err != nil {
			r.bad(proofInvalid, "the proof by the key %s does not verify: %s", op.Shown(s.Key), refusal.As(err).Detail)
		}
	}
	r.signatureRows, r.proofRows = nil, nil
}

// keptFor is how long, at least, a spent nonce is kept after its payload expired. It
// is the gate's margin, less one second because the time mark is coarser than the
// clock.
const keptFor = time.Hour - time.Second

// nonces checks that exactly the decided requests have spent their nonce, and that
// every payload which could be replayed has its nonce.
func (c *check) nonces() error {
	var mark int64
	err := c.rows("", `SELECT unix FROM time_mark`, []any{&mark}, func() {})
	if err != nil {
		return err
	}
	if time.Unix(mark, 0).Before(c.log.trusted.Add(-maxAhead)) {
		c.found(timeMarkBehind, "time mark", "the log has an entry of %s, and the time mark is behind that", c.log.trusted.Format(time.RFC3339))
	}
	var n spending
	err = c.rows("nonces", `SELECT r.job, r.idx, s.state, r.payload, coalesce(n.fate, ''), coalesce(n.payload, ''),
			coalesce(n.expires_at, 0), n.nonce IS NULL, coalesce(n.job = r.job AND n.idx = r.idx, 1)
		FROM requests r JOIN steps s ON s.job = r.job AND s.idx = r.idx LEFT JOIN nonces n ON n.nonce = r.nonce`,
		[]any{&n.id.Job, &n.id.Index, &n.state, &n.payload, &n.fate, &n.digest, &n.expires, &n.gone, &n.own}, func() {
			if !c.gone(n.id.Job) {
				c.nonce(n, time.Unix(mark, 0))
			}
		})
	if err != nil {
		return err
	}
	if err = c.strays(); err != nil {
		return err
	}
	var id op.StepID
	var fate string
	return c.rows("", `SELECT job, idx, fate FROM nonces
		WHERE fate NOT IN ('', 'used', 'rejected', 'cancelled', 'superseded', 'expired')`,
		[]any{&id.Job, &id.Index, &fate}, func() {
			c.found(nonceFate, id.String(), "a nonce was spent on %q, which is nothing", op.Shown(fate))
		})
}

// strays finds nonces without a request: an unspent one that is not its request's,
// and one that approved and has no request. A rejection's own nonce has no request,
// and it is spent at once.
func (c *check) strays() error {
	var id op.StepID
	var fate string
	return c.rows("", `SELECT n.job, n.idx, n.fate FROM nonces n WHERE (n.fate IN ('', 'used') AND n.job <> 0
			AND NOT EXISTS (SELECT 1 FROM requests r JOIN steps s ON s.job = r.job AND s.idx = r.idx
				WHERE r.job = n.job AND r.idx = n.idx AND r.nonce = n.nonce))
			OR (n.job = 0 AND (n.idx <> 0 OR n.fate <> 'used'))`, []any{&id.Job, &id.Index, &fate}, func() {
		c.found(nonceStray, id.String(), "a nonce that is not its request's is %s", spentOr(fate))
	})
}

func spentOr(fate string) string {
	if fate == "" {
		return "not spent"
	}
	return "spent (" + op.Shown(fate) + ")"
}

// spending is how a request's nonce was spent.
type spending struct {
	id      op.StepID
	state   op.State
	payload []byte // the request's
	fate    string
	digest  string // of the payload that the nonce was issued for
	expires int64  // Unix seconds
	gone    bool   // the nonce does not exist
	own     bool   // the nonce is this request's
}

func (c *check) nonce(n spending, mark time.Time) {
	where := n.id.String()
	p, err := op.DecodePayload(n.payload)
	if err != nil {
		return // the check of requests reports it
	}
	_, approved := c.log.approved[n.id]
	switch {
	case n.gone && n.state == op.StatePending:
		c.found(nonceMissing, where, "it waits for a signature, but its nonce is not known")
	case n.gone && p.Gate == c.log.gate && !mark.After(p.ExpiresAt.Add(keptFor)):
		c.found(nonceForgotten, where, "its nonce is forgotten, and its payload could be replayed")
	case n.gone:
	case !n.own || n.digest != op.SHA256(n.payload) || n.expires != p.ExpiresAt.Unix():
		c.found(nonceForeign, where, "its nonce was issued for something else")
	case n.state == op.StatePending && n.fate != "":
		c.found(nonceSpentEarly, where, "it waits for a signature, but its nonce is spent (%s)", n.fate)
	case n.state != op.StatePending && n.fate == "":
		c.found(nonceUnspent, where, "it is %s, but its nonce is not spent", n.state)
	case approved != (n.fate == "used"):
		c.found(nonceFate, where, "the log and its nonce (%s) disagree on whether it was approved", shown(op.State(n.fate)))
	case !approved && n.state != op.StatePending && n.fate != fateAt(n.state):
		c.found(nonceFate, where, "it is %s, and its nonce was spent as %s", n.state, n.fate)
	}
}

// fateAt returns the fate that a waiting request's nonce has after its step got into
// that state.
func fateAt(s op.State) string {
	for _, t := range op.Transitions {
		if t.To == s && t.Allows(op.StatePending) {
			return t.Nonce
		}
	}
	return ""
}
