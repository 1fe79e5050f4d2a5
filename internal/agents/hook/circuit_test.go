package hook

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// gate is a daemon that is there or not, and the clock of its hooks.
type gate struct {
	mu    sync.Mutex
	now   time.Time
	err   error
	asked int
	home  Home
}

func newGate(t *testing.T) *gate {
	dir := t.TempDir()
	return &gate{now: newGateTime, home: HomeOf(func(name string) string {
		return map[string]string{"XDG_RUNTIME_DIR": dir}[name]
	}, "/run/gated/gated.sock")}
}

func (g *gate) Check(context.Context, api.Check) (api.Checked, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	return api.Checked{}, g.err
}

func (g *gate) pass(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = g.now.Add(d)
}

func (g *gate) guard() Guard {
	return Guard{Hook: "pre-tool-use", Check: g.Check, OnFailure: Warn, Deadline: time.Minute, Home: g.home, Now: func() time.Time {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.now
	}}
}

// ask asks once and returns the kind of failure, empty for an answer.
func (g *gate) ask(t require.TestingT) Kind {
	_, err := g.guard().Ask(context.Background(), api.Check{})
	if err == nil {
		return ""
	}
	var f *Failure
	require.ErrorAs(t, err, &f)
	return f.Kind
}

var newGateTime = time.Unix(1_000_000, 0)

var errAway = errors.New("there is no socket")

// newOpened is a gate that is away, whose circuit is open.
func newOpened(t *testing.T) *gate {
	t.Helper()
	g := newGate(t)
	g.err = errAway
	for range tripAt {
		g.ask(t)
	}
	return g
}

func TestFiveFailuresOpenTheCircuit(t *testing.T) {
	g := newGate(t)
	g.err = errAway
	for range tripAt {
		require.Equal(t, KindUnreachable, g.ask(t))
		g.pass(time.Second)
	}
	require.Equal(t, KindOpen, g.ask(t))
	require.Equal(t, tripAt, g.asked, "an open circuit asks nobody")
	s := g.home.Status(g.now, 10)
	require.True(t, s.Open)
	require.EqualValues(t, tripAt+1, s.Failures)
	require.Equal(t, KindOpen, s.Last[0].Kind)

	g.err = nil
	g.pass(openFor - 2*time.Second)
	require.Equal(t, KindOpen, g.ask(t), "also of a daemon that is there again")
	g.pass(time.Second)
	require.Empty(t, g.ask(t), "then one hook finds out")
	require.Empty(t, g.ask(t))
	require.NoFileExists(t, filepath.Join(g.home.Dir(), g.home.circuitName()))
}

func TestFourFailuresDoNot(t *testing.T) {
	g := newGate(t)
	g.err = errAway
	for range 100 {
		require.Equal(t, KindUnreachable, g.ask(t))
		g.pass(tripWithin / (tripAt - 1)) // never five within the time
	}
	require.Equal(t, 100, g.asked)
}

func TestAFailedTryOpensItAgain(t *testing.T) {
	g := newOpened(t)
	for round := range 3 {
		g.pass(openFor)
		require.Equal(t, KindUnreachable, g.ask(t))
		require.Equal(t, KindOpen, g.ask(t))
		require.Equal(t, tripAt+1+round, g.asked)
	}
}

func TestOneTriesForAll(t *testing.T) {
	g := newOpened(t)
	g.pass(openFor)
	g.err = nil
	// Somebody tries and says nothing yet.
	ask, probe := g.home.enter(g.now, time.Second)
	require.True(t, ask)
	require.True(t, probe)
	require.Equal(t, KindOpen, g.ask(t))
	// And never does: another one tries.
	g.pass(time.Second + probeGrace)
	require.Empty(t, g.ask(t))
}

// TestWhatIsNoFailureOfTheDaemon: an answer that somebody holds the file, a
// refusal, and a call that nobody can read do not open the circuit, or an agent
// could open it for everybody.
func TestWhatIsNoFailureOfTheDaemon(t *testing.T) {
	g := newGate(t)
	h := &holder{held: []string{"a"}}
	guard := g.guard()
	guard.Check = h.Check
	for range 3 * tripAt {
		require.Len(t, must.Get(guard.Ask(t.Context(), api.Check{Patterns: []string{"a"}}))(t).Conflicts, 1)
	}
	for _, code := range []refusal.Code{refusal.TooComplex, refusal.Malformed, refusal.BadParams, refusal.OverLimit, refusal.NotAllowed} {
		g.err = refusal.New(code, "no")
		for range tripAt {
			require.Equal(t, KindRefused, g.ask(t))
		}
	}
	for range tripAt {
		require.Error(t, guard.Failed(KindInput, errEmptyCall))
		require.Error(t, guard.Failed(KindPath, errAway))
	}
	g.err = nil
	require.Empty(t, g.ask(t))
	require.EqualValues(t, 7*tripAt, g.home.Status(g.now, 1).Failures)

	for _, code := range []refusal.Code{refusal.Unavailable, refusal.Internal} {
		g.err = refusal.New(code, "no")
		require.Equal(t, KindBroken, g.ask(t))
	}
	g.err = context.DeadlineExceeded
	require.Equal(t, KindTimeout, g.ask(t))
	g.ask(t)
	g.ask(t)
	require.Equal(t, KindOpen, g.ask(t))
}

