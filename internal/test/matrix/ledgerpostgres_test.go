package matrix_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/postgres"
)

// onPostgres starts a primary and its synchronous standby for the ledger. The second member has a way of its own to each.
func (g *ledgerGate) onPostgres() {
	g.pair = postgres.NewPair(g.t)
	g.toFirst, g.toSecond = postgres.NewProxy(g.t, g.pair.First.Port), postgres.NewProxy(g.t, g.pair.Second.Port)
	g.dsn = g.pair.DSN()
}

// dsnOf is the connection string of a member.
func (g *ledgerGate) dsnOf(m *memberDaemon) string {
	if g.pair == nil || m == g.first {
		return g.dsn
	}
	return postgres.DSN(g.toFirst.Port, g.toSecond.Port)
}

// postgresRows are attacks by the administrator of the servers, whose list of standbys is emptied. Then a commit waits for
// no standby, so what one server has may be lost with it.
var postgresRows = []ledgerRow{
	{id: "L11a", what: "synchronous_standby_names is emptied while both members live, and an approval is sent", want: refusal.Unavailable, postgres: true,
		run: func(g *ledgerGate) error {
			g.second.follows(g.first)
			g.arm()
			g.pair.First.Set(g.t, "synchronous_standby_names", "")
			err := g.first.approve()
			g.neither()
			g.repair = func() {
				g.pair.First.Set(g.t, "synchronous_standby_names", "second")
				g.pair.First.Synchronous(g.t)
				g.goesOn()
			}
			return err
		}},
	{id: "L11b", what: "the standby server is promoted behind a partition, both lists are emptied, and each member has a primary", want: refusal.Unavailable,
		postgres: true, run: func(g *ledgerGate) error {
			g.second.follows(g.first)
			g.arm()
			g.pair.Link.Partition(true)
			g.pair.ToSecond.Partition(true) // the first member's way to the second server
			g.toFirst.Partition(true)
			g.pair.Second.Promote(g.t)
			for _, c := range []*postgres.Cluster{g.pair.First, g.pair.Second} {
				c.Set(g.t, "synchronous_standby_names", "")
			}
			// A group that waited for the standby when the list was emptied is in doubt, and so is all behind it.
			told := make(chan error, 1)
			go func() { told <- g.first.approve() }()
			err := g.neither()
			select {
			case e := <-told:
				require.ErrorIs(g.t, e, refusal.Unavailable, "the approval counts, and no standby has it")
				told <- e
			default:
			}
			g.repair = func() {
				g.pair.First.Kill(g.t)
				g.pair.Second.Standby(g.t, "third", g.pair.Second.Port)
				g.pair.Second.Set(g.t, "synchronous_standby_names", "third")
				g.pair.Second.Synchronous(g.t)
				g.pair.ToSecond.Partition(false)
				g.goesOn()
				if <-told == nil { // it was behind the group in doubt, and is kept since
					require.Equal(g.t, op.StateSucceeded, g.first.jobOf(g.request).State)
					g.arm()
				}
			}
			return err
		}},
}

// neither waits until the first member may act no more, and the second one tried to take over and could not.
func (g *ledgerGate) neither() error {
	g.t.Helper()
	require.Eventually(g.t, func() bool {
		s, err := g.first.client.Status(g.t.Context())
		return err == nil && s.Member.Error != nil && s.Member.Error.Code == refusal.Unavailable
	}, time.Minute, 20*time.Millisecond, "the first member keeps its lease:\n%s", g.first.logged())
	err := g.second.fails()
	require.ErrorIs(g.t, err, refusal.Unavailable)
	require.NotContains(g.t, g.second.logged(), "this member decides")
	return g.first.held()
}

// goesOn waits until the first member decides again. The second one is down, so it does not take over meanwhile.
func (g *ledgerGate) goesOn() {
	g.t.Helper()
	if g.first.stop == nil {
		g.first.begin()
	}
	name, target := "guest.destroy", "guest/bystander"
	require.Eventually(g.t, func() bool {
		s, err := g.first.client.Status(g.t.Context())
		if err != nil || s.Member.Role != api.RoleActive || s.Member.Error != nil {
			return false
		}
		ctx, cancel := context.WithTimeout(g.t.Context(), 30*time.Second)
		defer cancel()
		j, err := g.first.client.Submit(ctx, api.Submit{Op: &name, Target: &target, Reason: "does it decide"}, "")
		if err == nil {
			_, err = g.first.client.Cancel(ctx, j.ID)
		}
		return err == nil
	}, time.Minute, 20*time.Millisecond, "the first member does not decide:\n%s", g.first.logged())
}

// connectsBy has settings name another connection string.
func connectsBy(t testing.TB, settings, was, now string) string {
	require.Contains(t, settings, was)
	return strings.Replace(settings, was, now, 1)
}
