package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"gated/client/api"
	"gated/internal/base/refusal"
)

const reservationsPath = "/v1/reservations"

// Reserve claims paths. If others have some of them, the error is *Conflicted; times that no reservation can have are
// BadParams. A context without a deadline gets one: the wait of in, and the time of any call. The wait ends with the
// context.
func (c *Client) Reserve(ctx context.Context, in api.Reserve) (api.Reservation, error) {
	var out api.Reservation
	_, wait, err := in.Times()
	if err != nil {
		return out, err
	}
	return out, c.json(ctx, call{method: http.MethodPost, path: reservationsPath, wait: wait}, in, &out)
}

// Check asks which paths others have reserved. Nothing changes.
func (c *Client) Check(ctx context.Context, in api.Check) (api.Checked, error) {
	var out api.Checked
	return out, c.json(ctx, call{method: http.MethodPost, path: reservationsPath + "/check"}, in, &out)
}

// ReservationQuery narrows a list of reservations. The zero value asks for the
// first page of all.
type ReservationQuery struct {
	Scope string // the absolute path of a scope's directory
	Agent string // the holder: an agent's name, or uid:1000
	After string // a reservation's id, r12
	Limit int    // 0: the daemon's choice
}

// Reservations lists one page of the reservations in force, by their ids.
func (c *Client) Reservations(ctx context.Context, q ReservationQuery) (api.ReservationList, error) {
	v := url.Values{}
	for name, value := range map[string]string{"scope": q.Scope, "agent": q.Agent, "after": q.After} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	var out api.ReservationList
	return out, c.json(ctx, call{method: http.MethodGet, path: reservationsPath, query: v}, nil, &out)
}

// AllReservations lists all pages from q's on. Reservations that begin or end meanwhile may be there or not.
func (c *Client) AllReservations(ctx context.Context, q ReservationQuery) ([]api.Reservation, error) {
	var all []api.Reservation
	for {
		page, err := c.Reservations(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Reservations...)
		if page.Next == nil {
			return all, nil
		}
		q.After = *page.Next
	}
}

// Renew gives the caller's reservation ttl from now, in whole seconds rounded up. With 0 the daemon chooses; a negative
// ttl is BadParams.
func (c *Client) Renew(ctx context.Context, id string, ttl time.Duration) (api.Reservation, error) {
	var out api.Reservation
	if ttl < 0 {
		return out, refusal.New(refusal.BadParams, "nothing lasts for %s", ttl)
	}
	in := api.Renew{TTLSeconds: int64((ttl + time.Second - 1) / time.Second)}
	return out, c.json(ctx, call{method: http.MethodPost, path: reservationPath(id, "/renew")}, in, &out)
}

// Release ends a reservation of the caller's.
func (c *Client) Release(ctx context.Context, id string) (api.Reservation, error) {
	var out api.Reservation
	return out, c.json(ctx, call{method: http.MethodDelete, path: reservationPath(id, "")}, nil, &out)
}

// ReleaseMine ends every reservation of the caller's and returns them.
func (c *Client) ReleaseMine(ctx context.Context) ([]api.Reservation, error) {
	var out api.ReservationList
	err := c.json(ctx, call{method: http.MethodPost, path: reservationsPath + "/release-mine"}, nil, &out)
	return out.Reservations, err
}

// Transfer gives a reservation of the caller's to a registered agent.
func (c *Client) Transfer(ctx context.Context, id, to string) (api.Reservation, error) {
	var out api.Reservation
	in := api.Transfer{To: to}
	return out, c.json(ctx, call{method: http.MethodPost, path: reservationPath(id, "/transfer")}, in, &out)
}

// Scopes lists the directories with an id.
func (c *Client) Scopes(ctx context.Context) ([]api.Scope, error) {
	var all []api.Scope
	for v := (url.Values{}); ; {
		var page api.ScopeList
		if err := c.json(ctx, call{method: http.MethodGet, path: "/v1/scopes", query: v}, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Scopes...)
		if page.Next == nil {
			return all, nil
		}
		v.Set("after", *page.Next)
	}
}

// RegisterScope returns the directory's id. A new directory gets one.
func (c *Client) RegisterScope(ctx context.Context, at api.Place) (api.Scope, error) {
	var out api.Scope
	return out, c.json(ctx, call{method: http.MethodPost, path: "/v1/scopes"}, at, &out)
}

func reservationPath(id, rest string) string {
	return reservationsPath + "/" + url.PathEscape(id) + rest
}

// Agents lists the registered agents by name.
func (c *Client) Agents(ctx context.Context) ([]api.Agent, error) {
	var out api.AgentList
	err := c.json(ctx, call{method: http.MethodGet, path: "/v1/agents"}, nil, &out)
	return out.Agents, err
}

// RegisterAgent binds a name to a process of the caller's or to a token. Only this answer ever has the token.
func (c *Client) RegisterAgent(ctx context.Context, in api.RegisterAgent) (api.RegisteredAgent, error) {
	var out api.RegisteredAgent
	return out, c.json(ctx, call{method: http.MethodPost, path: "/v1/agents"}, in, &out)
}

// Unregister gives up the caller's own name. An operator who is not an agent may also free the name of a token without
// reservations.
func (c *Client) Unregister(ctx context.Context, name string) (api.Agent, error) {
	var out api.Agent
	return out, c.json(ctx, call{method: http.MethodDelete, path: "/v1/agents/" + url.PathEscape(name)}, nil, &out)
}

// Self asks which agent the daemon takes the caller for.
func (c *Client) Self(ctx context.Context) (api.Caller, error) {
	var out api.Caller
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/agents/self"}, nil, &out)
}
