package page

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/web/access"
	"gated/internal/wire/cli"
	"gated/internal/wire/question"
)

// maxTogether is how many requests are decided on after one confirmation, maxMember how much text one of them may have for that, in
// bytes, and maxAsked how many of a gate all pages of groups together ask it for at a time.
const (
	maxTogether = 50
	maxMember   = 8 << 10
	maxAsked    = 8
)

// together is the page of a group.
type together struct {
	kind
	Verb, Params string
	Of, Hosts    int // requests and hosts in all of the group
	More         int // of them, that are not here
	End          string
	Irreversible bool
	LostTitle    string
	Lost, Same   []fact // what is the same in all members that are here
	Members      []member
	Roles        []op.Role // in which all that can be approved together can be
	Approve      int       // how many can be
	Reject       int
	Terminal     int
	Typed        string // what has to be typed first, because some of it cannot be undone
	Verify       bool
}

// member is one request of a group. What all members have in common is not in it.
type member struct {
	Gate, ID     string
	Target, Host string
	End          string
	Irreversible bool
	LostTitle    string
	Lost, Other  []fact
	Decision     decision

	verb, params string
	undoable     bool
	long         bool // it says more than fits, so nothing of it is here
}

// groupPage shows a group once, with its differences. Each request is asked of its gate with its bytes, as on its own page.
func (c Config) groupPage() http.HandlerFunc {
	places := turns{}
	for _, g := range c.Gates.All() {
		places[g.Name] = make(chan struct{}, maxAsked)
	}
	return func(w http.ResponseWriter, r *http.Request) { c.showGroup(w, r, places) }
}

// turns has the places of those who ask a gate. A gate that does not answer keeps its own ones alone.
type turns map[string]chan struct{}

func (c Config) showGroup(w http.ResponseWriter, r *http.Request, places turns) {
	k := kind{r.URL.Query().Get("op"), r.URL.Query().Get("key")}
	session, all, err := c.groupOf(r, k)
	if err != nil {
		c.Wall.Refuse(w, r, err)
		return
	}
	f, hosts := frame{Tab: "waiting"}, map[string]bool{}
	for _, m := range all {
		f.Version = max(f.Version, m.gate.Version)
		hosts[m.gate.Name] = true
	}
	// A page of a group asks many gates many times, so news of others do not make it old.
	f.Live = strings.Join(slices.Sorted(maps.Keys(hosts)), " ")
	// What this session can decide on comes first, so that what waits for others does not fill the page.
	slices.SortStableFunc(all, func(a, b like) int { return cmp.Compare(c.rank(session, a), c.rank(session, b)) })
	p := together{kind: k, Of: len(all), Hosts: len(hosts), More: max(len(all)-maxTogether, 0)}
	ctx, stop := context.WithTimeout(r.Context(), gateAnswers)
	defer stop()
	p.Members = c.members(ctx, session, k, all[:min(len(all), maxTogether)], places)
	if len(p.Members) == 0 {
		_, _, err := c.groupOf(r, kind{}) // each was decided while the gates were asked
		c.Wall.Refuse(w, r, err)
		return
	}
	p.share()
	p.offer()
	f.Title = p.Verb + " " + cli.Count(p.Of, "request")
	c.render(w, r, f, "together", p)
}

// rank is 0 of what a session can decide on.
func (c Config) rank(s access.Session, m like) int {
	if c.decision(s, m.gate, m.request).Cannot == "" {
		return 0
	}
	return 1
}

// members asks the gates for requests of a group, each in its turn. One that is decided by now is left out.
func (c Config) members(ctx context.Context, s access.Session, k kind, all []like, places turns) []member {
	identify := map[string]func() (api.Status, error){}
	for _, m := range all {
		if identify[m.gate.Name] == nil {
			identify[m.gate.Name] = sync.OnceValues(func() (api.Status, error) { return c.Gates.Identify(ctx, m.gate.Name) })
		}
	}
	out := make([]*member, len(all))
	var asking sync.WaitGroup
	for i, m := range all {
		asking.Go(func() {
			select {
			case places[m.gate.Name] <- struct{}{}:
				defer func() { <-places[m.gate.Name] }()
			case <-ctx.Done():
				out[i] = c.member(ctx, s, k, m, api.Status{}, ctx.Err())
				return
			}
			status, err := identify[m.gate.Name]()
			out[i] = c.member(ctx, s, k, m, status, err)
		})
	}
	asking.Wait()
	var members []member
	for _, m := range out {
		if m != nil {
			members = append(members, *m)
		}
	}
	return members
}

// member asks a gate, which said who it is, for one request. It is nil if that is of the group no more.
func (c Config) member(ctx context.Context, s access.Session, k kind, m like, status api.Status, err error) *member {
	var q question.Question
	if err == nil {
		cl, _ := c.Gates.Client(m.gate.Name)
		q, err = question.Fetch(ctx, cl, status, m.request.ID)
	}
	if err != nil {
		known, _ := question.Listed(m.request) // a target that is none is shown empty, beside why
		x := memberOf(known.Shown(question.View{Now: c.Now()}), known)
		x.Gate = m.gate.Name
		x.Decision = decision{Gate: m.gate.Name, ID: m.request.ID, Cannot: upper(cut(whyAway(err), maxWhy)) + ". Nothing of this can be signed now."}
		return &x
	}
	if kindOf(q.Request) != k {
		return nil
	}
	x := memberOf(q.Shown(question.View{Now: c.Now()}), q)
	x.Gate, x.Decision = m.gate.Name, c.decision(s, m.gate, q.Request)
	x.Decision.Seen = q.Seen()
	if s.Local && !c.anyPasskey(m.gate, q.Request) {
		x.Decision = x.Decision.withoutPasskeys()
	}
	if x.size() > maxMember {
		x.Lost, x.Other, x.long = nil, nil, true
		x.Decision.alone("It says more than fits here: decide on its own page.")
	}
	return &x
}

