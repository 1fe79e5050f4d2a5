package page

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"gated/client"
	"gated/internal/wire/cli"
)

// agentList is the page of a gate's agents and of what they reserved.
type agentList struct {
	Gate         string
	Agents       []agentRow
	Reservations []reservationRow
	Next         string
	First        bool
}

type agentRow struct {
	Name, ID, Bound, Owner string
	Alive                  bool
	Since                  time.Time
}

type reservationRow struct {
	ID, Scope, Patterns, Mode, Holder, Reason string
	Alive                                     bool
	Until                                     time.Time
}

func (c Config) agentsPage(ctx context.Context, w http.ResponseWriter, r *http.Request, at reached) error {
	p := agentList{Gate: at.gate.Name}
	agents, err := at.client.Agents(ctx)
	if err != nil {
		return err
	}
	for _, a := range agents {
		p.Agents = append(p.Agents, agentRow{Name: cli.Inline(a.Name), ID: cli.Inline(a.ID), Bound: cli.Inline(a.Bound), Owner: "uid " + cli.Inline(a.Owner()), Alive: a.Alive,
			Since: a.RegisteredAt})
	}
	from := r.URL.Query().Get("after")
	p.First = from == ""
	list, err := at.client.Reservations(ctx, client.ReservationQuery{After: from, Limit: pageOf})
	if err != nil {
		return err
	}
	for _, v := range list.Reservations {
		p.Reservations = append(p.Reservations, reservationRow{ID: cli.Inline(v.ID), Scope: cli.Inline(v.Scope), Patterns: cut(joined(v.Patterns), 400),
			Mode: cli.Inline(v.Mode), Holder: cli.Inline(v.Holder()), Reason: cli.Quoted(v.Reason), Alive: v.HolderAlive, Until: v.ExpiresAt})
	}
	if list.Next != nil {
		p.Next = "/g/" + at.gate.Name + "/agents?after=" + url.QueryEscape(*list.Next)
	}
	c.render(w, r, at.tab("agents", "Agents"), "agents", p)
	return nil
}
