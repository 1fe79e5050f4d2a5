package daemon_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// The agents of a standby are known to the member that decides, with their process at the standby, and one book decides for all.
func TestAgentsOfAStandby(t *testing.T) {
	g := newForwarding(t)
	g.start()
	dir := g.first.checkout("repo")
	here, there := g.first.actor(nil), g.second.actor(nil)
	require.Equal(t, "builder#1", there.does("register builder"))
	require.Equal(t, "builder#1", there.does("register builder"), "again is no other one")
	require.Equal(t, "builder#1", there.does("self"))
	require.Equal(t, "ok builder#1", there.does("once self"), "a child of its")
	here.cannot(refusal.Conflict, "register builder")
	require.Equal(t, "tester#2", here.does("register tester"))
	there.cannot(refusal.Conflict, "register tester")
	for _, m := range []*groupMember{g.first, g.second} {
		m.follows()
		all := must.Get(m.client.Agents(t.Context()))(t)
		require.Len(t, all, 2)
		require.Equal(t, []string{"node2", "node1"}, []string{all[0].Member, all[1].Member})
		require.True(t, all[0].Alive)
	}

	require.Equal(t, "r1", there.does("reserve %s src/**", dir))
	require.Equal(t, "r2", here.does("reserve %s src/**", dir), "the same path of another host is another directory")
	require.Equal(t, "r1", there.does("renew r1"))
	here.cannot(refusal.NotHolder, "release r1")
	here.cannot(refusal.NotHolder, "renew r1")
	require.Equal(t, "", there.does("check %s src/a.go", dir))
	bare := g.second.actor(nil)
	require.Equal(t, "builder", bare.does("check %s src/a.go", dir), "a hook at the standby hears of it")
	require.Contains(t, bare.cannot(refusal.Conflict, "reserve %s src/a.go", dir), " builder ")
	require.Equal(t, "r3", bare.does("reserve %s doc", dir))
	all := must.Get(g.second.client.AllReservations(t.Context(), client.ReservationQuery{Agent: "uid:" + strconv.Itoa(os.Geteuid())}))(t)
	require.Len(t, all, 1, "the reads of the standby have it, and a bare uid is one of its host")
	require.Equal(t, who("node2"), all[0].Agent)
	require.Equal(t, dir, all[0].Scope)
	require.True(t, all[0].Mine)
	at := must.Get(g.first.client.AllReservations(t.Context(), client.ReservationQuery{}))(t)
	require.Equal(t, []string{"node2:" + dir, dir, "node2:" + dir}, []string{at[0].Scope, at[1].Scope, at[2].Scope})
	require.Equal(t, []bool{false, false, false}, []bool{at[0].Mine, at[1].Mine, at[2].Mine})

	// A job of a standby's agent is the agent's, also at the member that decides.
	require.Contains(t, there.does("scratch box"), "j")
	job := must.Get(g.first.client.Jobs(t.Context(), client.JobQuery{}))(t).Jobs[0]
	require.Equal(t, []string{"agent:builder#1"}, job.RequestedBy)

	there.kill()
	require.Equal(t, "r1", g.first.awaitEvent("builder", "orphaned").Reservation)
	require.Contains(t, g.first.awaitEvent("builder", "agent-ended").Detail, "builder#1: its process ended")
	require.Equal(t, []string{"tester#2"}, g.first.agents())
	g.second.follows()
	require.Equal(t, []string{"tester#2"}, g.second.agents())
}

// A token is good on the host on which it was given, under the uid there.
func TestATokenIsOfOneMember(t *testing.T) {
	g := newForwarding(t)
	g.start()
	file := filepath.Join(g.second.dir, "agent")
	dir := g.first.checkout("repo")
	a := g.second.actor(nil)
	require.Equal(t, "inside#1", a.does("token inside %s", file))
	a.does("use %s", file)
	require.Equal(t, "inside#1", a.does("self"))
	require.Equal(t, "r1", a.does("keep %s x", dir))
	b := g.first.actor(nil)
	b.does("use %s", file)
	b.cannot(refusal.NotAllowed, "self")
	b.does("use")
	b.cannot(refusal.NotHolder, "unregister inside")
	b.cannot(refusal.NotHolder, "release r1")
	require.Equal(t, "inside#1", a.does("unregister inside"))
	a.cannot(refusal.NotAllowed, "self")
	require.Empty(t, g.first.agents())
	require.Equal(t, []string{"r1 inside"}, g.first.reservations(), "what it kept stays until its time")
}

