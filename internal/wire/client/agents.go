package client

import (
	"context"
	"net/http"
	"net/url"

	"gated/internal/wire/api"
)

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
