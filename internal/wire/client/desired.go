package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"gated/internal/wire/api"
)

// Plan asks what a desired-state document would change if it were put as that set. An empty name means a set that does
// not exist yet. Nothing changes.
func (c *Client) Plan(ctx context.Context, set string, document []byte) (api.Plan, error) {
	var out api.Plan
	in := call{method: http.MethodPost, path: "/v1/plan", body: notNil(document), header: yamlHeader("")}
	if set != "" {
		in.query = url.Values{"set": {set}}
	}
	return out, c.json(ctx, in, nil, &out)
}

// PutSet replaces a named set of desired state. With a non-empty ifMatch, an ETag of Set or "*", it is a Conflict if
// the set is another one now or missing.
func (c *Client) PutSet(ctx context.Context, name, ifMatch string, document []byte) (api.Set, error) {
	var out api.Set
	in := call{method: http.MethodPut, path: setPath(name), body: notNil(document), header: yamlHeader(ifMatch)}
	return out, c.json(ctx, in, nil, &out)
}

// Set returns a set's document, byte for byte, and its ETag.
func (c *Client) Set(ctx context.Context, name string) (document []byte, etag string, err error) {
	b, h, err := c.bytes(ctx, call{method: http.MethodGet, path: setPath(name)})
	if err != nil {
		return nil, "", err
	}
	return b, strings.Trim(h.Get("ETag"), `"`), nil
}

// Sets lists the sets without their documents.
func (c *Client) Sets(ctx context.Context) ([]api.Set, error) {
	var out api.SetList
	err := c.json(ctx, call{method: http.MethodGet, path: "/v1/desired"}, nil, &out)
	return out.Sets, err
}

// DeleteSet withdraws a set. It does not change the set's guests.
func (c *Client) DeleteSet(ctx context.Context, name string) error {
	return c.json(ctx, call{method: http.MethodDelete, path: setPath(name)}, nil, nil)
}

func setPath(name string) string { return "/v1/desired/" + url.PathEscape(name) }

func yamlHeader(ifMatch string) map[string]string {
	h := map[string]string{"Content-Type": "application/yaml"}
	switch ifMatch {
	case "", "*":
		h["If-Match"] = ifMatch
	default:
		h["If-Match"] = `"` + ifMatch + `"`
	}
	return h
}

// notNil makes an empty document a body, so that the daemon refuses it.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
