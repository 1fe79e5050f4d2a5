package api

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// What is embedded is flat on the wire, and a large number is not rounded.
func TestPromisedMembersOfReservations(t *testing.T) {
	m := requireMembers(t, Scope{ID: "s3", Place: Place{Path: "/src", Device: 1, Inode: math.MaxUint64}, At: at.UTC()},
		`id path device inode registered_at`)
	require.Equal(t, `"s3"`, m["id"])
	require.Equal(t, `18446744073709551615`, m["inode"])
	m = requireMembers(t, RegisteredAgent{Agent: Agent{Name: "builder", ID: "builder#7"}, Token: "t"},
		`name id uid pid bound alive registered_at token`)
	require.Equal(t, `"builder#7"`, m["id"])
	require.NotContains(t, members(t, RegisteredAgent{}), "token")
	requireMembers(t, Reservation{}, `id scope scope_id patterns mode agent uid holder_alive keep mine reason created_at expires_at`)
	require.Equal(t, `null`, members(t, Caller{})["agent"])
	require.Equal(t, `null`, members(t, ReservationList{})["next"])
	for _, v := range []any{AgentList{}, ScopeList{}, ReservationList{}, Checked{}, Reservation{}} {
		require.Contains(t, string(must.Get(Encode(v))(t)), ":[]", "%T", v)
	}
	require.NotContains(t, members(t, ProblemOf(refusal.New(refusal.Conflict, "x"))), "conflicts")
}

func TestTimes(t *testing.T) {
	for _, n := range []int64{0, 1, MaxSeconds} {
		ttl, wait := must.Two(Reserve{TTLSeconds: n, WaitSeconds: MaxSeconds - n}.Times())(t)
		require.Equal(t, time.Duration(n)*time.Second, ttl)
		require.Equal(t, 24*time.Hour-ttl, wait)
		ttl = must.Get(Renew{TTLSeconds: n}.TTL())(t)
		require.Equal(t, time.Duration(n)*time.Second, ttl)
	}
	for _, n := range []int64{-1, MaxSeconds + 1, math.MaxInt64, math.MinInt64} {
		for _, r := range []Reserve{{TTLSeconds: n}, {WaitSeconds: n}} {
			_, _, err := r.Times()
			require.ErrorIs(t, err, refusal.BadParams)
		}
		must.Fail(Renew{TTLSeconds: n}.TTL())(t, refusal.BadParams)
	}
}

func TestEntryOfAReservation(t *testing.T) {
	e, err := ParseEntry([]byte(`{"seq":7,"time":"2026-03-04T04:06:07Z","kind":"released","by":"agent:builder#7","reservation":"r12",
		"patterns":["a/**"],"mode":"shared","holder":"builder","until":"2026-03-04T05:06:07Z","for":["builder","tester"],"prev":"00"}`))
	require.NoError(t, err)
	require.Equal(t, "r12", e.Reservation)
	require.Equal(t, []string{"a/**"}, e.Patterns)
	require.Equal(t, Shared, e.Mode)
	require.Equal(t, "builder", e.Holder)
	require.Equal(t, at.Add(time.Hour).UTC(), e.Until)
	require.Equal(t, []string{"builder", "tester"}, e.For)
}
