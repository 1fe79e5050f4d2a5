package client

import (
	"context"
	"net/http"
	"net/url"

	"gated/internal/api"
)

// Agents lists the registered agents by name.
func (c *Client) Agents(ctx context.Context) ([]api.Agent, error) {
	var out api.AgentList
	err := c.json(ctx, call{method: http.MethodGet, path: "/v1/agents"}, nil, &out)
	return out.Agents, err
}

// RegisterAgent binds a name to a process of the caller's or to a token, which
// the answer then has and nothing has again.
func (c *Client) RegisterAgent(ctx context.Context, in api.RegisterAgent) (api.RegisteredAgent, error) {
	var out api.RegisteredAgent
	return out, c.json(ctx, call{method: http.MethodPost, path: "/v1/agents"}, in, &out)
}

// Unregister gives up the caller's own name; an operator's, who is no agent, may
// be that of a token under which nothing is reserved.
func (c *Client) Unregister(ctx context.Context, name string) (api.Agent, error) {
	var out api.Agent
	return out, c.json(ctx, call{method: http.MethodDelete, path: "/v1/agents/" + url.PathEscape(name)}, nil, &out)
}

// Self asks whom the daemon takes the caller for.
func (c *Client) Self(ctx context.Context) (api.Caller, error) {
	var out api.Caller
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/agents/self"}, nil, &out)
}
