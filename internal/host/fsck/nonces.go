package fsck

import (
	"time"

	"gated/internal/base/op"
)

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
			c.nonce(n, time.Unix(mark, 0))
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
