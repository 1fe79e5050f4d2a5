package linear

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"gated/internal/agents/glob"
	"gated/internal/test/must"
)

// patience bounds the search for an order. It is never needed where there is one.
const patience = time.Minute

// ticking is a clock that goes on with what is done, and not by itself.
type ticking struct {
	mu    sync.Mutex
	r     *rand.Rand
	at    time.Time
	ticks chan bool // holds one after a tick
}

func newTicking(seed uint64) *ticking {
	return &ticking{ticks: make(chan bool, 1), r: rand.New(rand.NewPCG(seed, 1)), at: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

func (c *ticking) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

// tick lets up to 0.8 s pass.
func (c *ticking) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(time.Duration(c.r.Int64N(int64(800 * time.Millisecond))))
	select {
	case c.ticks <- true:
	default:
	}
}

func (c *ticking) traffic(seed uint64, agents, calls int) Traffic {
	return Traffic{Seed: seed, Prefix: "agent", Agents: agents, Calls: calls, TTL: 10 * time.Second, Spread: 20 * time.Second, Between: c.tick}
}

// ordered asserts that there is an order.
func (h *History) ordered(t *testing.T, seed uint64) {
	t.Helper()
	verdict, stuck := h.Verdict(patience)
	require.Equal(t, porcupine.Ok, verdict, "seed %d: %s\n%s", seed, stuck, h)
}

func TestTheUniverseIsAsPatternsAre(t *testing.T) {
	absolute := func(p Pattern) glob.Pattern {
		text := p.Text
		if dir := Scopes[p.Scope]; dir != "" {
			text = glob.Quote(dir) + "/" + text
		}
		g := must.Get(glob.Parse(text, glob.Options{}))(t, text)
		return g
	}
	for i, a := range Universe {
		for k, path := range Paths {
			require.Equal(t, a.paths>>k&1 != 0, absolute(a).Match(path), "%s and %s", a.Text, path)
		}
		for j, b := range Universe {
			require.Equal(t, glob.Overlap(absolute(a), absolute(b)), Set(1<<i).overlaps(1<<j), "%s and %s", a.Text, b.Text)
		}
	}
}

// TestASoundGatePasses: what is told of a gate that does one thing after the
// other is found to be so, by several callers at a time.
func TestASoundGatePasses(t *testing.T) {
	for seed := range uint64(4) {
		clock := newTicking(seed)
		h := &History{Gate: newSimple(clock.now, sound), Now: clock.now}
		clock.traffic(seed, 8, 25).Run(h)
		h.ordered(t, seed)
	}
}

// cutting loses every eighth answer: of calls that took effect, of others, and
// of some that take effect after calls that come later.
type cutting struct {
	Gate
	mu   sync.Mutex
	r    *rand.Rand
	late []Call
}

func (c *cutting) Do(call Call) Answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.late) > 0 && c.r.IntN(4) == 0 {
		c.Gate.Do(c.late[0])
		c.late = c.late[1:]
	}
	switch n := c.r.IntN(24); {
	case n == 0:
		return Answer{Lost: true}
	case n == 1:
		c.Gate.Do(call)
		return Answer{Lost: true}
	case n == 2 && call.Kind != Register && call.Kind != End:
		c.late = append(c.late, call)
		return Answer{Late: true}
	}
	return c.Gate.Do(call)
}

// TestLostAnswersMayBeEither: a call whose answer was lost took effect or not,
// and one that is late at any time.
func TestLostAnswersMayBeEither(t *testing.T) {
	lost, late := 0, 0
	for seed := range uint64(4) {
		clock := newTicking(seed)
		gate := &cutting{Gate: newSimple(clock.now, sound), r: rand.New(rand.NewPCG(seed, 2))}
		h := &History{Gate: gate, Now: clock.now}
		clock.traffic(seed, 4, 25).Run(h)
		h.ordered(t, seed)
		for _, o := range h.Ops() {
			lost, late = lost+count(o.Lost), late+count(o.Late)
		}
	}
	require.Positive(t, lost)
	require.Positive(t, late)
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// TestTheVerdictFindsEachFlaw: a checker that finds nothing in a gate with a
// flaw would pass every gate.
func TestTheVerdictFindsEachFlaw(t *testing.T) {
	for _, flaw := range []string{equalPatternsOnly, scopesApart, sharedIsNothing, firstPatternOnly, anyoneReleases, anyoneTransfers,
		neverExpires, expiresEarly, forgetsRenewal, shortens, diesWithKeep, outlivesHolder, transferCopies, transferBlind, toNobody,
		stacks, stacksInside, narrows, checkLies, checkOwn, refusesAll, reusesIDs} {
		t.Run(flaw, func(t *testing.T) {
			var verdicts []porcupine.CheckResult
			for seed := uint64(0); seed < 60 && !slices.Contains(verdicts, porcupine.Illegal); seed++ {
				clock := newTicking(seed)
				h := &History{Gate: newSimple(clock.now, flaw), Now: clock.now}
				clock.traffic(seed, 4, 40).Run(h)
				verdict, _ := h.Verdict(patience)
				verdicts = append(verdicts, verdict)
			}
			require.Contains(t, verdicts, porcupine.Illegal)
			t.Logf("found in history %d", len(verdicts))
		})
	}
}

// forgetful is a gate that loses the last thing that it acknowledged when it is
// started again, as one does that answers before it is on disk.
type forgetful struct {
	*simple
	mu   sync.Mutex
	r    *rand.Rand
	last []thing
}

func (f *forgetful) Do(c Call) Answer {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := slices.Clone(f.held)
	if f.r.IntN(10) == 0 {
		f.held = f.last
		return Answer{Lost: true}
	}
	f.last = before
	return f.simple.Do(c)
}

func TestTheVerdictFindsWhatACrashForgot(t *testing.T) {
	var verdicts []porcupine.CheckResult
	for seed := range uint64(10) {
		clock := newTicking(seed)
		h := &History{Gate: &forgetful{simple: newSimple(clock.now, sound), r: rand.New(rand.NewPCG(seed, 2))}, Now: clock.now}
		clock.traffic(seed, 3, 20).Run(h)
		verdict, _ := h.Verdict(patience)
		verdicts = append(verdicts, verdict)
	}
	require.Contains(t, verdicts, porcupine.Illegal)
}
