// Package message has what gated notify says: a message with its facts, and its form for each product. A requester
// controls some of the words, so every form escapes all of them.
package message

import (
	"time"

	"gated/client/api"
	"gated/internal/base/op"
)

// Kind says what a message is about.
type Kind string

// The kinds. The first six are about a request that is open, the next eight about its end.
const (
	Waits     Kind = "waiting"     // a step waits for a signature
	Escalated Kind = "escalated"   // it still waits after the time of the sink that was told first
	Signed    Kind = "signed"      // a signature counted, and more are needed
	Approved  Kind = "approved"    // enough operators signed
	Unheard   Kind = "unheard"     // no sink is for a person who could sign it
	Withdrawn Kind = "withdrawn"   // one of several requesters withdrew
	Rejected  Kind = "rejected"    // an operator signed a rejection
	Expired   Kind = "expired"     // its approval was too old
	Cancelled Kind = "cancelled"   // its requesters withdrew it
	Replaced  Kind = "superseded"  // the target is another one now
	Refused   Kind = "refused"     // the gate or the driver refused to run it
	Succeeded Kind = "succeeded"   // it was done
	Failed    Kind = "failed"      // it was tried, and not done
	Broken    Kind = "interrupted" // it may have been done
	Alarm     Kind = "alarm"       // something is wrong with the gate or with its messages
	Over      Kind = "alarm-over"  // it is not wrong any more
	Digest    Kind = "digest"      // one message for many
	Test      Kind = "test"        // gated notify test
)

// Ends reports whether a request is over after a message of this kind.
func (k Kind) Ends() bool {
	switch k {
	case Rejected, Expired, Cancelled, Replaced, Refused, Succeeded, Failed, Broken:
		return true
	}
	return false
}

// Message is one thing to say to one sink. Times are in UTC. Its texts were cleaned and cut by this package's
// constructors (Clean).
type Message struct {
	// ID is the same at each try: GATEID:SEQ, and a suffix if several messages come from one entry.
	ID string `json:"id"`
	// Thread is the same for all messages about one request or alarm: GATEID:j5.1, GATEID:alarm:clock.
	Thread string    `json:"thread"`
	Kind   Kind      `json:"kind"`
	Gate   string    `json:"gate"`
	Host   string    `json:"host"`
	At     time.Time `json:"at"`
	Title  string    `json:"title"`  // one line
	Detail string    `json:"detail"` // a sentence, or empty
	Urgent bool      `json:"urgent"` // a person has to act

	Request *Request `json:"request"` // null for alarms, digests and tests
	Lines   []string `json:"lines"`   // of a digest: a line for each request that still waits
}

// Request is what a message says about a request.
type Request struct {
	ID          string     `json:"id"` // j5.1
	Op          string     `json:"op"`
	Target      string     `json:"target"`
	State       string     `json:"state"`
	Why         string     `json:"why"` // the rule's reason
	RequestedBy []string   `json:"requested_by"`
	Users       api.Users  `json:"users"`   // names of users of the gate's host, by the requester that is their uid
	Reasons     []Words    `json:"reasons"` // the requesters' own words: data, never an instruction
	Roles       []string   `json:"roles"`   // in which a signature is missing
	People      []string   `json:"people"`  // who could still sign
	Missing     int        `json:"missing"` // people who still have to sign
	PayloadEnds *time.Time `json:"payload_expires_at"`
	Commands    []string   `json:"commands"` // to type, if it waits
	Link        string     `json:"link"`     // of its page in a console, if it waits; empty: there is no console
	By          []string   `json:"by"`       // who signed or rejected
	ByWords     string     `json:"by_words"` // the words of a rejection
	Code        string     `json:"code"`
	Outcome     string     `json:"outcome"`

	// Only where the sink has details: params, or all.
	Params []Words `json:"params"`
	Facts  []Words `json:"facts"`
	Output string  `json:"output"`
}

// Words is a text of others with its author or name.
type Words struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Details says how much of a request a sink gets.
type Details string

// The details.
const (
	NoDetails     Details = "none"
	ParamsDetails Details = "params" // the parameters
	AllDetails    Details = "all"    // parameters, facts of the target and what a command printed
)

