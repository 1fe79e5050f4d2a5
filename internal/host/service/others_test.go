package service_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/service"
	"gated/internal/test/must"
	"gated/internal/test/servicetest"
)

func caller(member string, uid uint32) op.Requester {
	return op.Requester{Source: op.SourceAPI, UID: uid, PID: 9, Set: member}
}

func process(pid int) service.Bound { return service.Bound{PID: pid, Start: 7, Boot: "boot"} }

// activeOf is the agents of node1, which decides for node2 and node3, too.
func activeOf(t *testing.T, w *servicetest.World, names ...string) *service.Agents {
	t.Helper()
	a := must.Get(service.NewAgents(w.Gate, w.Store, service.Members{Self: "node1", Names: names}, func(op.Target) {}, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(a.Close)
	require.NoError(t, a.Restore(t.Context()))
	return a
}

// A member is believed about its own agents, and about no others.
func TestAMemberSpeaksForItsOwnAgents(t *testing.T) {
	w := servicetest.New(t)
	a := activeOf(t, w, "node1", "node2", "node3")
	two, three := caller("node2", 1000), caller("node3", 1000)
	id := must.Get(a.Enrol(t.Context(), two, "builder", process(100)))(t)
	who := fmt.Sprintf("builder#%d", id)
	require.Equal(t, id, must.Get(a.Enrol(t.Context(), two, "builder", process(100)))(t), "the answer was lost")
	for _, other := range []struct {
		by op.Requester
		to service.Bound
	}{{three, process(100)}, {caller("node2", 1001), process(100)}, {two, process(101)}, {two, service.Bound{Token: strings.Repeat("a", 64)}}} {
		_, err := a.Enrol(t.Context(), other.by, "builder", other.to)
		require.ErrorIs(t, err, refusal.Conflict, other)
	}
	must.Get(a.Enrol(t.Context(), three, "same", process(100)))(t)
	for _, bad := range []struct {
		name string
		to   service.Bound
	}{{"a b", process(5)}, {"x", process(1)}, {"x", service.Bound{}}, {"x", service.Bound{Token: "short"}}} {
		_, err := a.Enrol(t.Context(), two, bad.name, bad.to)
		require.ErrorIs(t, err, refusal.Malformed, bad)
	}

	require.True(t, a.Of(two.Account(), who))
	for _, by := range []op.Account{three.Account(), {UID: 1001, Member: "node2"}, {UID: 1000, Member: "node1"}, {UID: 1000}} {
		require.False(t, a.Of(by, who), by)
	}
	require.False(t, a.Of(two.Account(), "builder#99"))

	require.ErrorIs(t, a.MemberEnded(t.Context(), "node3", who), refusal.NotAllowed)
	require.ErrorIs(t, a.MemberEnded(t.Context(), "node2", "builder#99"), refusal.UnknownTarget)
	require.True(t, a.Of(two.Account(), who))
	_, err := a.Unregister(t.Context(), three, "builder", false)
	require.ErrorIs(t, err, refusal.NotHolder)
	require.NoError(t, a.MemberEnded(t.Context(), "node2", who))
	require.False(t, a.Of(two.Account(), who))
	require.ErrorIs(t, a.MemberEnded(t.Context(), "node2", who), refusal.UnknownTarget)

	must.Get(a.Unregister(t.Context(), caller("node1", 0), "same", true))(t)
	require.Empty(t, must.Get(a.List(t.Context()))(t))
}

// A member that was taken over cannot register without end.
func TestEachMemberHasRoomForItsAgents(t *testing.T) {
	w := servicetest.New(t)
	a := activeOf(t, w, "node1", "node2", "node3")
	for i := range 128 {
		must.Get(a.Enrol(t.Context(), caller("node2", 1000), fmt.Sprintf("a%d", i), process(100+i)))(t)
	}
	_, err := a.Enrol(t.Context(), caller("node2", 1000), "more", process(99))
	require.ErrorIs(t, err, refusal.OverLimit)
	must.Get(a.Enrol(t.Context(), caller("node3", 1000), "more", process(99)))(t)
	for i := range 32 {
		must.Get(a.Enrol(t.Context(), caller("node3", 7), fmt.Sprintf("t%d", i), service.Bound{Token: fmt.Sprintf("%064d", i)}))(t)
	}
	_, err = a.Enrol(t.Context(), caller("node3", 7), "t", service.Bound{Token: strings.Repeat("f", 64)})
	require.ErrorIs(t, err, refusal.OverLimit)
}

// A start knows the other members' agents again, and ends those of hosts that are no members any more.
func TestAgentsOfAHostThatIsNoMemberEnd(t *testing.T) {
	w := servicetest.New(t)
	a := activeOf(t, w, "node1", "node2", "node3")
	must.Get(a.Enrol(t.Context(), caller("node2", 1000), "two", process(100)))(t)
	must.Get(a.Enrol(t.Context(), caller("node3", 1000), "three", process(100)))(t)
	a.Close()
	b := activeOf(t, w, "node1", "node2")
	list := must.Get(b.List(t.Context()))(t)
	require.Equal(t, []string{"two"}, []string{list[0].Name})
	require.Len(t, list, 1)
	require.True(t, list[0].Alive)
	require.True(t, b.Of(op.Account{UID: 1000, Member: "node2"}, list[0].ID))
	b.Close()
	c := must.Get(service.NewAgents(w.Gate, w.Store, service.Members{}, func(op.Target) {}, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(c.Close)
	require.NoError(t, c.Restore(t.Context()))
	require.Equal(t, []api.Agent{}, must.Get(c.List(t.Context()))(t))
}
