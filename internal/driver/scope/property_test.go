package scope_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

var (
	names    = []string{"builder", "tester", "writer"}
	patterns = []string{"a", "b/**", "b/c", "*.go", "docs/{x,y}"}
)

// TestNobodyLosesAReservationUnsigned: agents ask, sign with keys that do not count, replay and
// run. A reservation ends or changes hands only by its holder, or by a step that an operator or
// a coordinator signed, and only as signed.
func TestNobodyLosesAReservationUnsigned(t *testing.T) {
	rapid.Check(t, func(one *rapid.T) {
		w := newWorld(t)
		w.t = one
		m := &model{world: w, T: one, asked: map[op.RequestID]ask{}}
		m.run()
		require.NoError(one, w.store.Close())
	})
}

type ask struct {
	op.Ask
	seen     []string // the reservations when the payload was made
	approved bool
}

// model runs random actions. allowed is the set of reservations that may exist after each.
type model struct {
	*world
	*rapid.T
	asked map[op.RequestID]ask
	order []op.RequestID
}

func (m *model) run() {
	for range rapid.IntRange(5, 15).Draw(m.T, "actions") {
		before := m.held()
		lost := m.action()
		after := m.held()
		for _, r := range before {
			if !slices.Contains(after, r) && !slices.Contains(lost, r) {
				m.Fatalf("%q was lost; before %q, after %q", r, before, after)
			}
		}
	}
}

// action runs one action and returns the reservations that it may remove.
func (m *model) action() (lost []string) {
	name := rapid.SampledFrom(names).Draw(m.T, "agent")
	held := m.held()
	switch rapid.SampledFrom([]string{"reserve", "reserve", "release", "ask", "ask", "sign badly", "sign", "run", "run"}).Draw(m.T, "action") {
	case "reserve":
		_, _ = m.reserve(name, rapid.SliceOfNDistinct(rapid.SampledFrom(patterns), 1, 2, rapid.ID).Draw(m.T, "patterns")...)
	case "release":
		if len(held) == 0 {
			return nil
		}
		r := rapid.SampledFrom(held).Draw(m.T, "which")
		var id op.ReservationID
		var holder string
		must.Get(fmt.Sscanf(r, "r%d %s", &id, &holder))(m)
		_, err := m.Release(m.ctx, by(name), id)
		require.Equal(m, name == holder, err == nil, "%v", err)
		if err == nil {
			return []string{r}
		}
	case "ask":
		m.ask(held)
	case "sign badly":
		if id, ok := m.any(); ok && !m.asked[id].approved {
			key := rapid.SampledFrom([]mint.Key{m.rita, m.mallory}).Draw(m.T, "key")
			require.Error(m, m.signed(m.current(id), key, rapid.SampledFrom(op.Roles).Draw(m.T, "role")))
		}
	case "sign":
		if id, ok := m.any(); ok {
			m.sign(id)
		}
	case "run":
		if id, ok := m.any(); ok {
			return m.runStep(id, held)
		}
	}
	return nil
}

func (m *model) any() (op.RequestID, bool) {
	if len(m.order) == 0 {
		return op.RequestID{}, false
	}
	return rapid.SampledFrom(m.order).Draw(m.T, "request"), true
}

func (m *model) current(id op.RequestID) op.Request { return must.Get(m.gate.Request(m.ctx, id))(m) }

func (m *model) ask(held []string) {
	a := m.releaseAll()
	if rapid.Bool().Draw(m.T, "one") {
		id := "r1"
		if len(held) > 0 {
			must.Get(fmt.Sscanf(rapid.SampledFrom(held).Draw(m.T, "of"), "%s", &id))(m)
		}
		a = m.transfer(id, rapid.SampledFrom([]string{"builder", "tester", "nobody"}).Draw(m.T, "to"))
	}
	j, err := m.gate.Submit(m.ctx, op.Submission{Requester: by(rapid.SampledFrom(names).Draw(m.T, "asks")), Steps: []op.Ask{a}})
	cannot := m.cannot(a, held)
	if err != nil {
		require.True(m, errors.Is(err, refusal.OverLimit) || cannot != "" && errors.Is(err, cannot), "%v", err)
		return
	}
	id := j.Steps[0].ID
	if _, known := m.asked[id]; !known {
		require.Empty(m, cannot, "nobody is asked for what cannot be done")
	}
	if _, known := m.asked[id]; !known {
		m.order = append(m.order, id)
	}
	if !m.asked[id].approved {
		m.asked[id] = ask{Ask: a, seen: held}
	}
}

