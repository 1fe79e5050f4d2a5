package daemon_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/nonce"
	"gated/internal/test/must"
)

const day = 24 * time.Hour

// statement changes the database, in which a daemon that runs may be at work.
func (w *world) statement(text string, args ...any) {
	w.t.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+filepath.Join(w.state, "gated.db")+"?_pragma=busy_timeout(10000)"))(w.t)
	must.Get(db.Exec(text, args...))(w.t)
	require.NoError(w.t, db.Close())
}

// off has the machine's clock be off by so much from what the gate has seen.
func (w *world) off(by time.Duration) {
	w.statement(`UPDATE time_mark SET unix = unix - ?`, int64(by/time.Second))
}

func (w *world) accept(agree func(life.TimeState) error) (life.Accepted, error) {
	return life.AcceptTime(w.t.Context(), life.AcceptOptions{StateDir: w.state, Agree: agree})
}

func accepted(life.TimeState) error { return nil }

// newest returns the newest event of a kind.
func (w *world) newest(kind string) (last api.Entry) {
	w.t.Helper()
	require.NoError(w.t, w.client.Events(w.t.Context(), 0, false, func(e api.Entry) error {
		if e.Kind == kind {
			last = e
		}
		return nil
	}))
	return last
}

func TestAcceptTheTime(t *testing.T) {
	for name, by := range map[string]time.Duration{"the clock is behind": -40 * day, "the clock jumped ahead": 29 * day, "and by 70 years": 70 * 365 * day} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			made := w.init()
			w.serve()
			waits, runs := w.waiting("web"), w.waiting("db")
			env, spent := w.envelope(waits), w.envelope(runs)
			require.NoError(t, w.approve(runs))
			require.Equal(t, op.StateSucceeded, w.await(strings.TrimSuffix(runs, ".1")).State)
			builder := w.actor(nil)
			builder.does("register builder")
			builder.does("reserve %s src/**", w.dir)
			builder.does("scratch tmp")
			w.halt()
			w.off(by)

			w.serve()
			clock := w.health("clock")
			require.False(t, clock.OK)
			require.Contains(t, clock.Detail, "signed work waits: the clock ")
			require.Contains(t, clock.Detail, "gated time accept")
			_, err := w.client.Approve(t.Context(), waits, env)
			code := refusal.Unavailable
			if by < 0 {
				code = refusal.Expired // by a clock that was believed
			}
			refused(t, err, code, "signed work waits", "gated time accept")
			_, err = w.accept(accepted)
			refused(t, err, refusal.Conflict, "uses the state directory")
			seen := must.Get(life.Time(t.Context(), w.state))(t)
			require.False(t, seen.Believed)
			require.InDelta(t, by.Hours(), seen.Ahead().Hours(), 1)
			require.Equal(t, made.GateID, seen.Gate)
			w.halt()

			a := must.Get(w.accept(accepted))(t)
			require.NotEmpty(t, a.New)
			require.NotEqual(t, made.GateID, a.New)
			w.sound()
			w.serve()
			require.Equal(t, a.New, w.status().Gate)
			require.True(t, w.health("clock").OK)
			entry := w.newest("time-accepted")
			require.Equal(t, "state owner", entry.By)
			require.Contains(t, entry.Detail, "; ended: registrations of agents: 1, reservations: ")
			require.WithinDuration(t, time.Now(), entry.Time, time.Hour)
			require.Equal(t, "the clock was wrong, so nobody knows how old it is", w.newest("promoted").Detail)
			require.Empty(t, w.agents())
			require.Empty(t, w.reservations())
			require.Equal(t, "builder#2", builder.does("register builder"))
			require.Contains(t, builder.does("destroy tmp"), "pending_signature", "its age is not known")

			for _, old := range []api.Envelope{env, spent} {
				_, err = w.client.SubmitSigned(t.Context(), old)
				require.ErrorIs(t, err, refusal.TargetMismatch, "what was signed before does not count")
			}
			must.Fail(w.client.Approve(t.Context(), waits, env))(t, refusal.TargetMismatch)
			w.issuedFor(waits, a.New)
			require.NoError(t, w.approve(waits), "the same request, issued anew")
			require.Equal(t, op.StateSucceeded, w.await(strings.TrimSuffix(waits, ".1")).State)
			w.haltSound()

			require.Empty(t, must.Get(w.accept(accepted))(t).New, "there is nothing to accept")
		})
	}
}

