package daemon_test

import (
	"database/sql"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/test/must"
)

// TestAnAgentEnds: what is bound to its process is free, what it kept is not,
// and the next one of its name is another one.
func TestAnAgentEnds(t *testing.T) {
	w, dir := serving(t)
	builder, tester := w.actor(nil), w.actor(nil)
	require.Contains(t, builder.does("self"), "- ")
	require.Equal(t, "builder#1", builder.does("register builder"))
	require.Equal(t, "builder#1", builder.does("register builder"), "again is no other one")
	require.Equal(t, "builder#1", builder.does("self"))
	require.Equal(t, "ok builder#1", builder.does("once self"), "a child of its")
	require.Contains(t, tester.does("self"), "neither process")
	tester.cannot(refusal.Conflict, "register builder")
	require.Equal(t, "tester#2", tester.does("register tester"))
	require.Equal(t, "r1", builder.does("reserve %s src/**", dir))
	require.Equal(t, "r2", builder.does("keep %s docs/", dir))
	require.Contains(t, tester.cannot(refusal.Conflict, "reserve %s src/a/b.go", dir), " builder ")
	require.Equal(t, "builder", tester.does("check %s src/a/b.go", dir))
	require.Empty(t, builder.does("check %s src/a/b.go", dir))
	tester.cannot(refusal.NotHolder, "release r1")
	require.Equal(t, 2, w.status().Agents)
	require.Equal(t, 2, w.status().Reserved)

	tester.begin("wait %s src/a/b.go", dir)
	builder.kill()
	require.Equal(t, "ok r3", tester.line(), "who waits for it gets it when it is free")
	e := w.awaitEvent("builder", "orphaned")
	require.Equal(t, "r1", e.Reservation)
	require.Contains(t, w.awaitEvent("builder", "agent-ended").Detail, "builder#1: its process ended")
	require.Equal(t, []string{"r2 builder", "r3 tester"}, w.reservations())
	all := must.Get(w.client.AllReservations(t.Context(), client.ReservationQuery{Agent: "builder"}))(t)
	require.Len(t, all, 1)
	require.False(t, all[0].HolderAlive)

	again := w.actor(nil)
	require.Equal(t, "builder#3", again.does("register builder"))
	require.Equal(t, "r2", again.does("renew r2"), "what it kept is its own when it was started again")
	require.Equal(t, "r2", again.does("transfer r2 tester"))
	require.Equal(t, "builder#3", again.does("unregister builder"))
	require.Contains(t, again.does("self"), "neither process")
	require.Equal(t, []string{"tester#2"}, w.agents())
	w.haltSound()
}

// TestAgentsWhileTheDaemonIsAway: who lives is who it was; who ended holds
// nothing by the time that anybody is answered.
func TestAgentsWhileTheDaemonIsAway(t *testing.T) {
	w, dir := serving(t)
	lives, ends, inside := w.actor(nil), w.actor(nil), w.actor(nil)
	lives.does("register lives")
	ends.does("register ends")
	inside.does("token inside %s", filepath.Join(w.dir, "token"))
	inside.does("use %s", filepath.Join(w.dir, "token"))
	require.Equal(t, "inside#3", inside.does("self"))
	lives.does("reserve %s a", dir)
	ends.does("reserve %s b", dir)
	ends.does("keep %s c", dir)
	inside.does("reserve %s d", dir)
	w.halt()
	require.NotContains(t, w.log.String(), "level=ERROR")
	ends.kill()
	w.serve()
	require.Equal(t, []string{"inside#3", "lives#1"}, w.agents())
	require.Equal(t, []string{"r1 lives", "r3 ends", "r4 inside"}, w.reservations())
	require.Contains(t, w.awaitEvent("ends", "agent-ended").Detail, "while the daemon was away")
	require.Equal(t, "r2", w.awaitEvent("ends", "orphaned").Reservation)
	require.Equal(t, "lives#1", lives.does("self"))
	require.Equal(t, "inside#3", inside.does("self"))
	require.Equal(t, "r1", lives.does("release r1"))
	require.Equal(t, "ends#4", lives.does("once register ends")[3:], "a number is given once")
	lives.does("reserve %s a", dir)
	lives.kill() // it is watched again
	require.Equal(t, "r5", w.awaitEvent("lives", "orphaned").Reservation)
	w.haltSound()
}

