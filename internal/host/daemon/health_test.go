package daemon

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/host/metrics"
)

func TestChecksOfStatus(t *testing.T) {
	items := []api.Health{{Name: "clock", OK: true, Detail: "believed"}, {Name: "audit log", Detail: "somebody changed it"},
		{Name: "back end local", OK: true, Detail: "3 guests"}, {Name: "back end libvirt", Detail: "away"}, {Name: "guest/odd", Detail: "a"},
		{Name: "guest/odder", Detail: "b"}, {Name: "set web", Detail: "full"}, {Name: "disk", Detail: "low"}}
	require.Equal(t, []api.HealthCheck{{Name: "audit_log", State: api.HealthBad, Detail: "audit log: somebody changed it"},
		{Name: "backends", State: api.HealthDegraded, Detail: "back end libvirt: away"}, {Name: "clock", State: api.HealthOK, Detail: "believed"},
		{Name: "disk", State: api.HealthDegraded, Detail: "low"}, {Name: "targets", State: api.HealthDegraded, Detail: "guest/odd: a (and 2 more)"}},
		checksOf(items))
	require.Equal(t, api.HealthBad, worse(api.HealthDegraded, api.HealthBad))
	require.Equal(t, api.HealthDegraded, worse(api.HealthDegraded, api.HealthOK))
}

// Each check has a name that the metrics know.
func TestEveryCheckIsAMetric(t *testing.T) {
	for _, name := range checkNames {
		require.Contains(t, metrics.CheckNames, name)
	}
	for _, name := range []string{checkOf("back end x"), checkOf("guest/x"), checkOf("driver of command")} {
		require.Contains(t, metrics.CheckNames, name)
	}
	for name := range guestOpeners {
		require.Contains(t, metrics.BackendNames, name)
	}
}

// A hundred scrapes at once are one look at the gate, and a second later there is another.
func TestScrapesAtOnceAreOneLook(t *testing.T) {
	var looks, at atomic.Int64
	s := &scrapes{make: func(context.Context) []byte { return []byte(fmt.Sprint(looks.Add(1))) },
		now: func() time.Time { return time.Unix(0, at.Load()) }}
	text := func() string {
		b, err := s.text(t.Context())
		require.NoError(t, err)
		return string(b)
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() { text() })
	}
	wg.Wait()
	require.EqualValues(t, 1, looks.Load())
	at.Store(int64(scrapeAge) - 1)
	require.Equal(t, "1", text())
	at.Store(int64(scrapeAge))
	require.Equal(t, "2", text())
	at.Store(0) // the clock was set back
	require.Equal(t, "3", text())
}
