package reconcile

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
)

// fakeTime is a clock that tests move. What is due runs in the call that moves
// it.
type fakeTime struct {
	mu     sync.Mutex
	t      time.Time
	timers map[*fakeTimer]bool
}

type fakeTimer struct {
	at time.Time
	f  func()
}

func newTime() *fakeTime {
	return &fakeTime{t: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), timers: map[*fakeTimer]bool{}}
}

func (c *fakeTime) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *fakeTime) after(d time.Duration, f func()) func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &fakeTimer{at: c.t.Add(d), f: f}
	c.timers[t] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.timers, t)
	}
}

func (c *fakeTime) pass(d time.Duration) {
	c.mu.Lock()
	c.t = c.t.Add(d)
	var due []func()
	for t := range c.timers {
		if !t.at.After(c.t) {
			due = append(due, t.f)
			delete(c.timers, t)
		}
	}
	c.mu.Unlock()
	for _, f := range due {
		f()
	}
}

func guestTarget(name string) op.Target { return op.Target{Kind: "guest", Name: name} }

func TestQueueHandsOutOnceAndAgain(t *testing.T) {
	c := newTime()
	q := newQueue(c.now, c.after)
	a, b := guestTarget("a"), guestTarget("b")
	q.add(a)
	q.add(a)
	q.add(b)
	got, ok := q.get()
	require.True(t, ok)
	require.Equal(t, a, got)
	q.add(a) // while it is worked on
	q.add(a)
	got, _ = q.get()
	require.Equal(t, b, got, "a is worked on")
	q.done(a)
	got, _ = q.get()
	require.Equal(t, a, got, "what came while it was worked on is not lost")
	q.done(a)
	q.done(b)
	waiting, busy, later := q.depth()
	require.Equal(t, [3]int{}, [3]int{waiting, busy, later})
}

func TestQueueUrgentFirstAndRoutineNotStarved(t *testing.T) {
	c := newTime()
	q := newQueue(c.now, c.after)
	for i := range 100 {
		q.add(guestTarget(fmt.Sprintf("r%d", i)))
	}
	q.addUrgent(guestTarget("r99"))
	got, _ := q.get()
	require.Equal(t, "r99", got.Name, "waking moves it to the front")
	q.done(got)
	routines := 0
	for i := range 80 {
		q.addUrgent(guestTarget(fmt.Sprintf("u%d", i)))
		got, _ := q.get()
		if got.Name[0] == 'r' {
			routines++
		}
		q.done(got)
	}
	require.Equal(t, 80/everyRoutine, routines)
}

func TestQueueDelays(t *testing.T) {
	c := newTime()
	q := newQueue(c.now, c.after)
	a := guestTarget("a")
	q.addAfter(a, 10*time.Second)
	q.addAfter(a, 5*time.Second)
	q.addAfter(a, 8*time.Second)
	waiting, _, later := q.depth()
	require.Equal(t, [2]int{0, 1}, [2]int{waiting, later})
	c.pass(5*time.Second - 1)
	waiting, _, _ = q.depth()
	require.Zero(t, waiting)
	c.pass(1)
	waiting, _, later = q.depth()
	require.Equal(t, [2]int{1, 0}, [2]int{waiting, later}, "the shortest counts, the others are gone")
	q.addAfter(guestTarget("b"), time.Second)
	q.close()
	require.Empty(t, c.timers)
	_, ok := q.get()
	require.False(t, ok)
	q.add(guestTarget("c"))
	q.addAfter(guestTarget("c"), time.Second)
	require.Empty(t, c.timers)
}

