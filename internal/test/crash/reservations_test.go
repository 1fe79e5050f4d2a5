package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/linear"
	"gated/internal/test/must"
)

// histories makes a longer run: go test ./internal/test/crash -run TestReservations -histories 100
var histories = flag.Int("histories", 4, "how many histories of reservations are told, with two kills each")

// shortest is the shortest time that a reservation may have.
const shortest = 10 * time.Second

// TestReservationsAcrossKills has agents reserve, renew, release, transfer,
// check, list and end over the socket while the daemon is killed and started
// again, and looks for an order in which all of it could have been answered. What
// was asked when it was killed took effect or did not. In the end everything is
// claimed by somebody who waits: nothing is held longer than its time.
func TestReservationsAcrossKills(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(*seed, 1))
	m := newMachine(t)
	m.start()
	lost, operations := 0, 0
	for n := range *histories {
		h := newHolders(t, m, fmt.Sprintf("checkout%d", n))
		history := &linear.History{Gate: h, Now: time.Now}
		h.goes(true)
		traffic := linear.Traffic{Seed: r.Uint64(), Prefix: fmt.Sprintf("h%d-agent", n), Agents: 6, Calls: 25, TTL: shortest, Spread: time.Second}
		if n%2 == 1 {
			traffic.Waits = time.Second
		}
		var wg sync.WaitGroup
		wg.Go(func() { traffic.Run(history) })
		for range 2 {
			h.untilStruck(1 + r.Int64N(60))
			h.goes(false)
			m.kill()
			m.sound("after a kill")
			m.start()
			h.goes(true)
		}
		wg.Wait()
		if n == *histories-1 {
			free(t, history)
		}
		verdict, stuck := history.Verdict(patience)
		require.Equal(t, "Ok", string(verdict), "seed %d, history %d: %s\n%s", *seed, n, stuck, history)
		for _, o := range history.Ops() {
			if operations++; o.Lost {
				lost++
			}
		}
		m.sound("after a history")
		h.dismiss()
	}
	t.Logf("%d histories, %d operations, %d of them lost", *histories, operations, lost)
}

// untilStruck waits until so many more answers have come, or the time for it is
// over: then the kill is at the end of everything.
func (h *holders) untilStruck(more int64) {
	now, at := make(chan bool), h.answers.Load()+more
	var once sync.Once
	h.mu.Lock()
	h.strike = func(answers int64) {
		if answers >= at {
			once.Do(func() { close(now) })
		}
	}
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-now:
	case <-ctx.Done():
		h.t.Error("the moment for the kill did not come")
	}
}

// dismiss ends every agent whose token is known, and every other one that has
// nothing: a uid may not have any number of them.
func (h *holders) dismiss() {
	agents := must.Get(h.m.client.Agents(h.t.Context()))(h.t)
	for _, a := range agents {
		if _, err := h.client(a.Name).Unregister(h.t.Context(), a.Name); err != nil {
			require.ErrorIs(h.t, err, refusal.NotHolder)
		}
	}
}

// free has somebody who waits get everything: each of the others ends by its
// time, if not before.
func free(t *testing.T, h *linear.History) {
	all, ok := linear.SetOf(0, []string{"a/**", "b/*", "{b/2.md,c}"})
	require.True(t, ok)
	last := h.Client(100)
	require.Equal(t, linear.Answer{}, last.Do(linear.Call{Kind: linear.Register, Agent: "last"}))
	answer := last.Do(linear.Call{Kind: linear.Reserve, Agent: "last", Set: all, TTL: shortest, Wait: 3 * shortest})
	require.Empty(t, answer.Refused, "something is stuck: %s", answer)
	require.Len(t, answer.Held, 1)
}
