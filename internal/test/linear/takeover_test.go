package linear

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/ledger"
	"gated/internal/ledger/ledgertest"
	"gated/internal/ledger/memory"
	"gated/internal/test/must"
)

// takeoverSeed is the first seed of a run: what a failure prints is told again with -histories 1.
var takeoverSeed = flag.Uint64("takeover-seed", 0, "the first seed of TestTakeoversAreLinearizable")

// keeping is the ledger below one start of a member's store.
type keeping struct {
	*ledger.Keeper
	member *memory.Member
	ledger *memory.Ledger
	doubt  atomic.Bool // a group was left in doubt, so it may be kept later
}

func newKeeping(l *memory.Ledger, wrap func(ledger.Engine) ledger.Engine) *keeping {
	m := l.Member()
	return &keeping{Keeper: ledgertest.Keeper(wrap(m)), member: m, ledger: l}
}

// mayAct is a lease that knows of a takeover at once.
func (k *keeping) mayAct() error {
	p, err := k.ledger.Member().Position(context.Background())
	if err == nil && p.Era != k.Era() {
		err = refusal.New(refusal.Unavailable, "another member took over")
	}
	return err
}

// Settle notes that there was no answer.
func (k *keeping) Settle(stop <-chan struct{}) (bool, error) {
	kept, err := k.Keeper.Settle(stop)
	if err != nil {
		k.doubt.Store(true)
	}
	return kept, err
}

func (k *keeping) open(t *testing.T, path string, o store.Options) *store.Store {
	fscktest.Watch(t, path, o.Migrations)
	o.Keeper, o.Local, o.Rehearse = k, ledger.LocalNames(), true
	//fsck:none Watch has it checked
	return must.Get(store.Open(t.Context(), path, o))(t)
}

// unavailable is the answer of a member that could not decide: nothing happened, unless a group was left in doubt.
func (k *keeping) unavailable() Answer {
	if k.doubt.Load() {
		return Answer{Late: true}
	}
	return Answer{Refused: refusal.Unavailable}
}

// members are two hosts that know one ledger. One of them decides, and the other one may think that it does.
type members struct {
	t      *testing.T
	ledger *memory.Ledger
	clock  *ticking
	wrap   func(ledger.Engine) ledger.Engine // stands before each engine
	paths  [2]string

	busy sync.Mutex // is held by what happens between calls

	mu     sync.Mutex
	r      *rand.Rand
	doubts int      // how often a group was left in doubt
	active int      // which of the two decides
	hosts  [2]*host // nil for one that is down
}

func newMembers(t *testing.T, seed uint64, clock *ticking) *members {
	dir := t.TempDir()
	m := &members{t: t, ledger: memory.New(), clock: clock, r: rand.New(rand.NewPCG(seed, 7)), active: 1,
		wrap:  func(e ledger.Engine) ledger.Engine { return e },
		paths: [2]string{filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")}}
	m.takesOver()
	return m
}

// takesOver has the member begin an era that does not decide. The other one goes on, and does not know of it.
func (m *members) takesOver() {
	m.mu.Lock()
	next := 1 - m.active
	old := m.hosts[next]
	m.hosts[next] = nil
	m.mu.Unlock()
	if old != nil {
		old.close() // from its last time
	}
	h := &host{t: m.t, path: m.paths[next], clock: m.clock, root: "/srv/repo", of: newKeeping(m.ledger, m.wrap)}
	h.open()
	m.mu.Lock()
	m.active, m.hosts[next] = next, h
	m.mu.Unlock()
}

// fault is a fault on the way to the ledger of the member that decides.
func (m *members) fault() {
	m.mu.Lock()
	defer m.mu.Unlock()
	way := m.hosts[m.active].of.member
	switch m.r.IntN(6) {
	case 0:
		way.Order(memory.Lost)
	case 1:
		way.Order(memory.InDoubt)
	case 2:
		way.Order(memory.InDoubtKept)
	case 3:
		way.Order(memory.LateKept)
	case 4: // as often as its keeper asks, so that it stays in doubt. Porcupine tries all that may come of it, so not often
		if m.doubts++; m.doubts > 2 {
			break
		}
		way.Order([]memory.Fault{memory.InDoubt, memory.InDoubtKept, memory.LateKept}[m.r.IntN(3)], memory.Away, memory.Away, memory.Away)
	case 5:
		way.Partition(true)
	}
}

// mend ends a partition.
func (m *members) mend() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hosts[m.active].of.member.Partition(false)
}

// pick is the member that a caller asks: one time in six the one that decided before, if it is there.
func (m *members) pick() *host {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.hosts[1-m.active]; before != nil && m.r.IntN(6) == 0 {
		return before
	}
	return m.hosts[m.active]
}

// Do asks one of the members. What one says that was taken over, or that has a group in doubt, counts only if it changed a row,
// because all else is as old as its database (docs/design/ledger.md). A claim inside what the caller holds may change no row.
func (m *members) Do(c Call) Answer {
	h := m.pick()
	over := h.of.doubt.Load() // a store with a group in doubt begins no other one
	a := h.Do(c)
	if a.Late && over {
		return Answer{Refused: refusal.Unavailable}
	}
	reads := c.Kind == Check || c.Kind == List || a.Renewed || a.Refused != "" && a.Refused != refusal.Unavailable
	if reads && (m.ledgerEra() != h.of.Era() || h.of.doubt.Load()) {
		return Answer{Lost: true}
	}
	return a
}

// close ends both members, and compares each database with the ledger.
func (m *members) close() {
	for i, h := range m.hosts {
		if h == nil {
			continue
		}
		h.close()
		if i == m.active {
			require.NoError(m.t, ledgertest.Compare(m.t.Context(), m.ledger.Member(), m.paths[i], schema))
		}
	}
}

// takenOver is a history of traffic over two members with faults and takeovers, and of a list in the end.
func takenOver(t *testing.T, seed uint64, more func(*members)) (h *History, takeovers int) {
	clock := newTicking(seed)
	m := newMembers(t, seed, clock)
	if more != nil {
		more(m)
	}
	h = &History{Gate: m, Now: clock.now}
	traffic := clock.traffic(seed, 6, 30)
	if seed%3 == 2 {
		traffic.Waits = 5 * time.Millisecond
	}
	traffic.Between = func() {
		clock.tick()
		m.meanwhile()
	}
	traffic.Run(h)
	m.takesOver()
	h.Client(6).Do(Call{Kind: List})
	m.close()
	return h, int(m.ledgerEra())
}

// stuck reports whether the member that decides can decide nothing more.
func (m *members) stuck() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hosts[m.active].of.doubt.Load()
}

