package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/internal/api"
	"gated/internal/client"
	"gated/internal/op"
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
	c := &checked{machine: m, ledger: l}
	m.start()
	began := time.Now()
	for life := 1; life <= kills; life++ {
		s := &story{machine: m, ledger: l, life: life, opsign: life%5 == 0}
		s.untilKilled(r)
		m.sound(fmt.Sprintf("after kill %d, before the start", life))
		m.start()
		c.check(life)
		if t.Failed() {
			t.Fatalf("after kill %d of seed %d; the daemon's log:\n%s", life, *seed, m.log.String())
		}
		l.answers += int(s.answer.Load())
	}
	at := map[string]int{}
	for _, e := range c.log {
		at[e.Kind]++
	}
	require.Positive(t, len(l.spent()))
	require.Positive(t, at["dispatched"])
	t.Logf("%d kills in %s; %d answers, %d jobs, %d approvals (%d accepted), %d guests with files, %d audit entries: %v", kills,
		time.Since(began).Round(time.Millisecond), l.answers, len(l.jobs), len(l.approvals), len(l.spent()), len(l.files), len(c.log), at)
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

// checked keeps what has been read of the audit log.
type checked struct {
	*machine
	ledger *ledger
	log    []entry
}

// check lets the daemon finish what may run, and then compares everything that
// the ledger knows with what is there.
func (c *checked) check(life int) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	c.sound(fmt.Sprintf("after start %d", life))
	var wrong []string
	for still := false; !still; {
		jobs := c.quiet(ctx)
		c.readLog(ctx)
		wrong = c.wrong(ctx, jobs)
		still = c.still(ctx)
	}
	for _, w := range append(wrong, c.replayed(ctx)...) {
		c.t.Errorf("life %d: %s", life, w)
	}
	c.sound(fmt.Sprintf("settled after start %d", life))
}

// quiet waits until no step may run any more, and returns all jobs.
func (c *checked) quiet(ctx context.Context) map[string]api.Job {
	for open := c.open(ctx); len(open) > 0; open = c.open(ctx) {
		for _, j := range open {
			_, err := c.client.AwaitJob(ctx, j.ID, func(j api.Job) bool { return !j.State.Open() || j.State == op.StatePending })
			require.NoError(c.t, err, "%s does not end\n%s", j.ID, c.machine.log.String())
		}
	}
	jobs := map[string]api.Job{}
	for after := ""; ; {
		list, err := c.client.Jobs(ctx, client.JobQuery{After: after})
		require.NoError(c.t, err)
		for _, j := range list.Jobs {
			jobs[j.ID] = j
		}
		if list.Next == nil {
			return jobs
		}
		after = *list.Next
	}
}

func (c *checked) readLog(ctx context.Context) {
	require.NoError(c.t, c.client.Events(ctx, int64(len(c.log)), false, func(e api.Entry) error {
		var x entry
		err := json.Unmarshal(e.Raw, &x)
		c.log = append(c.log, x)
		return err
	}))
}

// still reports whether nothing was decided since the log was read: then what
// was seen meanwhile, in several looks, is one state. Desired state may be at
// work after the jobs of the story have ended.
func (c *checked) still(ctx context.Context) bool {
	under := len(c.open(ctx)) // first: what ends later moves the head
	head, err := c.client.AuditHead(ctx)
	require.NoError(c.t, err)
	return under == 0 && head.Seq == int64(len(c.log))
}

// open returns the jobs of which something may run or runs.
func (c *checked) open(ctx context.Context) []api.Job {
	var out []api.Job
	for _, state := range []op.State{op.StatePlanned, op.StateAuthorized, op.StateDispatched} {
		list, err := c.client.Jobs(ctx, client.JobQuery{State: state})
		require.NoError(c.t, err)
		out = append(out, list.Jobs...)
	}
	return out
}

// replayed sends every approval that was accepted once more, both ways.
func (c *checked) replayed(ctx context.Context) []string {
	var wrong []string
	for _, a := range c.ledger.spent() {
		_, err := c.client.Approve(ctx, a.request, a.envelope)
		wrong = append(wrong, checkReplay(a.request, err)...)
		_, err = c.client.SubmitSigned(ctx, a.envelope)
		wrong = append(wrong, checkReplay(a.request, err)...)
	}
	return wrong
}

func (c *checked) wrong(ctx context.Context, jobs map[string]api.Job) []string {
	wrong := append(checkLog(c.log), checkJobs(c.ledger.jobs, jobs)...)
	guests, err := c.client.Guests(ctx)
	require.NoError(c.t, err)
	wrong = append(wrong, checkGuests(c.ledger.files, c.log, c.look)...)
	wrong = append(wrong, checkProcesses(c.processes(), guests)...)
	for name, etags := range c.ledger.sets {
		_, etag, err := c.client.Set(ctx, name)
		if err != nil && !errors.Is(err, op.UnknownTarget) || !slices.Contains(etags, strings.Trim(etag, `"`)) {
			wrong = append(wrong, fmt.Sprintf("the set %s is not as it was put: %q %v", name, etag, err))
		}
	}
	for _, dir := range []string{c.root, filepath.Join(c.root, ".trash")} {
		left, err := filepath.Glob(filepath.Join(dir, ".new-*"))
		require.NoError(c.t, err)
		for _, path := range left {
			wrong = append(wrong, path+" was left behind")
		}
	}
	return wrong
}

// look finds an incarnation in the root or in the trash.
func (c *checked) look(p possession, inc op.Incarnation) seen {
	at := filepath.Join(c.root, p.name)
	if uuid, _, _ := strings.Cut(string(inc), ":"); strings.Contains(string(read(filepath.Join(at, "guest.json"))), uuid) {
		return seen{live, digest(c.t, filepath.Join(at, "data"))}
	}
	at = filepath.Join(c.root, ".trash", p.name+"~"+strings.ReplaceAll(string(inc), ":", "~"))
	if _, err := os.Stat(at); err == nil {
		return seen{trashed, digest(c.t, filepath.Join(at, "data"))}
	}
	return seen{place: gone}
}

func read(path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return b
}
