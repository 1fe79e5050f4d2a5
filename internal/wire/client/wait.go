package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/wire/api"
)

// WaitJob returns the job as soon as it stands as until says, or has ended. The daemon waits: each call lasts until then,
// or for api.MaxWait seconds. If the daemon stops, WaitJob goes on with the next one, as Events does. When ctx ends, it
// returns the job as last read, with ctx's error.
func (c *Client) WaitJob(ctx context.Context, id string, until api.Until) (api.Job, error) {
	if err := until.Check(); err != nil {
		return api.Job{}, err
	}
	job, err := c.Job(ctx, id)
	if err != nil {
		return job, err
	}
	r := resumption{c: c, pause: resumePause}
	for !until.Met(job) {
		now, err := c.jobThen(ctx, id, until)
		switch {
		case ctx.Err() != nil:
			return job, ctx.Err()
		case err == nil:
			r.opened()
			r.begin()
			job = now
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
