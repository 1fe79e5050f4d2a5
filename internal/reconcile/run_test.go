package reconcile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/must"
	"gated/internal/wire/desired"
)

// live lets the reconciler of a world work by itself, with time as it is.
func (w *world) live() (stop func()) {
	w.r.Now, w.r.After, w.r.Random = nil, nil, nil
	w.r.setDefaults()
	w.r.queue, w.r.shares = newQueue(w.r.Now, w.r.After), newShares(w.r.Workers)
	ctx, cancel := context.WithCancel(w.ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.r.Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	w.t.Cleanup(stop)
	return stop
}

func (w *world) eventually(what func() bool) {
	w.t.Helper()
	require.Eventually(w.t, what, time.Minute, time.Millisecond)
}

func TestRunFollowsADirectory(t *testing.T) {
	w := newWorld(t)
	dir := must.Get(NewDir(t.TempDir(), time.Minute, time.Now))(t)
	t.Cleanup(func() { _ = dir.Close() })
	w.r.Sources, w.r.sources = []Source{dir}, make([]sourceState, 1)
	put := func(name, guests string) {
		tmp := filepath.Join(dir.path, ".tmp")
		require.NoError(t, os.WriteFile(tmp, []byte("apiVersion: gated/v1\nhost: pve1\nguests: "+guests+"\n"), 0o644))
		require.NoError(t, os.Rename(tmp, filepath.Join(dir.path, name)))
	}
	w.live()
	w.eventually(func() bool { return len(w.r.Status().Sources) == 1 && w.r.Status().Sources[0].Error != "" })
	put("one.yaml", "[{name: a, state: running}]")
	w.eventually(func() bool { return w.fleet.has("a") })
	put("two.yaml", "[{name: b, state: running}]")
	w.eventually(func() bool { return w.fleet.has("b") })
	put("one.yaml", "[{name: a, state: absent}]")
	w.eventually(func() bool { return len(w.requests()) == 1 })
	w.approve(w.request())
	w.eventually(func() bool { return !w.fleet.has("a") && len(w.requests()) == 0 })
	put("two.yaml", "[{name: b, state: absent}]")
	w.eventually(func() bool { return len(w.requests()) == 1 })
	require.NoError(t, os.Remove(filepath.Join(dir.path, "two.yaml")))
	w.eventually(func() bool { return len(w.requests()) == 0 && w.r.Status().Sources[0].Guests == 1 })
	require.True(t, w.fleet.has("b"))
	s := w.r.Status()
	require.Equal(t, "dir", s.Sources[0].Name)
	require.False(t, s.RoundAt.IsZero())
}

func TestRunTakesSetsFromTheGate(t *testing.T) {
	w := newWorld(t)
	w.r.Sources = []Source{NewAPI(w.gate)}
	w.live()
	put := func(set, body string) {
		must.Get(w.gate.PutSet(w.ctx, op.Requester{Source: op.SourceAPI}, set, "", []byte(body)))(t)
		w.r.Reread()
	}
	put("one", "apiVersion: gated/v1\nhost: pve1\nguests: [{name: a, state: stopped}]\n")
	w.eventually(func() bool { return w.fleet.has("a") })
	put("one", "apiVersion: gated/v1\nhost: pve1\nguests: [{name: a, state: absent}]\n")
	w.eventually(func() bool { return len(w.requests()) == 1 })
	require.NoError(t, w.gate.DeleteSet(w.ctx, op.Requester{Source: op.SourceAPI}, "one"))
	w.r.Reread()
	w.eventually(func() bool { return len(w.requests()) == 0 })
	put("one", "broken")
	w.eventually(func() bool { return w.r.Status().Sources[0].Error != "" })
	require.Contains(t, w.r.Status().Sources[0].Error, "one:1:1")
}

// Many targets, several workers, jobs and wishes at once: steps of one target
// never overlap, and everything comes to its end.
func TestRunSerialisesEachTarget(t *testing.T) {
	w := newWorld(t)
	const guests = 12
	var at [guests]atomic.Int32
	var overlaps atomic.Int32
	var all, agents crowd // desired state starts what an agent stops: they are two requesters, and each has its own bound
	w.fleet.after = func(s op.Step) error {
		var i int
		_, _ = fmt.Sscanf(s.Target.Name, "g%d", &i)
		if at[i].Add(1) != 1 {
			overlaps.Add(1)
		}
		all.enter()
		defer all.leave()
		if s.Op == "guest.stop" || s.Op == "guest.snapshot" {
			agents.enter()
			defer agents.leave()
		}
		<-time.After(time.Millisecond)
		at[i].Add(-1)
		return nil
	}
	var wishes string
	for i := range guests {
		wishes += fmt.Sprintf("{name: g%d, state: running, cpus: 2}, ", i)
	}
	w.source.put("site", "apiVersion: gated/v1\nhost: pve1\nguests: ["+wishes+"]\n")
	w.live()
	w.eventually(func() bool { return w.r.Status().Queue == QueueStatus{} && w.fleet.has(fmt.Sprintf("g%d", guests-1)) })
	var jobs []op.Job
	for n := range 60 {
		verb := []string{"guest.stop", "guest.start", "guest.snapshot"}[n%3]
		p := op.Params{}
		if verb == "guest.snapshot" {
			p = op.Params{"snapshot": fmt.Sprintf("s%d", n)}
		}
		jobs = append(jobs, w.submit(ask(verb, fmt.Sprintf("g%d", n%guests), p)))
	}
	w.eventually(func() bool {
		for _, j := range jobs {
			if w.job(j.ID).State().Open() {
				return false
			}
		}
		return true
	})
	require.Zero(t, overlaps.Load())
	require.Greater(t, all.most(), 1, "different targets run side by side")
	require.LessOrEqual(t, all.most(), 2*DefaultWorkers)
	require.LessOrEqual(t, agents.most(), DefaultWorkers)
}

// crowd counts how many there are at once.
type crowd struct {
	mu        sync.Mutex
	now, high int
}

func (c *crowd) enter() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now++
	c.high = max(c.high, c.now)
}

