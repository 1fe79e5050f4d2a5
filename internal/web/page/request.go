package page

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/web/gates"
	"gated/internal/wire/cli"
	"gated/internal/wire/question"
)

// request is the page of one request.
type request struct {
	question.Shown
	Away      string    // why the gate does not answer; empty if it does
	Seen      time.Time // when it last did
	Gate, Job string
	Lost      []fact
	Others    []fact
	Details   []fact
	Bytes     string // the payload, safe to print
	SHA256    string
	Look      string // the command that shows it without these pages
	OnHost    string // where that runs; empty: anywhere
	Decision  decision
	Phone     bool // there is a QR code of the page
	Like      int  // how many requests are decided on together with it; with none, Together is empty
	Together  string
	Instead   []string // the requests that wait for the same, if this one ended without being decided
}

// fact is a fact that is safe to print.
type fact struct{ Name, Text, Block string } // Block has lines of its own, as a program printed them

func factsOf(facts []op.Fact) []fact {
	var out []fact
	for _, f := range facts {
		text := strings.TrimRight(f.Text, "\n")
		one := fact{Name: cli.Inline(f.Name)}
		if strings.Contains(text, "\n") {
			one.Block = cli.Printed("", text)
		} else {
			one.Text = cli.Inline(text)
		}
		out = append(out, one)
	}
	return out
}

// requestPage shows a request as opsign show does: the gate is asked for it and for its bytes, and both have to agree.
func (c Config) requestPage(ctx context.Context, w http.ResponseWriter, r *http.Request, at reached) error {
	q, err := question.Fetch(ctx, at.client, at.status, r.PathValue("id"))
	if err != nil {
		return err
	}
	c.showRequest(w, r, at, q, "")
	return nil
}

// remembered shows a request of a gate that is away as it was when the gate last said something of it, without bytes to
// sign. It reports false if nothing of it is known.
func (c Config) remembered(w http.ResponseWriter, r *http.Request, at reached, why error) bool {
	known, ok := at.gate.Request(r.PathValue("id"))
	if !ok {
		return false
	}
	q, err := question.Listed(known)
	if err != nil {
		return false
	}
	c.showRequest(w, r, at, q, upper(whyAway(why)))
	return true
}

// showRequest shows a request. away is why its gate does not answer; empty if it does.
func (c Config) showRequest(w http.ResponseWriter, r *http.Request, at reached, q question.Question, away string) {
	p := request{Shown: q.Shown(question.View{Now: c.Now(), Dash: " · ", Details: true}), Gate: at.gate.Name, Job: q.Request.Job, Away: away,
		Seen: at.gate.Seen, Phone: !c.Local, Decision: c.decision(at.session, at.gate, q.Request)}
	p.Lost, p.Others = factsOf(p.Shown.Lost), factsOf(p.Shown.Others)
	p.Look, p.OnHost = look(at.gate, q.Request.ID)
	p.Instead = c.instead(at, q.Request)
	switch {
	case away != "":
		p.Decision = decision{Gate: at.gate.Name, ID: q.Request.ID, Cannot: gateAway}
	default:
		p.Decision.Seen = q.Seen()
		k := kindOf(q.Request)
		if p.Like = len(c.alike(at.session, k)) - 1; p.Like > 0 {
			p.Together = k.link()
		}
		if at.session.Local && !c.anyPasskey(at.gate, q.Request) {
			p.Decision = p.Decision.withoutPasskeys()
		}
		p.Details, p.Bytes, p.SHA256 = factsOf(p.Shown.Details), cli.Safe(string(q.Bytes)), op.SHA256(q.Bytes)
	}
	if !q.Irreversible() {
		p.Decision.Typed = "" // as opsign review, which asks for the name of what cannot be undone
	}
	c.render(w, r, at.tab("", p.Headline), "request", p)
}

// instead returns the requests that wait for what a request asked that was overtaken, and that the session may see.
func (c Config) instead(at reached, r api.Request) (ids []string) {
	if !slices.Contains([]op.State{op.StateSuperseded, op.StateExpired, op.StateCancelled}, r.State) {
		return nil
	}
	for _, other := range at.gate.Requests {
		if other.ID != r.ID && other.Op == r.Op && other.Target == r.Target && c.may(at.session, at.gate, other.ID) {
			ids = append(ids, other.ID)
		}
	}
	return ids
}

// look is the command that shows a request without these pages, and where it runs.
func look(g gates.Gate, id string) (command, host string) {
	address := string(g.Address)
	if path, local := strings.CutPrefix(address, "unix:"); local {
		return "opsign --socket " + cli.Inline(path) + " show " + cli.Inline(id), cli.Inline(g.Host)
	}
	return "opsign -H " + cli.Inline(address) + " show " + cli.Inline(id), ""
}
