package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gated/client/api"
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
	State api.State
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

// Requests lists requests that wait for operators, and those that ended recently; with a state, those in it. It reads
// all pages.
func (c *Client) Requests(ctx context.Context, state api.State) ([]api.Request, error) {
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

// RequestPage lists at most limit requests that wait or ended recently, from after the given one, and after which to
// ask next.
func (c *Client) RequestPage(ctx context.Context, after string, limit int) (api.RequestList, error) {
	var out api.RequestList
	in := call{method: http.MethodGet, path: "/v1/requests", query: pageQuery(after, limit)}
	return out, c.json(ctx, in, nil, &out)
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

// lingerTime is how long the daemon may still answer after the caller has ended its input.
const lingerTime = time.Minute

// Relay connects to the gate of the options as every client does. It copies in to the gate, and the gate's answers to
// out. When in ends, the gate has a minute to end its answer. When the gate ends, Relay ends, whatever in does. It is
// the other half of Options.Remote. Errors are *Unreachable, those of New, ctx's, and those of out.
func Relay(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	o.Token, o.ReadToken = "", nil // the relayed requests have the caller's own token
	c, err := New(o)
	if err != nil {
		return err
	}
	conn, err := c.dialUnix(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing is under way any more
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	go func() {
		// The copy back notices that a gate is gone.
		_, _ = io.Copy(conn, in)
		_ = conn.CloseWrite()
		time.AfterFunc(lingerTime, func() { _ = conn.Close() })
	}()
	_, err = io.Copy(out, conn)
	var broke *net.OpError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &broke):
		return c.broken(ctx, err)
	case err != nil:
		return fmt.Errorf("pass on what the gate answered: %w", err)
	}
	return nil
}

// AcceptAlert ends, for an operator, the canary's alert about the change of that audit entry. It is UnknownTarget if
// there is no such alert.
func (c *Client) AcceptAlert(ctx context.Context, change int64) error {
	return c.json(ctx, call{method: http.MethodPost, path: fmt.Sprintf("/v1/canary/%d/accept", change)}, nil, nil)
}

// Reload has the daemon read gated.yaml and its revocation file again, for an operator, and returns what changed. If it
// is refused, what was in force stays.
func (c *Client) Reload(ctx context.Context) (r api.Reloaded, err error) {
	err = c.json(ctx, call{method: http.MethodPost, path: "/v1/reload"}, nil, &r)
	return r, err
}

// TakeOver has a standby become the gate's active member, for an operator. It returns before that is done: Status says when
// the member decides. It is Conflict for a gate of one host, and for a member that decides already.
func (c *Client) TakeOver(ctx context.Context) error {
	return c.json(ctx, call{method: http.MethodPost, path: "/v1/takeover"}, nil, nil)
}