func (c *crowd) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
}

func (c *crowd) most() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.high
}

// The end of the daemon does not cut a step off that has begun, and begins no
// other.
func TestRunEndsWhenStepsAreRecorded(t *testing.T) {
	w := newWorld(t)
	began, goOn := make(chan struct{}), make(chan struct{})
	w.fleet.after = func(s op.Step) error {
		if s.Target.Name == "a" {
			close(began)
			<-goOn
		}
		return nil
	}
	w.fleet.make("a", running, nil)
	w.r.Workers = 1
	stop := w.live()
	w.submit(ask("guest.stop", "a", nil))
	<-began
	w.submit(ask("guest.snapshot", "a", op.Params{"snapshot": "s"}))
	stopped := make(chan struct{})
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
		t.Fatal("it ended while a step ran")
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	<-stopped
	require.Equal(t, op.StateSucceeded, w.job(1).Steps[0].State)
	require.Equal(t, op.StatePlanned, w.job(2).Steps[0].State)
}

func TestASourceOfSetsParsesWhatChanged(t *testing.T) {
	w := newWorld(t)
	api := NewAPI(w.gate)
	require.Equal(t, "api", api.Name())
	docs := must.Get(api.Read(w.ctx))(t, "no set is a whole read: operators delete sets")
	require.Empty(t, docs)
	body := []byte("apiVersion: gated/v1\nhost: pve1\nguests: [{name: a}]\n")
	must.Get(w.gate.PutSet(w.ctx, op.Requester{Source: op.SourceAPI}, "one", "", body))(t)
	docs = must.Get(api.Read(w.ctx))(t)
	first := docs[0].Doc
	require.Equal(t, []desired.Guest{{Name: "a", Fields: op.Params{}, Line: 3, Column: 10}}, first.Guests)
	docs = must.Get(api.Read(w.ctx))(t)
	require.Same(t, &first.Guests[0], &docs[0].Doc.Guests[0])
}
