package reserve

import (
	"fmt"
	"strings"
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

// The same path on two members is two directories, and a shared scope is one, whichever path it has.
func TestPlacesOfMembersAndSharedScopes(t *testing.T) {
	w := newWorld(t)
	on := func(in, path string, names *Names) Place { return Place{In: in, Path: path, Names: names} }
	one, two := ofMember("node1"), ofMember("node2")
	ask := func(by op.Requester, p Place, pattern string) error {
		_, _, err := w.Reserve(t.Context(), Claim{By: by, Place: p, Patterns: []string{pattern}})
		return err
	}
	require.NoError(t, ask(one, on("node1", "/srv/web", nil), "**"))
	require.NoError(t, ask(two, on("node2", "/srv/web", nil), "**"), "another directory of the same path")
	require.NoError(t, ask(two, on("", "/node1/srv/web", nil), "**"), "a directory of that name")
	require.ErrorIs(t, ask(two, on("node1", "/", nil), "srv/**"), refusal.Conflict)
	require.ErrorIs(t, ask(two, on("node1", "/srv", nil), "web/a"), refusal.Conflict)
	require.ErrorIs(t, ask(two, on("node1", "/srv/web/sub", nil), "a"), refusal.Conflict)
	require.NoError(t, ask(two, on("node1", "/srv/website", nil), "a"))

	require.NoError(t, ask(one, on("web", "/sub", &Names{Path: "/srv/shared/sub"}), "/srv/shared/sub/a/**"))
	require.ErrorIs(t, ask(two, on("web", "/", &Names{Path: "/mnt/shared"}), "/mnt/shared/sub/a/x"), refusal.Conflict)
	require.ErrorIs(t, ask(two, on("web", "/sub/a", &Names{Path: "/mnt/shared/sub/a"}), "x"), refusal.Conflict)
	require.NoError(t, ask(two, on("web", "/", &Names{Path: "/mnt/shared"}), "sub/b"))

	// A claim from above cannot hide what is shared from the other members.
	above := on("node1", "/srv", &Names{Path: "/srv", Shared: []string{"shared"}})
	for _, pattern := range []string{"**", "shared/x", "shared", "sh*/**", "*", "/srv/shared/sub"} {
		require.ErrorIs(t, ask(one, above, pattern), refusal.BadParams, pattern)
		_, _, err := w.Check(t.Context(), one, above, []string{pattern}, Exclusive)
		require.ErrorIs(t, err, refusal.BadParams, pattern)
	}
	require.NoError(t, ask(one, above, "sharedelse/x"))

	list := must.Get(w.List(t.Context(), Query{In: "node1", Path: "/srv"}))(t)
	require.Len(t, list, 3)
	require.Equal(t, "node1:/srv/web", list[0].Scope.Place.String())
	list = must.Get(w.List(t.Context(), Query{In: "web", Path: "/"}))(t)
	require.Len(t, list, 2)
	require.Equal(t, Place{In: "web", Path: "/sub"}, list[0].Scope.Place)
}

// Each place has a key of its own.
func FuzzPlaceKey(f *testing.F) {
	for _, p := range []Place{{Path: "/"}, {Path: "/srv"}, {In: "node2", Path: "/"}, {In: "node2", Path: "/srv"}, {Path: "/node2/srv"}} {
		f.Add(p.In, p.Path)
	}
	f.Fuzz(func(t *testing.T, in, path string) {
		p := Place{In: in, Path: path}
		if checkPath(path) != nil || strings.HasPrefix(path, "//") || in != "" && op.CheckName(in) != nil {
			return // no place that a claim can have
		}
		require.Equal(t, p, PlaceOf(p.Key()))
	})
}
