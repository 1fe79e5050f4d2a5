package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// soak makes TestRandomKills go on for that long.
var soak = flag.Duration("soak", 0, "how long TestRandomKills goes on, on one state directory after the other; 0 is fifty kills")

// killsOfState is after how many kills a soak begins a new state directory. What
// it remembers of callers, and what fsck reads after each kill, is bounded by it.
const killsOfState = 250

// tally is what a soak did.
type tally struct {
	began, said                                      time.Time
	states, kills, stops, answers, jobs, spent, seqs int
	backups, claims                                  int
	found                                            figures
}

func (y *tally) String() string {
	return fmt.Sprintf("%d kills and %d stops of %d states in %s: %d answers, %d jobs, %d approvals, %d reservations, %d backups, %d audit entries",
		y.kills, y.stops, y.states, time.Since(y.began).Round(time.Second), y.answers, y.jobs, y.spent, y.claims, y.backups, y.seqs)
}

// progress says once a minute how far it is.
func (y *tally) progress(t *testing.T) {
	if time.Since(y.said) >= time.Minute {
		y.said = time.Now()
		t.Log("soak: ", y)
	}
}

// state tells lives on one state directory until there are enough, or until goes
// is false.
func (y *tally) state(t *testing.T, r *rand.Rand, goes func(kills int) bool) {
	m, l := newMachine(t), newLedger()
	defer m.clear()
	c := newChecked(m, l)
	m.start()
	y.states++
	before := *y
	for life := 1; goes(life - 1); life++ {
		s := &story{machine: m, ledger: l, life: life, opsign: life%5 == 0}
		if y.kills++; !s.untilKilled(r) {
			y.kills--
			y.stops++
		}
		m.sound(fmt.Sprintf("after kill %d, before the start", life))
		m.start()
		y.found.count(c.check(life, r))
		if t.Failed() {
			t.Fatalf("after kill %d of state %d, seed %d; the daemon's log:\n%s", life, y.states, *seed, m.log.String())
		}
		y.answers += int(s.answer.Load())
		y.jobs, y.spent, y.seqs = before.jobs+len(l.jobs)+len(l.over), before.spent+len(l.spent()), before.seqs+int(c.log.seq)
		y.backups, y.claims = before.backups+l.backups, before.claims+l.claimed
		y.progress(t)
	}
	c.everything()
	m.finish()
}

// holding is a reservation that a caller was told of.
type holding struct {
	agents []string // who may have it
	ending bool     // its end was asked for
}

// holder returns the way of an agent of this state to the daemon. Where the answer
// to its registration was lost, so is its token.
func (s *story) holder(ctx context.Context, name string) (*client.Client, error) {
	token := s.ledger.tokens[name]
	if token == "" {
		_, err := s.client.Unregister(ctx, name)
		if s.answered(err); err != nil && !isRefusal(err) {
			return nil, errCut
		}
		got, err := s.client.RegisterAgent(ctx, api.RegisterAgent{Name: name, Token: true})
		if err = s.answered(err); err != nil {
			return nil, err
		}
		token = got.Token
		s.ledger.tokens[name] = token
	}
	return client.New(client.Options{Socket: s.socket, Getenv: func(string) string { return "" }, Token: token})
}

// reserves has agents reserve, renew, transfer and release, one at a time.
func (s *story) reserves(ctx context.Context, r *rand.Rand) error {
	name := fmt.Sprint("agent", r.IntN(3))
	c, err := s.holder(ctx, name)
	if err != nil {
		return err
	}
	defer c.Close()
	ids := slices.Sorted(maps.Keys(s.ledger.held))
	ids = slices.DeleteFunc(ids, func(id string) bool {
		return !slices.Equal(s.ledger.held[id].agents, []string{name}) || s.ledger.held[id].ending
	})
	if len(ids) == 0 || r.IntN(2) == 0 {
		return s.claim(ctx, c, name, r)
	}
	id := ids[r.IntN(len(ids))]
	h := s.ledger.held[id]
	switch r.IntN(3) {
	case 0:
		_, err = c.Renew(ctx, id, time.Hour)
	case 1:
		to := fmt.Sprint("agent", r.IntN(3))
		h.agents = append(h.agents, to)
		if _, err = c.Transfer(ctx, id, to); err == nil {
			h.agents = []string{to}
		} else if isRefusal(err) {
			h.agents = []string{name}
		}
	default:
		h.ending = true
		if _, err = c.Release(ctx, id); err == nil {
			delete(s.ledger.held, id)
		}
	}
	if errors.Is(err, refusal.NotHolder) || errors.Is(err, refusal.UnknownTarget) && !strings.Contains(err.Error(), "agent") {
		s.t.Errorf("%s was told that it has %s: %v", name, id, err)
	}
	return s.answered(err)
}

func (s *story) claim(ctx context.Context, c *client.Client, name string, r *rand.Rand) error {
	dir := filepath.Join(s.dir, "checkout")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	place, err := checkout.At(dir)
	if err != nil {
		return err
	}
	got, err := c.Reserve(ctx, api.Reserve{Scope: place, Patterns: []string{fmt.Sprintf("d%d/**", r.IntN(10))}, TTLSeconds: 7200})
	if err = s.answered(err); err == nil {
		s.ledger.claimed++
		s.ledger.held[got.ID] = &holding{agents: []string{name}}
	}
	return err
}

// isRefusal reports whether the daemon answered, and not with a success.
func isRefusal(err error) bool {
	_, refused := errors.AsType[*refusal.Refusal](err)
	return refused
}

// backsUp makes a backup now and then, which has to be whole if it was told to be.
func (s *story) backsUp(ctx context.Context, r *rand.Rand) error {
	if r.IntN(8) > 0 {
		_, err := s.client.Status(ctx)
		return s.answered(err)
	}
	path := filepath.Join(s.dir, "backup")
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = s.client.Backup(ctx, f)
	if err = s.answered(err); err != nil {
		return err
	}
	s.ledger.backups++
	for _, wrong := range intact(ctx, path) {
		if ctx.Err() == nil {
			s.t.Error(wrong)
		}
	}
	return nil
}

// checkHeld compares the reservations that were told of with those that there
// are. What was asked for and not answered took effect or did not.
func (c *checked) checkHeld(ctx context.Context) (wrong []string) {
	if len(c.ledger.tokens) == 0 {
		return nil
	}
	all := must.Get(c.client.AllReservations(ctx, client.ReservationQuery{}))(c.t)
	there := map[string]api.Reservation{}
	for _, r := range all {
		there[r.ID] = r
	}
	for id, h := range c.ledger.held {
		r, ok := there[id]
		switch {
		case !ok && !h.ending:
			wrong = append(wrong, id+" was told of and is lost")
		case ok && !slices.Contains(h.agents, r.Agent):
			wrong = append(wrong, fmt.Sprintf("%s is %s's and not of %v", id, r.Agent, h.agents))
		}
	}
	clear(c.ledger.held)
	for id, r := range there {
		c.ledger.held[id] = &holding{agents: []string{r.Agent}}
	}
	slices.Sort(wrong)
	return wrong
}
