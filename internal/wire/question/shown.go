package question

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// View is how a request is shown.
type View struct {
	Now     time.Time // of the machine that shows it
	Dash    string    // stands between the parts of a headline
	Details bool      // also what is signed beside the wish, and facts about other operations
	More    string    // how an operator gets the details; "": opsign show ID --details
}

// Shown is a request in its parts, for a page that lays them out in its own way. A string is one line and safe to print in
// one. Facts and Reasons have the words of others as they are: who prints them makes them safe with cli.Inline.
type Shown struct {
	Headline     string // Verb, Target and Host, and after a dash End
	Verb         string // DESTROY
	Target, Host string
	End          string // CannotUndo, how it can be undone, or how it ended
	Irreversible bool   // it is open, and End is CannotUndo
	ID, Op       string
	State        op.State
	Params       string   // in canonical JSON; empty if there are none or Rotation says them
	Rotation     []string // what a rotation does to the list of signers, a key each
	LostTitle    string   // what Lost is; empty if Lost is
	Lost         []op.Fact
	Labels       string    // of the target
	Others       []op.Fact // about other operations on the target
	AskedBy      string
	Since        string // how long an open one waits; empty if that is not known
	Reasons      []Said
	Why          string // it waits
	Detail       string // the outcome, in words
	Signed       []string
	Needed       []string
	Delays       []string
	Rejections   []string  // of other requests for the same
	Left         string    // how long a signature counts
	Details      []op.Fact // every member of the payload
	Batch        string    // in which roles a batch counts; empty unless it waits
}

// Said is what one requester says of why.
type Said struct {
	By   string // empty: the reason that is signed, and no present requester's
	Text string // empty: none was given
}

// Listed returns a request as a list has it: what the gate says of it, without bytes that anybody could sign. It refuses, as
// Malformed, a request whose target is none.
func Listed(r api.Request) (Question, error) {
	target, err := op.ParseTarget(r.Target)
	return Question{Request: r, Payload: op.Payload{Gate: r.Gate, Host: r.Host, Op: r.Op, Target: target, Params: r.Params,
		Incarnation: r.Incarnation, State: r.StateFingerprint, Reason: r.Reason, IssuedAt: r.IssuedAt, ExpiresAt: r.ExpiresAt}}, err
}

// Shown returns the parts of a request.
func (q Question) Shown(v View) Shown {
	r := q.Request
	own, others := q.ownFacts()
	s := Shown{Headline: q.Headline(v.Dash), Verb: verbOf(q.Payload.Op), Target: cli.Inline(q.Payload.Target.String()),
		Host: cli.Inline(q.Payload.Host), End: q.end(), Irreversible: r.State.Open() && q.Irreversible(), ID: cli.Inline(r.ID),
		Op: cli.Inline(q.Payload.Op), State: r.State, Rotation: Rotation(q.Payload, r.Facts), LostTitle: lostTitle(own, v.Now),
		Lost: own.Facts, Labels: labelsText(r.Labels), Others: others, AskedBy: cli.Requesters(r.RequestedBy, r.Users, ", "),
		Reasons: said(q.Payload.Reason, r), Signed: lines(cli.Signed(r)), Needed: lines(cli.Needed(r)),
		Delays: lines(cli.Delays(r, v.Now)), Rejections: lines(cli.Rejections("", r, v.Details)), Left: left(r, v.Now),
		Details: payloadFacts(q.Payload), Batch: takesBatch(r)}
	if len(q.Payload.Params) > 0 && q.Payload.Op != op.Rotate {
		s.Params = cli.Inline(string(q.Payload.Params.Canonical()))
	}
	if r.State.Open() && !r.CreatedAt.IsZero() {
		s.Since = fmt.Sprintf("%s (%s)", cli.Moment(r.CreatedAt), cli.Span(v.Now.Sub(r.CreatedAt)))
	}
	if r.Why != "" {
		s.Why = cli.Inline(r.Why)
	}
	if r.Detail != "" {
		s.Detail = cli.Inline(r.Detail)
	}
	return s
}

// said returns the requesters' reasons. That which is signed comes first if it is no present requester's.
func said(first string, r api.Request) []Said {
	all := r.Reasons
	if len(all) == 0 {
		return []Said{{By: "the requester", Text: first}}
	}
	var out []Said
	if first != "" && !slices.ContainsFunc(all, func(r api.Reason) bool { return r.Text == first }) {
		out = append(out, Said{Text: first})
	}
	for _, one := range all {
		out = append(out, Said{By: op.Beside(one.By, r.Users), Text: one.Text})
	}
	return out
}

func lines(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