// alone takes a request out of what is decided together.
func (d *decision) alone(why string) {
	d.Cannot, d.Roles, d.RejectRole, d.Terminal = why, nil, "", false
}

// memberOf puts a request into the parts of a member. What its own page has at its top comes first.
func memberOf(s question.Shown, q question.Question) member {
	x := member{ID: s.ID, Target: s.Target, Host: s.Host, End: s.End, Irreversible: s.Irreversible, LostTitle: upper(s.LostTitle),
		Lost: factsOf(s.Lost), verb: s.Verb, params: s.Params, undoable: !q.Irreversible()}
	if s.Labels != "" {
		x.Lost = append(x.Lost, fact{Name: "labels", Text: s.Labels})
	}
	if others := q.OtherFacts(); others != "" {
		x.Lost = append(x.Lost, fact{Name: "on its own page", Text: others + " of other operations"})
	}
	x.Other = append(x.Other, fact{Name: "asked by", Text: s.AskedBy})
	for _, one := range s.Reasons {
		by, text := "the signed reason", "no reason was given"
		if one.By != "" {
			by = "the words of " + cli.Inline(one.By)
		}
		if one.Text != "" {
			text = cli.Quoted(one.Text)
		}
		x.Other = append(x.Other, fact{Name: by, Text: text})
	}
	if s.Why != "" {
		x.Other = append(x.Other, fact{Name: "why it waits", Text: s.Why})
	}
	for _, list := range [][]string{s.Rejections, s.Signed, s.Needed, s.Delays} {
		for _, line := range list {
			x.Other = append(x.Other, fact{Name: "signatures", Text: line})
		}
	}
	if s.Left != "" {
		x.Other = append(x.Other, fact{Name: "time", Text: s.Left})
	}
	return x
}

// size is how much text a member has, in bytes.
func (x member) size() (n int) {
	for _, f := range slices.Concat(x.Lost, x.Other) {
		n += len(f.Name) + len(f.Text) + len(f.Block)
	}
	return n + len(x.End) + len(x.params)
}

// share moves what all members say to the top of the page.
func (p *together) share() {
	first := p.Members[0]
	p.Verb, p.Params = first.verb, first.params
	all := func(same func(member) bool) bool {
		return !slices.ContainsFunc(p.Members, func(x member) bool { return !same(x) })
	}
	if all(func(x member) bool { return x.End == first.End && x.Irreversible == first.Irreversible }) {
		p.End, p.Irreversible = first.End, first.Irreversible
	}
	if all(func(x member) bool { return x.LostTitle == first.LostTitle }) {
		p.LostTitle = first.LostTitle
	}
	var lost, other [][]fact
	for _, x := range p.Members {
		if !x.long {
			lost, other = append(lost, x.Lost), append(other, x.Other)
		}
	}
	p.Lost, p.Same = common(lost), common(other)
	for i := range p.Members {
		x := &p.Members[i]
		x.Lost, x.Other = without(x.Lost, p.Lost), without(x.Other, p.Same)
		if p.End != "" {
			x.End = ""
		}
		if p.LostTitle != "" && len(p.Lost) > 0 || len(x.Lost) == 0 {
			x.LostTitle = "" // it stands at the top, or there is nothing below it
		}
	}
}

// common returns the facts that all lists have, as often, in the order of the first one.
func common(lists [][]fact) (out []fact) {
	times := func(list []fact, f fact) (n int) {
		for _, other := range list {
			if other == f {
				n++
			}
		}
		return n
	}
	if len(lists) == 0 {
		return nil
	}
	for _, f := range lists[0] {
		n := times(lists[0], f)
		if !slices.ContainsFunc(lists, func(l []fact) bool { return times(l, f) != n }) {
			out = append(out, f)
		}
	}
	return out
}

func without(list, some []fact) []fact {
	return slices.DeleteFunc(list, func(f fact) bool { return slices.Contains(some, f) })
}

// offer says what can be decided together. Those that ask for other roles than the first one are decided by themselves.
func (p *together) offer() {
	lost := false
	for i := range p.Members {
		x := &p.Members[i]
		d := &x.Decision
		if len(d.Roles) > 0 && p.Approve == 0 {
			p.Roles = d.Roles
		}
		if len(d.Roles) > 0 && !slices.Equal(d.Roles, p.Roles) {
			d.alone(fmt.Sprintf("It asks for a signature as %s: decide on its own page.", words(d.Roles)))
		}
		if len(d.Roles) > 0 {
			p.Approve++
			lost = lost || !x.undoable
			p.Verify = p.Verify || d.Verify
		}
		if d.RejectRole != "" {
			p.Reject++
		}
		if d.Terminal {
			p.Terminal++
		}
	}
	if lost {
		p.Typed = fmt.Sprintf("%d %s", p.Approve, cli.Inline(p.Op))
	}
}
