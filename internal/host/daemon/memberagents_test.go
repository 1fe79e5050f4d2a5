package daemon_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/members"
	"gated/internal/test/must"
)

// The agents of a standby are known to the member that decides, with their process at the standby, and one book decides for all.
func TestAgentsOfAStandby(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
	g := newForwarding(t)
	g.first.leases("30s") // the standby takes over after that
	g.start()
	dir := g.first.checkout("repo")
	a := g.second.actor(nil)
	require.Equal(t, "a#1", a.does("register a"))
	g.second.follows()
	g.first.end()
	// A call on a connection that just ends may have come through, and says so.
	a.soonCannot(refusal.Standby, "reserve %s x", dir)
	a.soonCannot(refusal.Standby, "check %s x", dir)
	require.Equal(t, "a#1", a.does("self"), "who it is, its own member knows")
	b := g.second.actor(nil)
	b.soonCannot(refusal.Standby, "register b")
	require.Contains(t, b.does("self"), "- ", "it has no name that only the standby knows")
}

// A directory that several members share is one, under the path that each has for it.
func TestASharedScope(t *testing.T) {
	t.Parallel()
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

	// A link in the path would keep every claim out of the shared scope.
	g.second.end()
	link := filepath.Join(g.first.dir, "link")
	require.NoError(t, os.Symlink(two, link))
	g.store(g.second, strings.Replace(g.read(g.second), "node2: \""+two, "node2: \""+link, 1))
	err := g.second.serveAll(t.Context())
	refused(t, err, refusal.Conflict, "there is a symbolic link in "+link, two)
}

// A claim of a standby's agent waits at the member that decides, and leaves the queue with its caller.
func TestAClaimOfAStandbyWaits(t *testing.T) {
	t.Parallel()
	g := newForwarding(t)
	g.start()
	dir := g.first.checkout("repo")
	a, b, c := g.second.actor(nil), g.second.actor(nil), g.second.actor(nil)
	for name, who := range map[string]*actor{"a": a, "b": b, "c": c} {
		who.does("register %s", name)
	}
	require.Equal(t, "r1", a.does("reserve %s x", dir))
	b.begin("wait %s x", dir)
	require.Eventually(t, func() bool {
		return strings.Contains(c.cannot(refusal.Conflict, "reserve %s x", dir), " a ")
	}, patience, time.Millisecond)
	require.Equal(t, "r1", a.does("release r1"))
	require.Equal(t, "ok r2", b.line())
	c.begin("wait %s x", dir)
	c.kill()
	b.kill()
	require.Equal(t, "r3", a.does("wait %s x", dir), "a caller that is gone waits no more")
}

