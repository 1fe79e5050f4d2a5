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

	"gated/internal/api"
)

// seed makes a run the same as far as it can be: which moments are chosen. What
// the machine does up to them is its own.
var seed = flag.Uint64("seed", 20260301, "which moments TestRandomKills chooses")

// TestRandomKills kills the daemon at a random moment, starts it again and
// checks everything, fifty times on one state directory.
func TestRandomKills(t *testing.T) {
	kills := 50
	if testing.Short() {
		kills = 10
	}
	t.Logf("seed %d, %d kills", *seed, kills)
	r := rand.New(rand.NewPCG(*seed, 0))
	m, l := newMachine(t), newLedger()
	c := newChecked(m, l)
	m.start()
	began := time.Now()
	for life := 1; life <= kills; life++ {
		s := &story{machine: m, ledger: l, life: life, opsign: life%5 == 0}
		s.untilKilled(r)
		m.sound(fmt.Sprintf("after kill %d, before the start", life))
		m.start()
		c.check(life, r)
		if t.Failed() {
			t.Fatalf("after kill %d of seed %d; the daemon's log:\n%s", life, *seed, m.log.String())
		}
		l.answers += int(s.answer.Load())
	}
	c.everything()
	at := c.log.kinds
	require.Positive(t, len(l.spent()))
	require.Positive(t, at["dispatched"])
	t.Logf("%d kills in %s; %d answers, %d jobs, %d approvals (%d accepted), %d guests with files, %d audit entries: %v", kills,
		time.Since(began).Round(time.Millisecond), l.answers, len(l.jobs)+len(l.over), len(l.approvals), len(l.spent()), len(l.files), c.log.seq, at)
}

// untilKilled tells the story until the moment that was chosen for the kill: so
// many audit entries, as the event stream shows them, or so many answers.
func (s *story) untilKilled(r *rand.Rand) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	now := make(chan bool)
	var once sync.Once
	strike := func() { once.Do(func() { close(now) }) }
	s.strike = func(int64) {}
	if n := 1 + r.IntN(60); r.IntN(2) == 0 {
		head, err := s.client.AuditHead(ctx)
		require.NoError(s.t, err)
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
	told := make(chan bool)
	go func() { defer close(told); s.tell(ctx, r) }()
	select {
	case <-now:
	case <-ctx.Done():
		s.t.Error("the moment for the kill did not come")
	}
	s.kill()
	cancel()
	<-told
	s.client.Close()
}
