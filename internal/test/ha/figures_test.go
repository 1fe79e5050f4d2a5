package ha

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/test/must"
)

// sizes is how much the figures measure. Without GATED_LEDGER a test only finds out whether they can be measured.
func sizes(t *testing.T) size {
	text := os.Getenv("GATED_LEDGER")
	if text == "" {
		return size{64, 1}
	}
	return size{must.Get(strconv.Atoi(text))(t), 5}
}

// figure prints a line that make bench reads.
func figure(t *testing.T, name string, value float64, unit string) {
	t.Logf("figure: %s | %g | %s", name, value, unit)
}

// TestTimes measures how long a gate does not decide: after the promotion of a standby server, and after the end of the
// active member. Callers ask all the time. A job that was acknowledged may not be lost.
func TestTimes(t *testing.T) {
	w := newWorld(t)
	a := w.first()
	a.serve(api.RoleActive)
	b := w.join("node2", a)
	b.serve(api.RoleStandby)

	asked := &asking{member: a, told: make(chan string)}
	ctx, stop := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() { asked.on(ctx) })
	}
	jobs := []string{<-asked.told}
	w.pair.First.Kill(t)
	w.pair.Second.Promote(t)
	w.pair.Second.Standby(t, "third", w.pair.Second.Port)
	w.pair.Second.Set(t, "synchronous_standby_names", "third")
	w.pair.Second.Synchronous(t)
	began := time.Now()
	for range 20 { // more than what was told before and waits here
		jobs = append(jobs, <-asked.told)
	}
	figure(t, "promotion", float64(time.Since(began).Milliseconds()), "ms")
	stop()
	callers.Wait()

	a.kill()
	began = time.Now()
	asked.member = b
	require.Eventually(t, func() bool {
		id, err := asked.once(t.Context())
		jobs = append(jobs, id)
		return err == nil
	}, patience, 20*time.Millisecond)
	figure(t, "takeover after the lease", float64((time.Since(began) - lease).Milliseconds()), "ms")

	lost := 0
	for _, id := range slices.DeleteFunc(jobs, func(id string) bool { return id == "" }) {
		if _, err := b.client.Job(t.Context(), id); err != nil {
			t.Error(id, err)
			lost++
		}
	}
	figure(t, "acknowledged and lost", float64(lost), "")
}

// asking has callers ask for new guests.
type asking struct {
	member *member
	asked  atomic.Int64
	told   chan string // the ids of the jobs that were acknowledged
}

// once asks once, and returns the job's id.
func (a *asking) once(ctx context.Context) (string, error) {
	name, target := "guest.create", fmt.Sprint("guest/g", a.asked.Add(1))
	j, err := a.member.client.Submit(ctx, api.Submit{Op: &name, Target: &target, Reason: "figures"}, "")
	return j.ID, err
}

// on asks until ctx ends.
func (a *asking) on(ctx context.Context) {
	for ctx.Err() == nil {
		id, err := a.once(ctx)
		if err != nil {
			continue
		}
		select {
		case a.told <- id:
		case <-ctx.Done():
		}
	}
}
