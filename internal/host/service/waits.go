package service

import (
	"context"
	"sync"

	"gated/internal/base/op"
	"gated/internal/gate"
)

// Waits wakes callers that wait for jobs. The gate tells it of each commit that is about a job. It is safe for
// concurrent use.
type Waits struct {
	mu sync.Mutex
	by map[string]*watched // by the job's id
}

// watched is one job, and the callers that wait for it.
type watched struct {
	more  chan struct{} // closed and replaced after each commit that is about the job
	users int
}

// NewWaits returns waits for the jobs of a gate.
func NewWaits(g *gate.Gate) *Waits {
	w := &Waits{by: map[string]*watched{}}
	g.OnJobs(w.changed)
	return w
}

// changed wakes all callers that wait for these jobs.
func (w *Waits) changed(jobs []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range jobs {
		if j := w.by[id]; j != nil {
			close(j.more)
			j.more = make(chan struct{})
		}
	}
}

// Until calls look at once, and again each time that the job may have changed, until look returns true or an error, or
// ctx ends. It returns the error of look, or the cause of ctx. A change during look is followed by another look.
func (w *Waits) Until(ctx context.Context, id op.JobID, look func() (done bool, err error)) error {
	key := id.String()
	w.join(key)
	defer w.leave(key)
	for {
		more := w.more(key) // taken before the look, so that no change is lost
		done, err := look()
		if done || err != nil {
			return err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Waiting returns how many callers wait, for all jobs together.
func (w *Waits) Waiting() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.by {
		n += j.users
	}
	return n
}

func (w *Waits) join(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j := w.by[key]
	if j == nil {
		j = &watched{more: make(chan struct{})}
		w.by[key] = j
	}
	j.users++
}

func (w *Waits) leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by[key].users--; w.by[key].users == 0 {
		delete(w.by, key)
	}
}

func (w *Waits) more(key string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.by[key].more
}
