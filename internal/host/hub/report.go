package hub

import (
	"bytes"
	"context"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/checkpoint"
	"gated/internal/reconcile"
)

const (
	// maxGuests, maxReported and maxRequests bound what a report lists.
	maxGuests   = 500
	maxReported = 500
	maxRequests = 500
	// reportLast is the longest time between two attempts if the hub does not take a report.
	reportLast = 10 * time.Minute
)

// reports is the state of reporting between rounds.
type reports struct {
	seq  int64
	said []byte // the content of the last attempt, without its number and time
	sent bool   // the hub took it
	at   time.Time
	wait time.Duration // after a failure, before the next attempt
	due  time.Time
	err  error
}

// report tells the hub this gate's state, if it differs from the last report that the hub took, or if that is long ago.
func (l *Link) report(ctx context.Context) {
	p, now := &l.reports, l.Now()
	if now.Before(p.due) && p.due.Sub(now) <= reportLast { // otherwise the clock was set back
		return
	}
	r, err := l.compose(ctx)
	if err != nil {
		l.Logger.Error("no report could be made", "error", err)
		return
	}
	content, err := api.Encode(r)
	if err != nil {
		l.Logger.Error("no report could be made", "error", err)
		return
	}
	same := bytes.Equal(content, p.said)
	if since := now.Sub(p.at); same && p.sent && since >= 0 && since < l.Config.Report {
		return
	}
	if !same {
		p.seq, p.said, p.sent = p.seq+1, content, false
	}
	r.Seq, r.At = p.seq, now.UTC()
	body, err := api.Encode(r)
	var a answer
	if err == nil {
		a, err = l.hub.post(ctx, Path(l.Host, PathReport), body)
	}
	if ctx.Err() == nil {
		l.reported(now, a.none, err)
	}
}

