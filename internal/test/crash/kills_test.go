package crash

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/test/must"
)

// seed makes a run the same as far as it can be: which moments are chosen. What
// the machine does up to them is its own.
var seed = flag.Uint64("seed", 20260301, "which moments TestRandomKills chooses")

// TestRandomKills kills the daemon at a random moment, or stops it now and then,
// starts it again and checks everything: fifty times on one state directory, or
// for as long as -soak says.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	kills := 50
	if testing.Short() {
		kills = 10
	}
	t.Logf("seed %d", *seed)
	r := rand.New(rand.NewPCG(*seed, 0))
	y := &tally{began: time.Now(), said: time.Now()}
	if *soak == 0 {
		// On a busy machine, ten kills may all come before an approval.
		y.state(t, r, func(n int) bool { return n < kills || y.spent == 0 && n < killsOfState })
	}
	for time.Since(y.began) < *soak {
		y.state(t, r, func(n int) bool { return n < killsOfState && time.Since(y.began) < *soak })
	}
	require.Positive(t, y.spent)
	t.Log("in all: ", y)
	t.Logf("reliability: killed at a random moment | everything at once, in a soak | runs %d | lost %d | twice %d", y.kills, y.found.lost, y.found.twice)
}

// untilKilled tells the story until the moment that was chosen for the kill: so
// many audit entries, as the event stream shows them, or so many answers. One
// time in eight it stops the daemon instead, and returns false.
func (s *story) untilKilled(r *rand.Rand) (cut bool) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	now := make(chan bool)
	var once sync.Once
	strike := func() { once.Do(func() { close(now) }) }
	s.strike = func(int64) {}
	if n := 1 + r.IntN(60); r.IntN(2) == 0 {
		head := must.Get(s.client.AuditHead(ctx))(s.t)
		go func() {
			_ = s.client.Events(ctx, head.Seq, true, func(e api.Entry) error {
				if e.Seq >= head.Seq+int64(n) {
					strike()
				}
				return ctx.Err()
			})
		}()
	} else {
		s.strike = func(answers int64) {
			if answers >= int64(n) {
				strike()
			}
		}
	}
	cut = r.IntN(8) > 0 // before the actors draw their seeds
	told := make(chan bool)
	go func() { defer close(told); s.tell(ctx, r) }()
	select {
	case <-now:
	case <-ctx.Done():
		s.t.Error("the moment for the kill did not come")
	}
	if cut {
		s.kill()
	} else {
		s.finish()
	}
	cancel()
	<-told
	s.client.Close()
	return cut
}