// A member that was taken over says what is not so about agents.
func TestAMemberThatLiesAboutAgents(t *testing.T) {
	t.Parallel()
	g := newForwarding(t)
	g.start()
	dir := g.first.checkout("repo")
	here, there := g.first.actor(nil), g.second.actor(nil)
	require.Equal(t, "tester#1", here.does("register tester"))
	require.Equal(t, "builder#2", there.does("register builder"))
	require.Equal(t, "r1", here.does("reserve %s x", dir))
	gate := string(g.first.status().Gate)
	files := g.files["node2"]
	c := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{must.Get(tls.LoadX509KeyPair(files[0], files[1]))(t)}}
	transport := &http.Transport{TLSClientConfig: c}
	defer transport.CloseIdleConnections()
	send := func(caller, method, path, body string) error {
		r := must.Get(http.NewRequestWithContext(t.Context(), method, "https://"+g.address["node1"]+path, strings.NewReader(body)))(t)
		r.Header = http.Header{members.CallerHeader: {"v1 " + gate + " " + caller}}
		if body != "" {
			r.Header.Set("Content-Type", api.ContentType)
		}
		resp := must.Get(transport.RoundTrip(r))(t)
		defer resp.Body.Close()
		b := must.Get(io.ReadAll(resp.Body))(t)
		var p api.Problem
		if resp.StatusCode < 400 {
			return nil
		}
		require.NoError(t, api.DecodeAnswer(b, &p), "%s", b)
		return p.Refusal()
	}
	uid := strconv.Itoa(os.Geteuid())
	process := `"pid": 7, "start": 7, "boot": "b", "token": ""}`
	for _, c := range []struct {
		caller, method, path, body string
		want                       refusal.Code
	}{
		{uid + " 7 tester#1", "POST", "/v1/reservations/release-mine", "", refusal.NotAllowed},
		{uid + " 7 builder#1", "POST", "/v1/reservations/release-mine", "", refusal.NotAllowed},
		{uid + " 7 builder#3", "POST", "/v1/reservations/release-mine", "", refusal.NotAllowed},
		{"4242 7 builder#2", "POST", "/v1/reservations/release-mine", "", refusal.NotAllowed},
		{uid + " 7 -", "DELETE", "/v1/reservations/r1", "", refusal.NotHolder},
		{uid + " 7 -", "DELETE", "/v1/members/agents/tester%231", "", refusal.UnknownTarget},
		{uid + " 7 -", "DELETE", "/v1/agents/tester", "", refusal.NotHolder},
		{"0 7 -", "DELETE", "/v1/agents/tester", "", refusal.NotHolder},
		{uid + " 7 -", "POST", "/v1/members/agents", `{"name": "tester", ` + process, refusal.Conflict},
		{uid + " 7 -", "POST", "/v1/members/agents", `{"name": "self", ` + process, refusal.BadParams},
		{uid + " 7 -", "POST", "/v1/members/agents", `{"name": "a", "member": "node1", ` + process, refusal.Malformed},
		{uid + " 7 -", "POST", "/v1/members/agents", `{"name": "a", "pid": 1, "start": 0, "boot": "", "token": ""}`, refusal.Malformed},
		{uid + " 7 -", "POST", "/v1/members/agents", "", refusal.Malformed},
		{uid + " 7 -", "GET", "/v1/members/agents", "", refusal.Malformed},
	} {
		require.ErrorIs(t, send(c.caller, c.method, c.path, c.body), c.want, c)
	}
	for _, m := range []*groupMember{g.first, g.second} {
		conn := must.Get(net.Dial("unix", m.socket))(t)
		_, err := fmt.Fprintf(conn, "DELETE /v1/members/agents/tester%%231 HTTP/1.1\r\nHost: gated\r\n%s: v1 %s 0 7 -\r\nConnection: close\r\n\r\n", members.CallerHeader, gate)
		require.NoError(t, err)
		require.Contains(t, string(must.Get(io.ReadAll(conn))(t)), "there is no such path", "no caller on a socket gets there")
		require.NoError(t, conn.Close())
	}
	require.Equal(t, "tester#1", here.does("self"))
	require.Equal(t, []string{"r1 tester"}, g.first.reservations())
	require.Equal(t, []string{"builder#2", "tester#1"}, g.first.agents())

	// About its own agents it is believed.
	require.NoError(t, send(uid+" 7 builder#2", "POST", "/v1/reservations/release-mine", ""))
	require.NoError(t, send(uid+" 7 -", "DELETE", "/v1/members/agents/builder%232", ""))
	require.Equal(t, []string{"tester#1"}, g.first.agents())
	there.cannot(refusal.NotAllowed, "reserve %s y", dir)
}

// Operators take a reservation of another member's directory away, or give it to an agent of the other host.
func TestTakingReservationsOfAnotherMemberAway(t *testing.T) {
	t.Parallel()
	g := newForwarding(t)
	g.start()
	dir := g.first.checkout("repo")
	there, here := g.second.actor(nil), g.first.actor(nil)
	require.Equal(t, "there#1", there.does("register there"))
	require.Equal(t, "here#2", here.does("register here"))
	require.Equal(t, "r1", there.does("reserve %s x", dir))
	require.NoError(t, os.RemoveAll(dir), "what is at that path on the active host says nothing")
	g.second.follows()
	j := g.first.wants(op.ForceTransfer, "scope/s1", "reservation", "r1", "to", "here")
	require.Equal(t, op.StatePending, j.State)
	require.NoError(t, g.first.approve(*j.Request))
	require.Equal(t, op.StateSucceeded, g.first.await(j.ID).State)
	require.Equal(t, []string{"r1 here"}, g.first.reservations())
	there.cannot(refusal.NotHolder, "release r1")
	j = g.second.wants(op.ReleaseAll, "scope/s1")
	require.NoError(t, g.second.approve(*j.Request))
	require.Equal(t, op.StateSucceeded, g.second.await(j.ID).State)
	require.Empty(t, g.first.reservations())
}
