package reserve

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// ofMember is a caller without a name on a member's host.
func ofMember(member string) op.Requester {
	return op.Requester{Source: op.SourceAPI, UID: 1000, PID: 7, Set: member}
}

// Equal uids of two members are two holders: neither has what the other one reserved.
func TestEqualUidsOfTwoMembersAreTwoHolders(t *testing.T) {
	w := newWorld(t)
	one, two, here := ofMember("node1"), ofMember("node2"), ofMember("")
	g := w.reserve(claim(one, "src/**"))
	require.Equal(t, "uid:1000@node1", g.Holder.String())
	for _, other := range []op.Requester{two, here} {
		_, conflicts, err := w.Reserve(t.Context(), claim(other, "src/a.go"))
		require.ErrorIs(t, err, refusal.Conflict)
		require.Equal(t, g.ID, conflicts[0].ID)
		require.ErrorContains(t, err, "uid:1000@node1 (uid 1000@node1")
		_, err = w.Renew(t.Context(), other, g.ID, time.Hour)
		require.ErrorIs(t, err, refusal.NotHolder)
		_, err = w.Release(t.Context(), other, g.ID)
		require.ErrorIs(t, err, refusal.NotHolder)
		require.Empty(t, must.Get(w.ReleaseMine(t.Context(), other))(t))
		found, _, err := w.Check(t.Context(), other, repo, []string{"src/b.go"}, Exclusive)
		require.NoError(t, err)
		require.Len(t, found, 1)
	}
	found, _, err := w.Check(t.Context(), one, repo, []string{"src/b.go"}, Exclusive)
	require.NoError(t, err)
	require.Empty(t, found, "its own is not in its way")
	require.True(t, w.reserve(claim(one, "src/**")).Renewed)

	w.reserve(claim(two, "doc/**"))
	w.reserve(claim(here, "web/**"))
	for holder, id := range map[string]op.ReservationID{"uid:1000@node1": 1, "uid:1000@node2": 2, "uid:1000": 3} {
		list := must.Get(w.List(t.Context(), Query{Holder: holder}))(t)
		require.Len(t, list, 1, holder)
		require.Equal(t, id, list[0].ID)
	}
	require.Len(t, must.Get(w.ReleaseMine(t.Context(), one))(t), 1)
	require.Len(t, must.Get(w.List(t.Context(), Query{}))(t), 2)
}

// A uid's limit is of one host.
func TestEachMembersUidHasItsOwnRoom(t *testing.T) {
	w := newWorld(t)
	for i := range MaxPerHolder {
		w.reserve(claim(ofMember("node1"), fmt.Sprintf("a%d", i)))
	}
	_, _, err := w.Reserve(t.Context(), claim(ofMember("node1"), "more"))
	require.ErrorIs(t, err, refusal.OverLimit)
	w.reserve(claim(ofMember("node2"), "more"))
}

// What operators sign names the member, so that one uid's reservation cannot stand for another's.
func TestTheFingerprintOfAHolderHasItsMember(t *testing.T) {
	r := Reservation{ID: 1, Mode: Exclusive, Holder: Holder{UID: 1000}}
	other := r
	other.Holder.Member = "node2"
	require.NotEqual(t, View{Reservations: []Reservation{r}}.Fingerprint(), View{Reservations: []Reservation{other}}.Fingerprint())
	to := Holder{Name: "b", UID: 1000, Registration: 7}
	there := to
	there.Member = "node2"
	require.NotEqual(t, r.Handover(to), r.Handover(there))
}