// A standby that cannot ask the member that decides is as good as no daemon.
func TestAStandbyThatCannotAskIsNoDaemon(t *testing.T) {
	g := newGate(t)
	g.err = refusal.New(refusal.Standby, "member node1 decides, and does not answer")
	for range tripAt {
		require.Equal(t, KindUnreachable, g.ask(t))
	}
	require.Equal(t, KindOpen, g.ask(t))
}

func TestEachGateHasItsCircuit(t *testing.T) {
	g := newOpened(t)
	other := newGate(t)
	other.home = Home{dir: g.home.dir, gate: "other", patience: time.Minute}
	require.Empty(t, other.ask(t))
	require.Equal(t, KindOpen, g.ask(t))
}

func TestABrokenCircuitIsClosed(t *testing.T) {
	g := newGate(t)
	g.err = errAway
	require.Equal(t, KindUnreachable, g.ask(t))
	path := filepath.Join(g.home.Dir(), g.home.circuitName())
	far := g.now.Add(openFor + time.Hour).UnixMilli()
	for _, content := range []string{"", "{", "null", "[]", `{"open_until":"x"}`, `{"open_until":-1}`, `{"failed":[1,2,3,4,5,6]}`, "\x00\xff",
		`{"open_until":9223372036854775807}`, `{"open_until":` + time.UnixMilli(far).Format("20060102150405") + `}`, strings.Repeat(" ", maxCircuit+1)} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		require.Equal(t, KindUnreachable, g.ask(t), "%q", content)
	}
	// Not a file at all: nothing can be kept, and nothing hangs.
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	for range 2 * tripAt {
		require.Equal(t, KindUnreachable, g.ask(t))
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink("/dev/zero", path))
	require.Equal(t, KindUnreachable, g.ask(t))
}

func TestTheClockGoesBack(t *testing.T) {
	g := newOpened(t)
	g.pass(-time.Hour)
	require.Equal(t, KindUnreachable, g.ask(t), "an hour would be long")
}

func TestHooksAtTheSameTime(t *testing.T) {
	g := newGate(t)
	g.err, g.home.patience = errAway, time.Minute
	const hooks = 40
	run := func() {
		var wg sync.WaitGroup
		for range hooks {
			wg.Go(func() {
				_, err := g.guard().Ask(context.Background(), api.Check{})
				if err == nil {
					t.Error("an answer of nobody")
				}
			})
		}
		wg.Wait()
	}
	run()
	require.Equal(t, KindOpen, g.ask(t))
	const rounds = 10
	for range rounds {
		asked := g.asked
		g.pass(openFor)
		run()
		require.Equal(t, asked+1, g.asked, "one of them tries")
	}
	const all = (1+rounds)*hooks + 1
	require.EqualValues(t, all, g.home.Status(g.now, 0).Failures)
	require.Len(t, g.home.Status(g.now, 2*all).Last, all)
}

// TestCircuitIsBoundedByItsWindow compares it with counting.
func TestCircuitIsBoundedByItsWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		var c circuit
		var at []time.Time
		for _, ms := range rapid.SliceOf(rapid.IntRange(0, 20_000)).Draw(t, "gaps") {
			now = now.Add(time.Duration(ms) * time.Millisecond)
			if c.at(now) != closed {
				return
			}
			c = c.fail(now, "")
			at = append(at, now)
			within := 0
			for _, then := range at {
				if now.Sub(then) < tripWithin {
					within++
				}
			}
			require.Equal(t, within >= tripAt, c.at(now) == open)
		}
	})
}

func TestWithoutAHomeHooksWork(t *testing.T) {
	g := newGate(t)
	g.home = HomeOf(func(string) string { return "" }, "x")
	g.err = errAway
	for range 2 * tripAt {
		require.Equal(t, KindUnreachable, g.ask(t))
	}
	require.Equal(t, Status{Last: []Record{}}, g.home.Status(g.now, 5))

	// One that cannot be made.
	file := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	g.home = HomeOf(func(string) string { return file }, "x")
	require.Equal(t, KindUnreachable, g.ask(t))
}

func TestHomeOf(t *testing.T) {
	env := map[string]string{"HOME": "/h"}
	dir := func() string { return HomeOf(func(n string) string { return env[n] }, "").Dir() }
	require.Equal(t, "/h/.local/state/gated-hooks", dir())
	env["XDG_STATE_HOME"] = "/s"
	require.Equal(t, "/s/gated-hooks", dir())
	env["XDG_RUNTIME_DIR"] = "relative"
	require.Equal(t, "/s/gated-hooks", dir())
	env["XDG_RUNTIME_DIR"] = "/r"
	require.Equal(t, "/r/gated/hooks", dir())
}

func TestAHookThatWasStoppedHoldsNobodyUp(t *testing.T) {
	g := newGate(t)
	g.err = errAway
	require.NoError(t, g.home.locked(func() error {
		require.Equal(t, KindUnreachable, g.ask(t)) // it returns
		return nil
	}))
	require.EqualValues(t, 1, g.home.Status(g.now, 0).Failures)
}