// TestScratchIsOneRegistrations: P18. Whoever takes over a name has not made
// what its last holder made.
func TestScratchIsOneRegistrations(t *testing.T) {
	w := newServing(t)
	builder, tester := w.actor(nil), w.actor(nil)
	builder.does("register builder")
	tester.does("register tester")
	require.Equal(t, "j1 succeeded", builder.does("scratch web"))
	require.Equal(t, "j2 succeeded", builder.does("destroy web"), "unsigned")
	require.Equal(t, "j3 succeeded", builder.does("scratch web"))
	require.Equal(t, "j4 pending_signature", tester.does("destroy web"))
	require.Equal(t, "j5 succeeded", builder.does("scratch db"))
	builder.kill()
	w.awaitEvent("builder", "agent-ended")
	again := w.actor(nil)
	require.Equal(t, "builder#3", again.does("register builder"))
	require.Equal(t, "j6 pending_signature", again.does("destroy db"))
	require.Equal(t, "j7 succeeded", again.does("scratch cache"))
	require.Equal(t, "ok j8 succeeded", again.does("once destroy cache"), "whoever it started is the same agent")
	w.haltSound()
}

func TestTokens(t *testing.T) {
	w := newServing(t)
	a, b := w.actor(nil), w.actor(nil)
	file, forged := filepath.Join(w.dir, "token"), filepath.Join(w.dir, "forged")
	require.Equal(t, "inside#1", a.does("token inside %s", file))
	require.Contains(t, a.does("self"), "- ", "who made it is not who shows it")
	b.does("use %s", file)
	require.Equal(t, "inside#1", b.does("self"))
	require.Equal(t, "r1", b.does("reserve %s a", w.checkout("repo")))
	a.does("register outside")
	a.cannot(refusal.NotHolder, "unregister inside")
	require.NoError(t, os.WriteFile(forged, []byte(turned(read(t, file))), 0o600))
	a.does("use %s", forged)
	a.cannot(refusal.NotAllowed, "self")
	require.Equal(t, 1, w.refusals("not_allowed"))
	b.kill()
	require.Equal(t, []string{"r1 inside"}, w.reservations(), "nobody sees a token's end")
	_, err := w.client.Unregister(t.Context(), "inside")
	require.ErrorIs(t, err, refusal.NotHolder, "an operator ends nobody's reservations without a signature")
	require.Equal(t, []string{"r1 inside"}, w.reservations())
	w.haltSound()
}

// turned is another token of the same form.
func turned(token string) string {
	b := []byte(token)
	if b[0]++; b[0] != 'B' {
		b[0] = 'A'
	}
	return string(b)
}

// refusals is how many refusals with a code the log has.
func (w *world) refusals(code string) (n int) {
	w.t.Helper()
	entries := must.Get(w.client.Audit(w.t.Context(), 0, 1000))(w.t)
	for _, e := range entries {
		if e.Kind == "refused" && string(e.Code) == code {
			n++
		}
	}
	return n
}

// TestRefusalsAreInTheLogOnce: what a caller may not do is there, what is only
// asked is not.
func TestRefusalsAreInTheLogOnce(t *testing.T) {
	w, dir := serving(t)
	a, b := w.actor(nil), w.actor(nil)
	a.does("register a")
	b.does("register b")
	a.does("reserve %s x", dir)
	b.does("check %s x", dir)
	b.cannot(refusal.Conflict, "reserve %s x", dir)
	b.cannot(refusal.NotHolder, "release r1")
	b.cannot(refusal.NotHolder, "renew r1")
	b.cannot(refusal.NotHolder, "transfer r1 b")
	a.cannot(refusal.UnknownTarget, "transfer r1 nobody")
	b.cannot(refusal.Conflict, "register a")
	b.cannot(refusal.StaleTarget, "lie %s y", dir)
	require.Equal(t, 2, w.refusals("conflict"))
	require.Equal(t, 3, w.refusals("not_holder"))
	require.Equal(t, 1, w.refusals("unknown_target"))
	require.Equal(t, 1, w.refusals("stale_target"))
	link := filepath.Join(filepath.Dir(dir), "link")
	require.NoError(t, os.Symlink(dir, link))
	b.cannot(refusal.BadParams, "reserve %s y", link)
	b.cannot(refusal.BadParams, "check %s y", link)
	require.Equal(t, 1, w.refusals("bad_params"), "a check decides nothing")
	w.haltSound()
}

