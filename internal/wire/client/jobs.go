package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"gated/internal/base/op"
	"gated/internal/wire/api"
)

// Status asks for the daemon's state.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	var out api.Status
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/status"}, nil, &out)
}

// Ops returns the catalogue of operations.
func (c *Client) Ops(ctx context.Context) ([]api.Op, error) {
	var out api.OpList
	err := c.json(ctx, call{method: http.MethodGet, path: "/v1/ops"}, nil, &out)
	return out.Ops, err
}

// Submit hands in a job. A job that waits for a signature is not an error: its State is pending_signature, and Request
// and Error say why it waits. With a key, a repeat of the same submission returns the first answer.
func (c *Client) Submit(ctx context.Context, s api.Submit, idempotencyKey string) (api.Job, error) {
	var out api.Job
	in := call{method: http.MethodPost, path: "/v1/jobs", header: map[string]string{"Idempotency-Key": idempotencyKey}}
	return out, c.json(ctx, in, s, &out)
}

// JobQuery narrows a list of jobs. The zero value asks for the first page of
// all.
type JobQuery struct {
	State op.State
	After string // a job's id, j12
	Limit int    // 0: the daemon's choice
}

// Jobs lists jobs, oldest first.
func (c *Client) Jobs(ctx context.Context, q JobQuery) (api.JobList, error) {
	v := url.Values{}
	if q.State != "" {
		v.Set("state", string(q.State))
	}
	if q.After != "" {
		v.Set("after", q.After)
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	var out api.JobList
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/jobs", query: v}, nil, &out)
}

// Job shows one job, j12.
func (c *Client) Job(ctx context.Context, id string) (api.Job, error) {
	var out api.Job
	return out, c.json(ctx, call{method: http.MethodGet, path: "/v1/jobs/" + url.PathEscape(id)}, nil, &out)
}

// Cancel withdraws a job of the caller's.
func (c *Client) Cancel(ctx context.Context, id string) (api.Job, error) {
	var out api.Job
	return out, c.json(ctx, call{method: http.MethodDelete, path: "/v1/jobs/" + url.PathEscape(id)}, nil, &out)
}

// Classify asks for the class of a step. Nothing changes.
func (c *Client) Classify(ctx context.Context, a api.Ask) (api.Explanation, error) {
	var out api.Explanation
	return out, c.json(ctx, call{method: http.MethodPost, path: "/v1/classify"}, a, &out)
}