// reported records an attempt. If the hub has no place for reports, the next one is sent when it is due, not earlier.
func (l *Link) reported(now time.Time, unwanted bool, err error) {
	p := &l.reports
	before := p.err
	l.says("reporting to the hub", before, err)
	p.err = err
	if err == nil {
		p.sent, p.at, p.wait, p.due = true, now, 0, time.Time{}
	} else {
		p.wait = min(max(2*p.wait, l.Interval), reportLast)
		p.due = now.Add(Jitter(p.wait, l.Random()) * 4 / 5)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.ReportSince = since(l.status.ReportSince, before, err, now)
	l.status.ReportErr, l.status.ReportDue = err, p.due
	if err == nil && !unwanted {
		l.status.ReportedAt = now
	}
}

// compose makes a report without its number and time, so that two reports of the same state are equal.
func (l *Link) compose(ctx context.Context) (Report, error) {
	s := l.Status()
	r := Report{Host: l.Host, Gate: l.ID, Version: l.Version, StartedAt: l.StartedAt.UTC(), Revision: s.Revision, Sets: []SetReport{}, Guests: []GuestReport{},
		Requests: []api.FleetRequest{}}
	if s.Err != nil {
		refused := refusal.As(s.Err)
		r.Error = &api.Error{Code: refused.Code, Detail: clip(refused.Detail)}
	}
	waits := map[op.Target]bool{}
	of := map[string]op.Request{} // by set and target; with id and time alone
	err := l.Gate.EachRequest(ctx, op.StatePending, func(q op.Request) error {
		if len(r.Requests) < maxRequests {
			r.Requests = append(r.Requests, fleetRequest(q))
		} else {
			r.RequestsLeftOut++
		}
		for _, by := range q.Requesters {
			if by.Source == op.SourceDesired {
				waits[q.Step.Target] = true
				of[by.Set+" "+q.Step.Target.String()] = op.Request{ID: q.ID, CreatedAt: q.CreatedAt}
			}
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	sets, unmet, left := l.Standing(waits, maxGuests)
	for _, s := range sets {
		r.Sets = append(r.Sets, setReport(s))
	}
	for _, w := range unmet {
		g := GuestReport{Set: w.Set, Name: w.Target.Name, State: w.State, Why: clip(w.Why)}
		if q, ok := of[w.Set+" "+w.Target.String()]; ok {
			at := q.CreatedAt.UTC()
			g.Request, g.Since = q.ID.String(), &at
		}
		r.Guests = append(r.Guests, g)
	}
	r.GuestsLeftOut = left
	r.Operations, r.OpsLeftOut = l.operations(ctx, maxReported)
	return r, nil
}

func fleetRequest(q op.Request) api.FleetRequest {
	by := make([]string, len(q.Requesters))
	for i, r := range q.Requesters {
		by[i] = r.String()
	}
	return api.FleetRequest{Request: q.ID.String(), Op: q.Step.Op, Target: q.Step.Target.String(), Reason: clip(q.Reason),
		RequestedBy: clip(strings.Join(by, ",")), CreatedAt: q.CreatedAt.UTC(), ExpiresAt: q.ExpiresAt.UTC(), Missing: q.Missing(),
		PayloadSHA256: op.SHA256(q.Payload)}
}

func setReport(s reconcile.SetStanding) SetReport {
	return SetReport{Name: s.Set, Guests: s.Guests, Converged: s.Counts[reconcile.WishConverged], Waiting: s.Counts[reconcile.WishWaiting],
		Stopped: s.Counts[reconcile.WishStopped], Unknown: s.Counts[reconcile.WishUnknown],
		Conflicting: s.Counts[reconcile.WishConflicting], Working: s.Counts[reconcile.WishWorking]}
}

// limits are the most members or elements at a place: "/a" is the value of member a, "/a/*" all objects of the list
// there together. A value at any other place is skipped.
type limits map[string]int

// maxMembers bounds the members of the outermost object. Every known document has fewer.
const maxMembers = 64

var (
	desiredLimits    = limits{"": maxMembers, "/sets": MaxSets}
	operationsLimits = limits{"": maxMembers, "/operations": MaxOperations, "/operations/*": 8 * MaxOperations,
		"/operations/*/signatures": op.MaxSignatures * MaxOperations}
	reportLimits = limits{"": maxMembers, "/sets": MaxSets, "/guests": maxGuests, "/operations": maxReported,
		"/requests": maxRequests}
	headLimits = limits{"": maxMembers, "/proof": checkpoint.MaxProof}
)

// check counts before a document is decoded, and refuses too many members or elements as Oversized: an element takes
// two bytes of JSON, but a hundred of memory. It leaves a broken document to the decoder. The decoder stops at the
// break at the latest, so the document needs no count beyond it.
func (l limits) check(b []byte) error {
	c := counter{limits: l, seen: make(map[string]int, len(l)),
		tokens: jsontext.NewDecoder(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	c.value("")
	if !c.over {
		return nil
	}
	what := c.at[strings.LastIndexByte(c.at, '/')+1:]
	if what == "" || what == "*" {
		what = "members"
	}
	return refusal.New(refusal.Oversized, "there are more than %d %s", l[c.at], what)
}

type counter struct {
	limits
	tokens *jsontext.Decoder
	seen   map[string]int
	over   bool
	at     string // the place with too much
}

// value counts the next value, and reports whether there is more to count.
func (c *counter) value(at string) bool {
	kind := c.tokens.PeekKind()
	if _, counts := c.limits[at]; !counts || kind != '{' && kind != '[' {
		return c.tokens.SkipValue() == nil
	}
	if _, err := c.tokens.ReadToken(); err != nil {
		return false
	}
	in := at + "/*"
	for next := c.tokens.PeekKind(); next != '}' && next != ']'; next = c.tokens.PeekKind() {
		if c.seen[at]++; c.seen[at] > c.limits[at] {
			c.over, c.at = true, at
			return false
		}
		if kind == '{' {
			name, err := c.tokens.ReadToken()
			if err != nil {
				return false
			}
			in = c.below(at, name.String())
		}
		if !c.value(in) {
			return false
		}
	}
	_, err := c.tokens.ReadToken()
	return err == nil
}

// below returns the place of a member: none if nothing is counted there.
func (c *counter) below(at, name string) string {
	if to := at + "/" + name; len(name) <= 32 {
		if _, counts := c.limits[to]; counts {
			return to
		}
	}
	return "skipped"
}