// Bounds of a message, in runes and in elements. A message of the largest size fits into each product's limits.
const (
	maxTitle   = 160
	maxName    = 140
	maxSaid    = 400
	maxOutput  = 800
	maxList    = 8
	maxPerson  = 80
	maxHost    = 80
	maxReasons = 3
	// MaxLines is the most lines of a digest.
	MaxLines = 20
)

// Bounded cleans and cuts every text of a message.
func (m Message) Bounded() Message {
	m.Host, m.Title, m.Detail = Clean(m.Host, maxHost), Clean(m.Title, maxTitle), Clean(m.Detail, maxSaid)
	m.Lines = bounded(m.Lines, MaxLines, maxTitle)
	m.At = m.At.UTC().Truncate(time.Second)
	return m
}

// About returns what a message says about a request. lines are the commands to type.
func About(r api.Request, d Details, lines []string) *Request {
	out := &Request{ID: r.ID, Op: Clean(r.Op, maxName), Target: Clean(r.Target, maxName), State: Clean(string(r.State), maxName),
		Why: Clean(r.Why, maxSaid), RequestedBy: bounded(r.RequestedBy, maxList, maxPerson), Users: users(r), Missing: r.Missing,
		Roles: []string{}, People: []string{}, Commands: bounded(lines, maxList, maxSaid), Reasons: reasons(r)}
	for _, demand := range Open(r) {
		for _, role := range demand.Roles {
			out.Roles = with(out.Roles, Clean(string(role), maxPerson))
		}
		for _, name := range demand.Could {
			out.People = with(out.People, Clean(name, maxPerson))
		}
	}
	if !r.ExpiresAt.IsZero() && r.State == api.StatePending {
		ends := r.ExpiresAt.UTC().Truncate(time.Second)
		out.PayloadEnds = &ends
	}
	for _, s := range r.Signatures {
		out.By = with(out.By, Clean(s.Principal, maxPerson))
	}
	if r.Error != nil {
		out.Code, out.Outcome = Clean(string(r.Error.Code), maxName), Clean(r.Error.Detail, maxSaid)
	} else {
		out.Outcome = Clean(r.Detail, maxSaid)
	}
	if d == ParamsDetails || d == AllDetails {
		out.Params = params(r.Params)
	}
	if d == AllDetails {
		for _, f := range r.Facts[:min(len(r.Facts), maxList)] {
			out.Facts = append(out.Facts, Words{Clean(f.Name, maxPerson), Clean(f.Text, maxSaid)})
		}
	}
	return out
}

// Printed adds what the step printed, for sinks with all details.
func (r *Request) Printed(output string, d Details) {
	if d == AllDetails {
		r.Output = CleanLines(output, maxOutput)
	}
}

// users returns the names that may stand beside the requesters of a message.
func users(r api.Request) api.Users {
	out := api.Users{}
	for _, by := range r.RequestedBy[:min(len(r.RequestedBy), maxList)] {
		if op.Beside(by, r.Users) != by {
			out[by] = r.Users[by]
		}
	}
	return out
}

// reasons returns why each requester asks. The first reason is the one that is signed.
func reasons(r api.Request) []Words {
	out := []Words{}
	for _, one := range r.Reasons {
		if text := Clean(one.Text, maxSaid); text != "" && len(out) < maxReasons {
			out = append(out, Words{Clean(one.By, maxPerson), text})
		}
	}
	if len(out) == 0 && r.Reason != "" {
		out = append(out, Words{"", Clean(r.Reason, maxSaid)})
	}
	return out
}

// Open returns the demands of a request for which signatures are missing, and for which a person could still sign.
func Open(r api.Request) []api.Demand {
	var out []api.Demand
	if r.State != api.StatePending {
		return nil
	}
	for _, d := range r.Demands {
		if d.Have < d.Threshold && len(d.Could) > 0 {
			out = append(out, d)
		}
	}
	return out
}

func with(list []string, s string) []string {
	for _, have := range list {
		if have == s {
			return list
		}
	}
	if len(list) >= maxList {
		return list
	}
	return append(list, s)
}

func bounded(list []string, most, runes int) []string {
	out := make([]string, 0, min(len(list), most))
	for _, s := range list[:min(len(list), most)] {
		out = append(out, Clean(s, runes))
	}
	return out
}
