package client

import (
	"context"
	"net/http"
	"net/url"

	"gated/internal/base/op"
	"gated/internal/wire/api"
)

// Requests lists requests that wait for operators, and those that ended recently; with a state, those in it. It reads
// all pages.
func (c *Client) Requests(ctx context.Context, state op.State) ([]api.Request, error) {
	v := url.Values{}
	if state != "" {
		v.Set("state", string(state))
	}
	var all []api.Request
	for {
		var page api.RequestList
		if err := c.json(ctx, call{method: http.MethodGet, path: "/v1/requests", query: v}, nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Requests...)
		if page.Next == nil {
			return all, nil
		}
		v.Set("after", *page.Next)
	}
}

// Request shows one request, j12.1.
func (c *Client) Request(ctx context.Context, id string) (api.Request, error) {
	var out api.Request
	return out, c.json(ctx, call{method: http.MethodGet, path: requestPath(id, "")}, nil, &out)
}

// Payload returns the exact bytes that an approval of the request signs. The daemon sends them, so decode and show them
// before signing.
func (c *Client) Payload(ctx context.Context, id string) ([]byte, error) {
	b, _, err := c.bytes(ctx, call{method: http.MethodGet, path: requestPath(id, "/payload")})
	return b, err
}

// Approve hands in an approval. Missing in the answer says how many people still have to sign.
func (c *Client) Approve(ctx context.Context, id string, e api.Envelope) (api.Request, error) {
	var out api.Request
	return out, c.json(ctx, call{method: http.MethodPost, path: requestPath(id, "/approve")}, e, &out)
}

// Reject hands in a rejection.
func (c *Client) Reject(ctx context.Context, id string, e api.Envelope) (api.Request, error) {
	var out api.Request
	return out, c.json(ctx, call{method: http.MethodPost, path: requestPath(id, "/reject")}, e, &out)
}

// SubmitSigned hands in an operation that was signed offline.
func (c *Client) SubmitSigned(ctx context.Context, e api.Envelope) (api.Request, error) {
	var out api.Request
	return out, c.json(ctx, call{method: http.MethodPost, path: "/v1/ops"}, e, &out)
}

func requestPath(id, rest string) string { return "/v1/requests/" + url.PathEscape(id) + rest }
