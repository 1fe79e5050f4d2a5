package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// checked keeps what the audit log said so far. Each check reads what is new, so
// that it costs no more on a long log.
type checked struct {
	*machine
	ledger *ledger
	log    *replay
	wrongs []string                  // in the log
	guests map[op.Incarnation]string // how each was, when its processes were looked for
}

func newChecked(m *machine, l *ledger) *checked {
	return &checked{machine: m, ledger: l, log: newReplay()}
}

// check lets the daemon finish what may run, and then compares what the ledger
// knows with what is there. It returns what it found.
func (c *checked) check(life int, r *rand.Rand) []string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	wrong := append(c.settle(ctx), c.resend(ctx, c.ledger.someSpent(r))...)
	for _, w := range wrong {
		c.t.Errorf("life %d: %s", life, w)
	}
	c.sound(fmt.Sprintf("settled after start %d", life))
	return wrong
}

// settle waits until nothing is under way, and says what is wrong then.
func (c *checked) settle(ctx context.Context) (wrong []string) {
	for still := false; !still; {
		c.quiet(ctx)
		c.readLog(ctx)
		wrong = c.wrong(ctx)
		still = c.still(ctx)
	}
	return append(wrong, c.wrongs...)
}

// everything compares all that was ever told with what is there: for the end.
func (c *checked) everything() {
	ctx, cancel := context.WithTimeout(context.Background(), 4*patience)
	defer cancel()
	jobs := map[string]api.Job{}
	for after := ""; ; {
		list := must.Get(c.client.Jobs(ctx, client.JobQuery{After: after}))(c.t)
		for _, j := range list.Jobs {
			jobs[j.ID] = j
		}
		if list.Next == nil {
			break
		}
		after = *list.Next
	}
	for _, w := range append(checkJobs(c.ledger.over, jobs), c.resend(ctx, c.ledger.spent())...) {
		c.t.Errorf("in the end: %s", w)
	}
}

// quiet waits until no step may run any more.
func (c *checked) quiet(ctx context.Context) {
	for open := c.open(ctx); len(open) > 0; open = c.open(ctx) {
		for _, j := range open {
			_, err := c.client.AwaitJob(ctx, j.ID, func(j api.Job) bool { return !j.State.Open() || j.State == op.StatePending })
			require.NoError(c.t, err, "%s does not end\n%s", j.ID, c.machine.log.String())
		}
	}
}

func (c *checked) readLog(ctx context.Context) {
	require.NoError(c.t, c.client.Events(ctx, c.log.seq, false, func(e api.Entry) error {
		var x entry
		if err := json.Unmarshal(e.Raw, &x); err != nil {
			return err
		}
		c.wrongs = append(c.wrongs, c.log.add(x)...)
		return nil
	}))
}

// still reports whether nothing was decided since the log was read: then what
// was seen meanwhile, in several looks, is one state. Desired state may be at
// work after the jobs of the story have ended. A guest's process may end by
// itself, which the log does not say.
func (c *checked) still(ctx context.Context) bool {
	under := len(c.open(ctx)) // first: what ends later moves the head
	head := must.Get(c.client.AuditHead(ctx))(c.t)
	return under == 0 && head.Seq == c.log.seq && maps.Equal(c.guests, statesOf(must.Get(c.client.Guests(ctx))(c.t)))
}

func statesOf(guests []api.Guest) map[op.Incarnation]string {
	out := map[op.Incarnation]string{}
	for _, g := range guests {
		out[g.Incarnation] = g.State
	}
	return out
}

// open returns the jobs of which something may run or runs.
func (c *checked) open(ctx context.Context) []api.Job {
	var out []api.Job
	for _, state := range []op.State{op.StatePlanned, op.StateAuthorized, op.StateDispatched} {
		list := must.Get(c.client.Jobs(ctx, client.JobQuery{State: state}))(c.t)
		for _, j := range list.Jobs {
			if state == op.StateDispatched || !held(j) {
				out = append(out, j)
			}
		}
	}
	return out
}

// held reports whether a job waits for people, whatever else of it is decided.
func held(j api.Job) bool {
	return slices.ContainsFunc(j.Steps, func(s api.Step) bool { return s.State == op.StatePending })
}

// resend sends approvals that were accepted once more, both ways.
func (c *checked) resend(ctx context.Context, list []*signature) []string {
	var wrong []string
	for _, a := range list {
		if a.request != "" { // what was signed before it was asked for may have one that nobody was told of
			_, err := c.client.Approve(ctx, a.request, a.envelope)
			wrong = append(wrong, checkReplay(a.request, err)...)
		}
		_, err := c.client.SubmitSigned(ctx, a.envelope)
		wrong = append(wrong, checkReplay(a.request, err)...)
	}
	return wrong
}

// told compares the jobs that callers were told of since the last time, or whose
// end they were not told of yet.
func (c *checked) told(ctx context.Context) []string {
	now := map[string]api.Job{}
	for id := range c.ledger.jobs {
		j, err := c.client.Job(ctx, id)
		if errors.Is(err, refusal.UnknownTarget) {
			continue
		}
		require.NoError(c.t, err)
		now[id] = j
	}
	wrong := checkJobs(c.ledger.jobs, now)
	for id, j := range now {
		if !j.State.Open() {
			c.ledger.ended(j)
		} else {
			c.ledger.jobs[id] = j
		}
	}
	return wrong
}

func (c *checked) wrong(ctx context.Context) []string {
	wrong := c.told(ctx)
	guests := must.Get(c.client.Guests(ctx))(c.t)
	c.guests = statesOf(guests)
	wrong = append(wrong, checkGuests(c.ledger.files, c.log, c.look)...)
	wrong = append(wrong, checkProcesses(c.processes(), guests)...)
	wrong = append(wrong, c.checkSets(ctx)...)
	wrong = append(wrong, c.checkHeld(ctx)...)
	return append(wrong, c.leftovers()...)
}

func (c *checked) checkSets(ctx context.Context) (wrong []string) {
	for name, etags := range c.ledger.sets {
		_, etag, err := c.client.Set(ctx, name)
		if err != nil && !errors.Is(err, refusal.UnknownTarget) || !slices.Contains(etags, strings.Trim(etag, `"`)) {
			wrong = append(wrong, fmt.Sprintf("the set %s is not as it was put: %q %v", name, etag, err))
		}
	}
	return wrong
}

// leftovers finds what unfinished work has left in the state directory.
func (c *checked) leftovers() (wrong []string) {
	for _, pattern := range []string{"guests/.new-*", "guests/.trash/.new-*", "guests/*/.new-*", ".backup-*", "*.tmp", "*.restoring*"} {
		left := must.Get(filepath.Glob(filepath.Join(c.state, pattern)))(c.t)
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