// cannot is the refusal of a transfer that cannot be done, or none.
func (m *model) cannot(a op.Ask, held []string) refusal.Code {
	if a.Op == op.ReleaseAll {
		return ""
	}
	about := m.of(a, held)
	if len(about) == 0 || a.Params.Str("to") == "nobody" {
		return refusal.UnknownTarget
	}
	holder := strings.Fields(about[0])[1]
	if holder == a.Params.Str("to") {
		return refusal.BadParams
	}
	for _, r := range held {
		if r != about[0] && strings.Fields(r)[1] == holder && overlap(strings.Fields(r)[2:], strings.Fields(about[0])[2:]) {
			return refusal.Conflict
		}
	}
	return ""
}

// overlap compares patterns of this test: of two that differ, only b/** and b/c match one path.
func overlap(some, others []string) bool {
	return slices.ContainsFunc(some, func(a string) bool {
		return slices.ContainsFunc(others, func(b string) bool { return a == b || strings.HasPrefix(a, "b/") && strings.HasPrefix(b, "b/") })
	})
}

func (m *model) sign(id op.RequestID) {
	a := m.asked[id]
	key, role := m.alice, op.Operational
	if rapid.Bool().Draw(m.T, "coordinator") {
		key, role = m.carol, op.Coordination
	}
	err := m.signed(m.current(id), key, role)
	// It is approved only if its reservations are as they were when its payload was made.
	if err == nil {
		require.False(m, a.approved, "%s was approved twice", id)
		require.Equal(m, m.of(a.Ask, a.seen), m.of(a.Ask, m.held()))
		a.approved = true
		m.asked[id] = a
	}
}

// runStep tries to run a step in any state.
func (m *model) runStep(id op.RequestID, held []string) (lost []string) {
	a := m.asked[id]
	p, err := m.gate.Permit(m.ctx, id)
	if err != nil {
		return nil
	}
	require.True(m, a.approved, "there is a permit for what nobody signed")
	receiver := m.agents["tester"]
	if during := rapid.SampledFrom([]string{"", "one more", "the receiver ends"}).Draw(m.T, "during"); during != "" {
		m.before = func() {
			if during == "one more" {
				_, _ = m.reserve("builder", "b/c")
			} else {
				delete(m.agents, "tester")
			}
			held = m.held()
		}
	}
	err = m.execute(p)
	m.before, m.agents["tester"] = func() {}, receiver
	if err != nil {
		if s := m.current(id).Step; s.State == op.StateDispatched {
			o := m.look()
			must.Get(m.gate.Record(m.ctx, id, gate.Outcome{Err: err, After: &o}))(m)
		}
		require.Equal(m, held, m.held(), "it was refused: %v", err)
		return nil
	}
	m.record(p)
	require.Equal(m, m.of(a.Ask, a.seen), m.of(a.Ask, held), "it ran on something else than was signed")
	if a.Op == op.ReleaseAll {
		require.Empty(m, m.held())
		return held
	}
	return m.of(a.Ask, held)
}

// of returns the reservations in held that an ask covers: all, or the one that it names.
func (m *model) of(a op.Ask, held []string) (about []string) {
	for _, r := range held {
		if id, _, _ := strings.Cut(r, " "); a.Op == op.ReleaseAll || id == a.Params.Str("reservation") {
			about = append(about, r)
		}
	}
	return about
}