// Both hosts' agents stay who they are when another member decides, and one that ended meanwhile holds nothing.
func TestAgentsOverATakeover(t *testing.T) {
	g := newForwarding(t)
	g.start()
	dir := g.first.checkout("repo")
	one, two, gone := g.first.actor(nil), g.second.actor(nil), g.second.actor(nil)
	require.Equal(t, "one#1", one.does("register one"))
	require.Equal(t, "two#2", two.does("register two"))
	require.Equal(t, "gone#3", gone.does("register gone"))
	require.Equal(t, "r1", one.does("reserve %s a", dir))
	require.Equal(t, "r2", two.does("reserve %s b", dir))
	require.Equal(t, "r3", gone.does("reserve %s c", dir))
	g.second.follows()
	g.second.end()
	gone.kill()
	g.second.start(api.RoleStandby)
	require.Equal(t, "two#2", two.does("self"), "it is the same process")
	require.Equal(t, "r3", g.first.awaitEvent("gone", "orphaned").Reservation)
	g.second.follows()

	g.first.engine.Partition(true)
	g.second.becomes(api.RoleActive)
	g.second.log.await(t, 0, "other members' calls are answered")
	g.first.engine.Partition(false)
	g.first.fenced()
	g.first.start(api.RoleStandby)
	g.first.follows()
	require.Equal(t, "one#1", one.does("self"))
	require.Equal(t, "two#2", two.does("self"))
	require.Equal(t, "r1", one.does("renew r1"))
	require.Equal(t, "r2", two.does("renew r2"))
	two.kill()
	require.Equal(t, "r2", g.first.awaitEvent("two", "orphaned").Reservation)
	one.kill()
	require.Equal(t, "r1", g.second.awaitEvent("one", "orphaned").Reservation)
	require.Empty(t, g.second.reservations())
}

// Without the member that decides, a standby names it, and a hook does what it does without a daemon.
func TestAStandbysAgentsWithoutTheActiveMember(t *testing.T) {
	g := newForwarding(t)
	g.start()
	dir := g.first.checkout("repo")
	a := g.second.actor(nil)
	require.Equal(t, "a#1", a.does("register a"))
	g.second.follows()
	g.first.end()
	a.cannot(refusal.Standby, "reserve %s x", dir)
	a.cannot(refusal.Standby, "check %s x", dir)
	require.Equal(t, "a#1", a.does("self"), "who it is, its own member knows")
	b := g.second.actor(nil)
	b.cannot(refusal.Standby, "register b")
	require.Contains(t, b.does("self"), "- ", "it has no name that only the standby knows")
}

// A directory that several members share is one, under the path that each has for it.
func TestASharedScope(t *testing.T) {
	g := newForwarding(t)
	one, two, plain := g.first.checkout("srv/web"), g.first.checkout("mnt/web"), g.first.checkout("srv/other")
	for _, m := range []*groupMember{g.first, g.second} {
		g.store(m, strings.Replace(g.read(m), "  lease: 3s\n", "  lease: 3s\n  scopes: {web: {node1: \""+one+"\", node2: \""+two+"\"}}\n", 1))
	}
	for _, dir := range []string{one, two} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub"), 0o755))
	}
	g.start()
	here, there := g.first.actor(nil), g.second.actor(nil)
	require.Equal(t, "a#1", here.does("register a"))
	require.Equal(t, "b#2", there.does("register b"))
	require.Equal(t, "r1", here.does("reserve %s sub/x/**", one))
	for _, ask := range []string{"reserve " + two + " sub/x/y", "reserve " + filepath.Join(two, "sub") + " x/**", "reserve " + two + " " + two + "/sub/x/z"} {
		require.Contains(t, there.cannot(refusal.Conflict, "%s", ask), " a ", ask)
	}
	require.Equal(t, "a", there.does("check %s x/y", filepath.Join(two, "sub")))
	require.Equal(t, "r2", there.does("reserve %s %s/sub/z", two, two))
	require.Equal(t, "b", here.does("check %s sub/z", one))
	require.Equal(t, "r3", there.does("reserve %s **", plain))
	require.Equal(t, "r4", here.does("reserve %s **", plain), "it is shared by nobody")
	here.cannot(refusal.BadParams, "reserve %s **", filepath.Dir(one))
	there.cannot(refusal.BadParams, "reserve %s web/sub/x/y", filepath.Dir(two))

	scopes := func(m *groupMember, dir string) (out []string) {
		for _, r := range must.Get(m.client.AllReservations(t.Context(), client.ReservationQuery{Scope: dir}))(t) {
			out = append(out, r.ID+" "+r.Scope)
		}
		return out
	}
	g.second.follows()
	require.Equal(t, []string{"r1 " + one, "r2 " + one}, scopes(g.first, one))
	require.Equal(t, []string{"r1 " + two, "r2 " + two}, scopes(g.second, two), "each reads its own path")
	require.Equal(t, []string{"r3 node2:" + plain, "r4 " + plain}, scopes(g.first, "")[2:])
	require.Equal(t, "r2", there.does("renew r2"))
	require.Equal(t, "r1", here.does("transfer r1 b"))
	require.Equal(t, "", there.does("check %s sub/x/y", two))
}
