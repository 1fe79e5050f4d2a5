package hubpg_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/host/hub/hubpg"
	"gated/internal/host/hub/hubstate"
	"gated/internal/host/hub/hubstate/statetest"
	"gated/internal/test/must"
	"gated/internal/test/postgres"
)

// know puts documents of a host into the database.
func know(t testing.TB, s *hubpg.Store, host string) {
	t.Helper()
	d := hubstate.Document{Body: []byte("{}"), Tag: "tag", Revision: "r1"}
	must.Get(s.Publish(t.Context(), host, d, d))(t)
}

func open(t testing.TB, dsn string) *hubpg.Store {
	t.Helper()
	s := must.Get(hubpg.Open(t.Context(), hubpg.Settings{Connection: dsn}))(t)
	t.Cleanup(s.Close)
	return s
}

// empty removes what a case left.
func empty(t testing.TB, c *postgres.Cluster) {
	c.Exec(t, `TRUNCATE gatedhub.documents, gatedhub.reports, gatedhub.requests, gatedhub.heads, gatedhub.evidence`)
}

func TestStore(t *testing.T) {
	c := postgres.Primary(t)
	require.NoError(t, hubpg.Create(t.Context(), hubpg.Settings{Connection: c.DSN()}))
	require.NoError(t, hubpg.Create(t.Context(), hubpg.Settings{Connection: c.DSN()}), "it changes nothing")
	for name, dsn := range map[string]string{"direct": c.DSN(), "PgBouncer": postgres.DSN(postgres.PgBouncer(t, c, "transaction", ""))} {
		t.Run(name, func(t *testing.T) {
			s := open(t, dsn)
			statetest.Run(t, func(t *testing.T) statetest.World {
				empty(t, c)
				return statetest.World{Store: s, Know: func(t testing.TB, host string) { know(t, s, host) }}
			})
		})
	}
	t.Run("documents", func(t *testing.T) { empty(t, c); documents(t, open(t, c.DSN())) })
}

func documents(t *testing.T, s *hubpg.Store) {
	for i := range 5 {
		know(t, s, fmt.Sprintf("pve%d", i))
	}
	require.Equal(t, []string{"pve0", "pve1"}, must.Get(s.Hosts(t.Context(), "", 2))(t))
	require.Equal(t, []string{"pve2", "pve3", "pve4"}, must.Get(s.Hosts(t.Context(), "pve1", 10))(t))
	d := must.Get(s.Document(t.Context(), "pve1", "desired", ""))(t)
	require.Equal(t, hubstate.Document{Body: []byte("{}"), Tag: "tag", Revision: "r1"}, d)
	require.Nil(t, must.Get(s.Document(t.Context(), "pve1", "desired", "tag"))(t).Body)
	must.Err(s.Document(t.Context(), "nobody", "desired", ""))(t)
	require.False(t, must.Get(s.Publish(t.Context(), "pve1", d, hubstate.Document{Tag: "tag"}))(t), "nothing changed")
	d.Tag, d.Body = "tag 2", []byte("{2}")
	require.True(t, must.Get(s.Publish(t.Context(), "pve1", d, hubstate.Document{Tag: "tag"}))(t))
	require.Equal(t, d, must.Get(s.Document(t.Context(), "pve1", "desired", "tag"))(t))
	require.True(t, must.Get(s.Forget(t.Context(), "pve1"))(t))
	require.False(t, must.Get(s.Forget(t.Context(), "pve1"))(t))
	require.Error(t, s.Has(t.Context(), "pve1"))
	require.NoError(t, s.Has(t.Context(), "pve2"))
}

// TestAReportThatComesWhileItsHostIsForgotten leaves nothing: the queue would show the rows of a host that no hub knows.
func TestAReportThatComesWhileItsHostIsForgotten(t *testing.T) {
	c := postgres.Primary(t)
	require.NoError(t, hubpg.Create(t.Context(), hubpg.Settings{Connection: c.DSN()}))
	s := open(t, c.DSN())
	for n := range 40 {
		know(t, s, "pve1")
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				_, err := statetest.Put(t, s, "pve1", hub.Report{Gate: statetest.GateID, StartedAt: statetest.Noon, Seq: int64(n),
					Requests: []api.FleetRequest{statetest.Request(n, "j1.1", "guest.destroy")}})
				if err != nil && !errors.Is(err, refusal.UnknownTarget) {
					t.Error(err)
				}
			})
		}
		calls.Go(func() {
			if there, err := s.Forget(t.Context(), "pve1"); !there || err != nil {
				t.Error(there, err)
			}
		})
		calls.Wait()
		require.Nil(t, must.Get(s.Report(t.Context(), "pve1"))(t), "round %d", n)
		require.Empty(t, must.Get(s.Queue(t.Context(), hubstate.Query{Limit: 1}))(t).Requests, "round %d", n)
	}
}

// TestRights: a hub, and what loads its documents, need no more than what the tables' page grants.
func TestRights(t *testing.T) {
	c := postgres.Primary(t)
	require.NoError(t, hubpg.Create(t.Context(), hubpg.Settings{Connection: c.DSN()}))
	page := string(must.Get(os.ReadFile("../../../../docs/formats/hub-tables.md"))(t))
	c.Exec(t, "CREATE ROLE hub LOGIN; CREATE ROLE loader LOGIN")
	n := 0
	for line := range strings.Lines(page) {
		if grant, ok := strings.CutPrefix(line, "    GRANT "); ok {
			c.Exec(t, "GRANT "+grant)
			n++
		}
	}
	require.Equal(t, 9, n)
	loader, s := open(t, c.DSN()+" user=loader"), open(t, c.DSN()+" user=hub")
	statetest.Run(t, func(t *testing.T) statetest.World {
		empty(t, c)
		return statetest.World{Store: s, Know: func(t testing.TB, host string) { know(t, loader, host) }}
	})
	_, err := s.Publish(t.Context(), "pve1", hubstate.Document{}, hubstate.Document{})
	refused(t, err, "refuses this to the role", "grant the role")
	_, err = s.Forget(t.Context(), "pve1")
	refused(t, err, "refuses this to the role", "grant the role")
	know(t, loader, "pve1")
	_, err = Put(t, loader, 1)
	refused(t, err, "refuses this to the role", "grant the role")
	must.Get(Put(t, s, 1))(t)
	require.True(t, must.Get(loader.Forget(t.Context(), "pve1"))(t))
}
