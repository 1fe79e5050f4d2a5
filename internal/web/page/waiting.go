package page

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/web/access"
	"gated/internal/web/gates"
	"gated/internal/wire/cli"
)

// pageOf is how many requests, jobs or guests a page shows. maxAway is how many gates that are away the first page names,
// and maxOps how many operations it offers to choose from.
const (
	pageOf  = 100
	maxAway = 20
	maxOps  = 40
)

// waiting is the first page: what waits at all gates.
type waiting struct {
	Total, Gates, Away int // requests that fit the filter; gates that the session reads; of these, that are away
	Groups             []group
	From, To           int // which of Total are here, from 1
	Next, Prev         string
	AwayGates          []awayGate // the first of those that are away
	Full               []string   // gates with more requests than are kept
	Filter             filter
}

// awayGate is a gate that does not answer as it should.
type awayGate struct {
	Name, Why string
	Seen      time.Time // when it last did; zero if it never did
}

// filter is what a reader wants to see.
type filter struct {
	Gate, Op   string
	Gates, Ops []string // to choose from
}

// group is one request, or several that ask for the same operation with the same parameters.
type group struct {
	Verb, Params string
	Link         string // of the page of the group; empty if there are no two to decide on together
	Hosts, Of    int    // hosts and requests in all of the group; Of is 1 of a single request
	Rows         []row
	// What is the same in all rows that are here stands above them, and not in them.
	Same row
}

func (c Config) waitingPage(w http.ResponseWriter, r *http.Request) {
	session, _ := access.SessionOf(r.Context())
	all := c.Gates.All()
	f := filter{Gate: r.URL.Query().Get("gate"), Op: r.URL.Query().Get("op")}
	p, rows, version := waiting{}, []row(nil), uint64(1)
	ops := map[string]bool{}
	for _, g := range all {
		version = max(version, g.Version)
		listed := c.may(session, g, "")
		if listed {
			p.Gates++
			f.Gates = append(f.Gates, g.Name)
			p.note(g)
		}
		for _, q := range g.Requests {
			if !listed && !adds(q, session.Key) || !decidable(q, c.Now()) {
				continue
			}
			ops[q.Op] = true
			if (f.Gate == "" || f.Gate == g.Name) && (f.Op == "" || f.Op == q.Op) {
				rows = append(rows, row{Gate: g.Name, ID: q.ID, Since: q.CreatedAt, key: q.Op + " " + string(q.Params.Canonical()),
					kind: kindOf(q)})
			}
		}
	}
	f.Ops = choices(ops)
	p.Filter = f
	p.fill(rows, number(r, "page"), all, c.Now())
	c.render(w, r, frame{Title: "What waits", Live: "*", Version: version, Tab: "waiting"}, "waiting", p)
}

// choices returns the operations to choose from: those that this program knows and then others, each in their order. An
// operation with a name that no gate would have is none of them.
func choices(ops map[string]bool) []string {
	var known, others []string
	for name := range ops {
		if _, err := op.Lookup(name); err == nil {
			known = append(known, name)
		} else if len(name) <= maxFact {
			others = append(others, name)
		}
	}
	slices.Sort(known)
	slices.Sort(others)
	all := append(known, others...)
	return all[:min(len(all), maxOps)]
}

// decidable reports whether an operator can still decide: it waits for signatures, or can be stopped.
func decidable(r api.Request, now time.Time) bool {
	return r.State == op.StatePending || cli.Delayed(r, now)
}

// undecided counts the requests of a gate on which an operator can still decide.
func (c Config) undecided(g gates.Gate) (n int) {
	for _, q := range g.Requests {
		if decidable(q, c.Now()) {
			n++
		}
	}
	return n
}

// note names a gate that is away, or that has more than is kept of it.
func (p *waiting) note(g gates.Gate) {
	if g.More {
		p.Full = append(p.Full, g.Name)
	}
	if g.Err == nil {
		return
	}
	if p.Away++; len(p.AwayGates) < maxAway {
		p.AwayGates = append(p.AwayGates, awayGate{Name: g.Name, Why: upper(cut(whyAway(g.Err), maxWhy)), Seen: g.Seen})
	}
}

