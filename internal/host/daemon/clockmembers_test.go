package daemon_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/ledger"
)

// early is an engine whose clock is ahead of the member's.
type early struct {
	ledger.Engine
	by time.Duration
}

func (e early) Time(context.Context) (time.Time, error) { return time.Now().Add(e.by), nil }

// Two members whose clocks are half a minute from PostgreSQL's are a minute apart, and no more is believed.
func TestAMemberWhoseClockIsWrongDoesNotTakeOver(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	by := 29 * time.Second
	g.second.wrap = func(e ledger.Engine) ledger.Engine { return early{e, by} }
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	g.second.inHealth("member", true, "node2 is a standby")
	g.second.end()
	by = 31 * time.Second
	g.second.start(api.RoleStandby)
	g.second.inHealth("member", false, "the clocks of this member and of the ledger differ by 31s")
	err := g.second.client.TakeOver(t.Context())
	require.ErrorIs(t, err, refusal.Unavailable)
	require.ErrorContains(t, err, "differ by")
	require.Equal(t, api.RoleActive, g.first.status().Member.Role)
}