// meanwhile is what happens between two calls, while other callers go on: a fault, its end, or a takeover.
func (m *members) meanwhile() {
	if !m.busy.TryLock() {
		return
	}
	defer m.busy.Unlock()
	m.mu.Lock()
	n := m.r.IntN(24)
	m.mu.Unlock()
	switch {
	case m.stuck() || n == 0:
		m.takesOver()
	case n < 4:
		m.fault()
	case n < 10:
		m.mend()
	}
}

// ledgerEra is the newest era, which is the number of takeovers, too.
func (m *members) ledgerEra() uint64 {
	return must.Get(m.ledger.Member().Position(context.Background()))(m.t).Era
}

// TestTakeoversAreLinearizable has six callers ask two members of one gate, which take over from each other in mid-call,
// while answers are lost and members are cut off. What was acknowledged happened, what was told not to have happened did
// not, and all of it has an order.
func TestTakeoversAreLinearizable(t *testing.T) {
	seen, takeovers := map[string]int{}, 0
	for seed := *takeoverSeed; seed < *takeoverSeed+uint64(*histories); seed++ {
		h, n := takenOver(t, seed, nil)
		h.ordered(t, seed)
		h.tally(seen)
		takeovers += n
	}
	t.Logf("%d histories, %d takeovers: %v", *histories, takeovers, seen)
	if *histories >= 8 {
		for _, what := range []string{"reserve ok", "reserve conflict", "reserve unavailable", "release ok", "list ok", "list lost"} {
			require.Positive(t, seen[what], "%s: %v", what, seen)
		}
	}
}

// losingEngine is a ledger that loses groups when an era begins.
type losingEngine struct {
	ledger.Engine
	forget func()
}

func (f losingEngine) Take(ctx context.Context, from uint64) (ledger.Position, error) {
	f.forget()
	return f.Engine.Take(ctx, from)
}

// TestALostAcknowledgementIsFound: a ledger that loses its newest groups with each takeover leaves histories without an
// order. The member that takes over has none of the groups, so it does not notice by itself.
func TestALostAcknowledgementIsFound(t *testing.T) {
	for seed := range uint64(20) {
		clock := newTicking(seed)
		l := memory.New()
		path := filepath.Join(t.TempDir(), "a.db")
		first := &host{t: t, path: path, clock: clock, root: "/srv/repo", of: newKeeping(l, func(e ledger.Engine) ledger.Engine { return e })}
		first.open()
		h := &History{Gate: first, Now: clock.now}
		clock.traffic(seed, 4, 10).Run(h)
		first.close()
		second := &host{t: t, path: filepath.Join(filepath.Dir(path), "b.db"), clock: clock, root: "/srv/repo",
			of: newKeeping(l, func(e ledger.Engine) ledger.Engine {
				return losingEngine{e, func() {
					l.Change(func(g []ledger.Group, era uint64) ([]ledger.Group, uint64) { return g[:len(g)/2], era })
				}}
			})}
		second.open()
		h.Gate = second
		h.Client(9).Do(Call{Kind: List})
		second.close()
		if verdict, _ := h.Verdict(patience); verdict == porcupine.Illegal {
			return
		}
	}
	require.NoError(t, errors.New("twenty histories of a ledger that loses what it acknowledged all have an order"))
}
