package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/service"
	"gated/internal/wire/convert"
)

// job answers how a job stands. With wait_seconds, it answers when the job stands as the caller asks, or when the time
// is up.
func (s *Server) job(c *call) (answer, error) {
	id, err := op.ParseJobID(c.r.PathValue("id"))
	if err != nil {
		return answer{}, ownRefusal(err)
	}
	wait, until, err := c.waitQuery()
	if err != nil {
		return answer{}, err
	}
	if wait == 0 {
		_, a, err := s.look(c, c.ctx, id, until)
		return a, err
	}
	lasting, end, err := s.lasting(c, s.jobWaits, 0)
	if err != nil {
		return answer{}, err
	}
	defer end()
	a, err := s.waitForJob(c, lasting, id, wait, until)
	if err != nil && c.r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the caller has hung up
	}
	return a, s.unlessStopped(err)
}

// waitForJob returns the first answer that until accepts. When the time is up, it returns the answer as it is then.
func (s *Server) waitForJob(c *call, ctx context.Context, id op.JobID, wait time.Duration, until api.Until) (a answer, err error) {
	timed, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err = s.Waits.Until(timed, id, func() (met bool, err error) {
		if met, a, err = s.look(c, ctx, id, until); !met {
			a = answer{} // it is long, and the wait may be
		}
		return met, err
	})
	if errors.Is(err, context.DeadlineExceeded) && timed.Err() != nil && ctx.Err() == nil {
		_, a, err = s.look(c, ctx, id, until)
	}
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // and not what a look made of it
	}
	return a, err
}

// look answers how a job stands now, and reports whether until accepts that. It takes a turn as a list does, and has the
// time of any call.
func (s *Server) look(c *call, ctx context.Context, id op.JobID, until api.Until) (met bool, a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.Limits.Work)
	defer cancel()
	one := *c
	one.ctx = ctx
	a, err = s.inTurn(func(c *call) (answer, error) {
		job, err := service.ShownJob(c.ctx, s.Gate, s.Held, id)
		shown := convert.JobOf(job)
		met = until.Met(shown)
		return ok(shown), err
	})(&one)
	return met, a, err
}

// waitQuery reads how long the caller waits, 0 if it does not, and for what.
func (c *call) waitQuery() (wait time.Duration, until api.Until, err error) {
	if !c.query.Has("wait_seconds") {
		if c.query.Has("until") {
			return 0, "", ownRefusal(refusal.New(refusal.Malformed, "until says for what the call waits, and it does not wait").
				WithHint("add wait_seconds"))
		}
		return 0, api.UntilEnded, nil
	}
	n, err := strconv.Atoi(c.query.Get("wait_seconds"))
	if err != nil || n < 1 || n > api.MaxWait {
		return 0, "", ownRefusal(refusal.New(refusal.Malformed, "wait_seconds is not a number from 1 to %d", api.MaxWait))
	}
	until = api.UntilEnded
	if c.query.Has("until") {
		until = api.Until(c.query.Get("until"))
		if err := until.Check(); err != nil {
			return 0, "", ownRefusal(err)
		}
	}
	return time.Duration(n) * time.Second, until, nil
}