// TestOtherUIDs: a name never passes to another uid.
func TestOtherUIDs(t *testing.T) {
	w := newInitialised(t)
	if os.Geteuid() != 0 { // there is one uid alone
		w.serve()
		mine := w.actor(nil)
		mine.does("register mine")
		mine.does("reserve %s a", w.checkout("repo"))
		all := must.Get(w.client.AllReservations(t.Context(), client.ReservationQuery{}))(t)
		require.EqualValues(t, os.Geteuid(), all[0].UID)
		return
	}
	nobody := w.serveOthers("")
	dir := w.checkout("repo")
	require.NoError(t, os.Chmod(dir, 0o777))
	mine, theirs := w.actor(nil), w.actor(nobody)
	mine.does("register mine")
	mine.does("reserve %s a", dir)
	uid := fmt.Sprintf("uid:%d", nobody.Uid)
	theirs.cannot(refusal.Conflict, "register mine")
	theirs.cannot(refusal.NotHolder, "unregister mine")
	require.Contains(t, theirs.cannot(refusal.Conflict, "reserve %s a", dir), " mine ")
	require.Equal(t, "r2", theirs.does("reserve %s b", dir), "under a bare uid")
	require.Equal(t, []string{"r1 mine", "r2 " + uid}, w.reservations())
	mine.cannot(refusal.NotHolder, "release r2")
	require.Equal(t, "theirs#2", theirs.does("register theirs"))
	require.Equal(t, "r1", mine.does("transfer r1 theirs"))
	require.Equal(t, []string{"r1 theirs", "r2 " + uid}, w.reservations())
	theirs.kill()
	require.Equal(t, "r1", w.awaitEvent("theirs", "orphaned").Reservation)
	require.Equal(t, []string{"r2 " + uid}, w.reservations(), "it is bound to no process")
	w.haltSound()
}

// serveOthers serves a socket that the user nobody may connect to, and returns
// whom that is. It needs root.
func (w *world) serveOthers(config string) *syscall.Credential {
	w.t.Helper()
	nobody := must.Get(user.Lookup("nobody"))(w.t)
	group := must.Get(user.LookupGroupId(nobody.Gid))(w.t)
	w.config("socket_group: " + group.Name + "\n" + config)
	require.NoError(w.t, os.Chmod(w.dir, 0o755))
	w.serve()
	uid := must.Get(strconv.ParseUint(nobody.Uid, 10, 32))(w.t)
	gid := must.Get(strconv.ParseUint(nobody.Gid, 10, 32))(w.t)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// TestAnEndThatCannotBeWritten is tried again until it is, and the name stays
// taken so long.
func TestAnEndThatCannotBeWritten(t *testing.T) {
	w, dir := serving(t)
	a, b := w.actor(nil), w.actor(nil)
	a.does("register a")
	a.does("reserve %s x", dir)
	db := must.Get(sql.Open("sqlite", "file:"+filepath.Join(w.state, "gated.db")+"?_pragma=busy_timeout(10000)"))(t)
	defer func() { require.NoError(t, db.Close()) }()
	must.Get(db.Exec(`CREATE TRIGGER broken BEFORE DELETE ON agents BEGIN SELECT RAISE(ABORT, 'no'); END`))(t)
	from := len(w.log.String())
	a.kill()
	w.log.await(t, from, "is not free yet")
	require.Len(t, w.reservations(), 1, "it ends as a whole or not at all")
	b.cannot(refusal.Conflict, "register a")
	b.cannot(refusal.Conflict, "reserve %s x", dir)
	must.Get(db.Exec(`DROP TRIGGER broken`))(t)
	require.Equal(t, "r1", w.awaitEvent("a", "orphaned").Reservation)
	w.awaitEvent("a", "agent-ended")
	require.Equal(t, "r2", b.does("reserve %s x", dir))
	w.haltSound()
}

// TestRestoreEndsAgents: the copy does not know what was given up since.
func TestRestoreEndsAgents(t *testing.T) {
	w, dir := serving(t)
	a, b := w.actor(nil), w.actor(nil)
	a.does("register a")
	a.does("reserve %s x", dir)
	a.does("keep %s y", dir)
	file := w.backup("backup")
	a.does("release r1")
	b.does("register b")
	b.does("reserve %s x", dir)
	w.halt()
	must.Get(life.Restore(t.Context(), file, w.state))(t)
	w.sound()
	w.serve()
	require.Empty(t, w.agents())
	require.Empty(t, w.reservations())
	entries := must.Get(w.client.Audit(t.Context(), 0, 1000))(t)
	require.Contains(t, detailOf(entries, "restored"), "registrations of agents: 1, reservations: 2")
	require.Contains(t, a.does("self"), "neither process")
	require.Equal(t, "b#2", b.does("register b"), "the copy knows of one")
	require.Equal(t, "r3", b.does("reserve %s x", dir))
	w.haltSound()
}

func detailOf(entries []api.Entry, kind string) string {
	for _, e := range entries {
		if e.Kind == kind {
			return e.Detail
		}
	}
	return ""
}