func TestATimeThatIsNotAccepted(t *testing.T) {
	w := newWorld(t)
	made := w.init()
	w.serve()
	w.waiting("web")
	w.halt()
	before := tree(t, w.state)

	asked := false
	a := must.Get(w.accept(func(life.TimeState) error { asked = true; return nil }))(t)
	require.True(t, a.Believed)
	require.Empty(t, a.New)
	require.False(t, asked)
	require.Equal(t, before, tree(t, w.state), "a believed clock")

	w.off(40 * day)
	before = tree(t, w.state)
	no := errors.New("no")
	must.Fail(w.accept(func(s life.TimeState) error {
		require.Equal(t, made.GateID, s.Gate)
		require.Equal(t, testHost, s.Host)
		require.Contains(t, s.Why, "the clock jumped by 960h0m")
		return no
	}))(t, no)
	require.Equal(t, before, tree(t, w.state), "who says no")

	looks := 0
	_, err := life.AcceptTime(t.Context(), life.AcceptOptions{StateDir: w.state, Agree: accepted, Read: func() nonce.Reading {
		r := nonce.System()
		r.Wall = r.Wall.Add(time.Duration(looks) * 2 * nonce.MaxBehind)
		looks++
		return r
	}})
	refused(t, err, refusal.Conflict, "the clock was set by 2m0s meanwhile")
	require.Equal(t, before, tree(t, w.state), "a clock that somebody sets meanwhile")

	_, err = life.AcceptTime(t.Context(), life.AcceptOptions{StateDir: w.state, Agree: accepted,
		Read: func() nonce.Reading { return nonce.Reading{Wall: time.Now(), Blind: true} }})
	refused(t, err, refusal.Unavailable, "the time since boot cannot be read")
	require.Equal(t, before, tree(t, w.state), "a machine that cannot tell a jump")

	_, err = life.AcceptTime(t.Context(), life.AcceptOptions{StateDir: w.dir + "/none", Agree: accepted})
	require.ErrorIs(t, err, refusal.UnknownTarget)
}

// TestAnAcceptanceIsWholeOrNothing: its last write fails.
func TestAnAcceptanceIsWholeOrNothing(t *testing.T) {
	w := newWorld(t)
	made := w.init()
	w.serve()
	waits := w.waiting("web")
	w.halt()
	w.off(40 * day)
	w.statement(`CREATE TRIGGER breaks BEFORE INSERT ON gate_identity BEGIN SELECT raise(ABORT, 'cut off'); END`)
	require.ErrorContains(t, must.Err(w.accept(accepted))(t), "cut off")
	w.statement(`DROP TRIGGER breaks`)
	w.sound()
	w.serve()
	require.Equal(t, made.GateID, w.status().Gate)
	require.False(t, w.health("clock").OK)
	require.Empty(t, w.newest("time-accepted").Kind)
	refused(t, w.approve(waits), refusal.Unavailable, "signed work waits")
	w.halt()
	a := must.Get(w.accept(accepted))(t)
	require.NotEqual(t, made.GateID, a.New)
}

// TestAClockThatComesBack: nobody has to accept anything (T15).
func TestAClockThatComesBack(t *testing.T) {
	w := newWorld(t)
	made := w.init()
	w.serve()
	waits := w.waiting("web")
	w.halt()
	w.off(70 * 365 * day)
	w.serve()
	require.ErrorIs(t, w.approve(waits), refusal.Unavailable)
	w.halt()
	w.off(-70 * 365 * day)
	w.serve()
	require.True(t, w.health("clock").OK)
	require.Equal(t, made.GateID, w.status().Gate)
	require.NoError(t, w.approve(waits))
	require.Equal(t, op.StateSucceeded, w.await(strings.TrimSuffix(waits, ".1")).State)
	w.haltSound()
}