// Many goroutines add, several work: no target is with two workers at a time,
// and whatever is added is worked on after it was added.
func TestQueueUnderRace(t *testing.T) {
	q := newQueue(time.Now, func(d time.Duration, f func()) func() { return func() { time.AfterFunc(d, f).Stop() } })
	const targets, adders, adds, workers = 16, 8, 2000, 4
	var at [targets]atomic.Int64   // workers on it
	var want [targets]atomic.Int64 // the newest version that was added
	var have [targets]atomic.Int64 // the newest version that a worker saw
	var workersDone, addersDone sync.WaitGroup
	for range workers {
		workersDone.Go(func() {
			for {
				x, ok := q.get()
				if !ok {
					return
				}
				var i int
				_, _ = fmt.Sscanf(x.Name, "t%d", &i)
				if at[i].Add(1) != 1 {
					t.Error("two workers on one target")
				}
				have[i].Store(want[i].Load())
				at[i].Add(-1)
				q.done(x)
			}
		})
	}
	for a := range adders {
		addersDone.Go(func() {
			for n := range adds {
				i := (n*7 + a) % targets
				want[i].Add(1)
				if n%3 == 0 {
					q.addUrgent(guestTarget(fmt.Sprintf("t%d", i)))
				} else {
					q.add(guestTarget(fmt.Sprintf("t%d", i)))
				}
			}
		})
	}
	addersDone.Wait()
	require.Eventually(t, func() bool {
		waiting, busy, _ := q.depth()
		return waiting == 0 && busy == 0
	}, time.Minute, time.Millisecond)
	q.close()
	workersDone.Wait()
	for i := range targets {
		require.Equal(t, want[i].Load(), have[i].Load(), "target %d", i)
	}
}

// Against a model: whatever the order of calls, what was added and not handed
// out since is handed out once, and nothing else is.
func TestQueueAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newTime()
		q := newQueue(c.now, c.after)
		pending, busy := map[op.Target]bool{}, map[op.Target]bool{}
		target := rapid.Custom(func(t *rapid.T) op.Target {
			return guestTarget(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"add":    func(t *rapid.T) { x := target.Draw(t, "t"); q.add(x); pending[x] = true },
			"urgent": func(t *rapid.T) { x := target.Draw(t, "t"); q.addUrgent(x); pending[x] = true },
			"get": func(t *rapid.T) {
				free := false
				for x := range pending {
					free = free || !busy[x]
				}
				if !free {
					t.Skip("it would block")
				}
				x, ok := q.get()
				require.True(t, ok)
				require.True(t, pending[x])
				require.False(t, busy[x])
				delete(pending, x)
				busy[x] = true
			},
			"done": func(t *rapid.T) {
				x := target.Draw(t, "t")
				if !busy[x] {
					t.Skip("nobody has it")
				}
				q.done(x)
				delete(busy, x)
			},
			"": func(t *rapid.T) {
				waiting, working, _ := q.depth()
				require.Equal(t, [2]int{len(pending), len(busy)}, [2]int{waiting, working})
			},
		})
	})
}

func TestBackoff(t *testing.T) {
	require.Equal(t, firstDelay/2, backoff(1, 0))
	require.Equal(t, firstDelay/2, backoff(0, 0))
	require.Equal(t, 2*firstDelay, backoff(3, 0))
	require.Equal(t, maxDelay/2, backoff(1000, 0))
	for n := 1; n < 100; n++ {
		low, high := backoff(n, 0), backoff(n, 0.999999)
		require.Less(t, low, high)
		require.LessOrEqual(t, high, maxDelay)
		require.GreaterOrEqual(t, backoff(n+1, 0), low)
	}
}

func TestRetry(t *testing.T) {
	c := newTime()
	var r retry
	require.Equal(t, firstDelay/2, r.again("a", c.now(), 0))
	require.Equal(t, firstDelay, r.again("a", c.now(), 0))
	require.Equal(t, firstDelay, r.left("a", c.now()))
	require.Zero(t, r.left("b", c.now()), "another key does not wait")
	require.Equal(t, firstDelay/2, r.again("b", c.now(), 0), "another key counts anew")
	c.pass(calm + time.Minute)
	require.Zero(t, r.left("b", c.now()))
	require.Equal(t, firstDelay/2, r.again("b", c.now(), 0), "after a calm time it counts anew")
	require.Zero(t, r.left("b", c.now().Add(-100*time.Hour)), "a clock that was set back holds nothing up")
	require.Zero(t, (*retry)(nil).left("a", c.now()))
}