// grouped puts the same operation with the same parameters into one group, at the place of its oldest request.
func grouped(rows []row) []*group {
	slices.SortStableFunc(rows, func(a, b row) int { return a.Since.Compare(b.Since) })
	hosts := map[string]map[string]bool{}
	var out []*group
	of, waits := map[string]*group{}, map[string]int{}
	for _, x := range rows {
		g := of[x.key]
		if g == nil {
			g, hosts[x.key] = &group{}, map[string]bool{}
			of[x.key] = g
			out = append(out, g)
		}
		g.Rows = append(g.Rows, x)
		hosts[x.key][x.Gate] = true
		g.Of, g.Hosts = len(g.Rows), len(hosts[x.key])
		if x.kind.Op == "" {
			continue
		}
		if waits[x.key]++; waits[x.key] == 2 {
			g.Link = x.kind.link()
		}
	}
	return out
}

// fill shows one page of the rows. A group that does not fit on it goes on on the next one.
func (p *waiting) fill(rows []row, page int, all []gates.Gate, now time.Time) {
	p.Total = len(rows)
	from := min(max(page, 1)-1, max(len(rows)-1, 0)/pageOf) * pageOf
	to := min(from+pageOf, len(rows))
	p.From, p.To = from+1, to
	if to < len(rows) {
		p.Next = p.Filter.link(from/pageOf + 2)
	}
	if from > 0 {
		p.Prev = p.Filter.link(from / pageOf)
	}
	byName := map[string]*gates.Gate{}
	for i := range all {
		byName[all[i].Name] = &all[i]
	}
	at := 0 // how many rows came before the group
	for _, g := range grouped(rows) {
		first, last := max(from-at, 0), min(to-at, len(g.Rows))
		if at += len(g.Rows); first >= last {
			continue
		}
		g.Rows = g.Rows[first:last]
		for i := range g.Rows {
			q, _ := byName[g.Rows[i].Gate].Request(g.Rows[i].ID) // it is of the same snapshot
			g.Rows[i].fill(q, now)
		}
		g.Verb, g.Params = g.Rows[0].Verb, g.Rows[0].Params
		if g.Of > 1 {
			g.share()
		}
		p.Groups = append(p.Groups, *g)
	}
}

// share moves what all rows of a group say above them, so that each says how it differs. Words that were cut stay, because
// they may differ where nobody sees it.
func (g *group) share() {
	for _, part := range []func(*row) *string{func(x *row) *string { return &x.End }, func(x *row) *string { return &x.Lost },
		func(x *row) *string { return &x.By }, func(x *row) *string { return &x.Reason }, func(x *row) *string { return &x.Signed },
		func(x *row) *string { return &x.Needs }} {
		first := *part(&g.Rows[0])
		if strings.HasSuffix(first, ellipsis) || strings.Contains(first, ellipsis+" · ") ||
			slices.ContainsFunc(g.Rows, func(x row) bool { return *part(&x) != first }) {
			continue
		}
		*part(&g.Same) = first
		for i := range g.Rows {
			*part(&g.Rows[i]) = ""
		}
	}
	g.Same.Irreversible = g.Same.End != "" && g.Rows[0].Irreversible
	for i := range g.Rows {
		g.Rows[i].Verb, g.Rows[i].Params = "", "" // which are those of the group
	}
}

// link is the address of another page of the same list.
func (f filter) link(page int) string {
	v := url.Values{}
	if f.Gate != "" {
		v.Set("gate", f.Gate)
	}
	if f.Op != "" {
		v.Set("op", f.Op)
	}
	v.Set("page", strconv.Itoa(page))
	return "/?" + v.Encode()
}

// number reads a number of a query; what is none is 0.
func number(r *http.Request, name string) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil {
		return 0
	}
	return n
}
