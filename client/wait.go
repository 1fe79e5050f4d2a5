package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"gated/client/api"
	"gated/internal/base/refusal"
)

// WaitJob returns the job as soon as it stands as until says, or has ended. The daemon waits: each call lasts until then,
// or for api.MaxWait seconds. If the daemon stops, WaitJob goes on with the next one, as Events does. If the daemon has no
// place for another wait (OverLimit), WaitJob reads the job every few seconds until it has one. When ctx ends, it returns
// the job as last read, with ctx's error.
func (c *Client) WaitJob(ctx context.Context, id string, until api.Until) (api.Job, error) {
	if err := until.Check(); err != nil {
		return api.Job{}, err
	}
	var job api.Job
	read := false
	r := resumption{c: c, pause: resumePause}
	var without placeless
	for !read || !until.Met(job) {
		if err := without.rest(ctx); err != nil {
			return job, err
		}
		ask := func() (api.Job, error) { return c.jobThen(ctx, id, until) }
		if r.lost || !read || without.left > 0 { // an answer at once tells that the daemon is back
			ask = func() (api.Job, error) { return c.Job(ctx, id) }
		}
		now, err := ask()
		switch {
		case ctx.Err() != nil:
			return job, ctx.Err()
		case err == nil:
			r.opened()
			r.begin()
			job, read = now, true
			continue
		case errors.Is(err, refusal.OverLimit):
			r.opened()
			r.begin()
			without.begin()
			continue
		case !c.resumable(err) && !errors.Is(err, refusal.Unavailable):
			return job, err
		}
		if err := r.again(ctx, err); err != nil {
			return job, err
		}
	}
	return job, nil
}

// jobThen asks once how a job stands as soon as until accepts that, or the longest wait is over.
func (c *Client) jobThen(ctx context.Context, id string, until api.Until) (api.Job, error) {
	v := url.Values{"wait_seconds": {strconv.Itoa(api.MaxWait)}, "until": {string(until)}}
	var out api.Job
	in := call{method: http.MethodGet, path: "/v1/jobs/" + url.PathEscape(id), query: v, wait: api.MaxWait * time.Second}
	return out, c.json(ctx, in, nil, &out)
}
