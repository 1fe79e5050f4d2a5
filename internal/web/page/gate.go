package page

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/web/access"
	"gated/internal/web/gates"
	"gated/internal/wire/cli"
)

// gateList is the page of all gates that a session reads.
type gateList struct{ Gates []gateRow }

type gateRow struct {
	Name, Host, Address string
	State               string // ok, degraded, bad or away
	Why                 string // of one that is away, or the first check that is not ok
	Seen                time.Time
	Waiting             int
	Version             string
}

func (c Config) gatesPage(w http.ResponseWriter, r *http.Request) {
	session, _ := access.SessionOf(r.Context())
	p, version := gateList{}, uint64(1)
	for _, g := range c.Gates.All() {
		version = max(version, g.Version)
		if !c.may(session, g, "") {
			continue
		}
		row := gateRow{Name: g.Name, Host: cli.Inline(g.Host), Address: cli.Inline(string(g.Address)), State: "ok", Seen: g.Seen,
			Waiting: c.undecided(g), Version: cli.Inline(g.Status.Version)}
		if i := slices.IndexFunc(g.Status.Health, func(h api.Health) bool { return !h.OK }); i >= 0 {
			row.State, row.Why = "needs an operator", cut(cli.Inline(g.Status.Health[i].Name+": "+g.Status.Health[i].Detail), maxWhy)
		}
		if g.Err != nil {
			row.State, row.Why = "away", upper(cut(whyAway(g.Err), maxWhy))
		}
		p.Gates = append(p.Gates, row)
	}
	c.render(w, r, frame{Title: "Gates", Live: "*", Version: version, Tab: "gates"}, "gates", p)
}

// status is the page of one gate.
type status struct {
	Name, Host, ID, Address string
	Away                    string // why the rest is old; empty if it is not
	Seen                    time.Time
	Status                  api.Status
	Waiting                 int
	Role                    string // of the member
	Checks                  []check
	Backends                []backend
	NoChecks, NoBackends    string // why there are none
	People                  []signer
	Epoch                   int64
	TrustAt                 time.Time
	How                     string
	Blocked                 bool
}

type check struct{ Name, State, Detail string }

type backend struct {
	Name, Kind, State, Detail, Version string
	Since                              *time.Time
	Guests                             int
	Findings                           []string
}

// signer is one line of the list of signers.
type signer struct {
	Principal, Fingerprint, Kind, Roles string
	Revoked                             bool
	From, Until                         *time.Time
}

// statusPage shows a gate also while it is away, as it was when it last answered.
func (c Config) statusPage(w http.ResponseWriter, r *http.Request) {
	at, err := c.readable(r, "")
	if err != nil {
		c.Wall.Refuse(w, r, err)
		return
	}
	g := at.gate
	p := status{Name: g.Name, Host: cli.Inline(g.Host), ID: cli.Inline(string(g.ID)), Address: cli.Inline(string(g.Address)), Seen: g.Seen,
		Status: g.Status, Waiting: c.undecided(g), Role: role(g.Status.Member), People: people(g.Trust), Epoch: g.Trust.Epoch, TrustAt: g.Trust.At,
		How: cli.Inline(g.Trust.How), Blocked: g.Trust.Blocked}
	if g.Err != nil {
		p.Away = upper(whyAway(g.Err))
		p.NoChecks, p.NoBackends = "The gate is away.", "The gate is away."
	} else {
		ctx, stop := context.WithTimeout(r.Context(), gateAnswers)
		defer stop()
		p.ask(ctx, c.Gates, at)
	}
	c.render(w, r, at.tab("status", "Status"), "status", p)
}

// ask asks the gate for what is not in its snapshot. What it does not say is no reason to show nothing.
func (p *status) ask(ctx context.Context, set *gates.Set, at reached) {
	if _, err := set.Identify(ctx, at.gate.Name); err != nil {
		p.Away = upper(whyAway(err))
		return
	}
	if health, err := at.client.Health(ctx); err != nil {
		p.NoChecks = upper(whyAway(err))
	} else {
		for _, h := range health.Checks {
			p.Checks = append(p.Checks, check{cli.Inline(h.Name), cli.Inline(h.State), cli.Inline(h.Detail)})
		}
	}
	list, err := at.client.Backends(ctx)
	if err != nil {
		p.NoBackends = upper(whyAway(err))
	}
	for _, b := range list {
		one := backend{Name: cli.Inline(b.Name), Kind: cli.Inline(b.Kind), State: cli.Inline(b.State), Detail: cli.Inline(b.Detail),
			Version: cli.Inline(b.Version), Since: b.Since, Guests: b.Guests}
		for _, f := range b.Findings {
			one.Findings = append(one.Findings, cli.Inline(f.What+": "+f.State+", "+f.Detail))
		}
		p.Backends = append(p.Backends, one)
	}
}

// role says what a gate's member does.
func role(m *api.Member) string {
	switch {
	case m == nil:
		return "the only host of this gate"
	case m.Active != "" && m.Active != m.Name:
		return cli.Inline(m.Name) + ", " + cli.Inline(m.Role) + "; " + cli.Inline(m.Active) + " decides"
	}
	return cli.Inline(m.Name) + ", " + cli.Inline(m.Role)
}

// people shows who may sign.
func people(t api.Trust) []signer {
	var out []signer
	for _, s := range t.Signers {
		p := signer{Principal: cli.Person(s.Principal), Fingerprint: cli.Inline(s.Fingerprint), Kind: "security key",
			Revoked: slices.Contains(t.Revoked, s.Fingerprint), From: s.ValidAfter, Until: s.ValidBefore}
		var roles []string
		for _, r := range s.Roles {
			roles = append(roles, string(r))
		}
		p.Roles = cli.Inline(strings.Join(roles, ", "))
		switch {
		case s.CA:
			p.Kind = "certificate authority"
		case s.Passkey != "":
			p.Kind = "passkey of " + cli.Inline(s.Passkey)
		case s.Software:
			p.Kind = "software key"
		}
		out = append(out, p)
	}
	return out
}
