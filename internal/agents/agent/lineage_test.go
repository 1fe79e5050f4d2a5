package agent

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestWhoDescends(t *testing.T) {
	s, r := newStage(t), newRegistry(t, nil)
	builder := s.start("builder")
	builder.is(r, "", "nobody is registered")
	require.NoError(t, builder.register(r, "builder", builder.pid))
	builder.is(r, "builder")
	child := builder.start("child")
	child.is(r, "builder")
	shell := builder.start("below-sh--c", "sh")
	require.NotEqual(t, builder.pid, shell.number("parent"))
	shell.is(r, "builder")
	shell.start("grandchild", "setsid").is(r, "builder", "a session of one's own is no other lineage")
	require.Equal(t, []Registration{{ID: 7, Name: "builder", UID: uint32(os.Geteuid()), At: newYear,
		Process: r.byName["builder"].Process}}, r.All())

	// The nearest registered ancestor counts.
	require.NoError(t, child.register(r, "tester", child.pid))
	child.is(r, "tester")
	child.start("of-the-tester", "sh").is(r, "tester")
	builder.is(r, "builder")
	shell.is(r, "builder")

	// A sibling is nobody.
	sibling := s.start("sibling")
	sibling.is(r, "")
	require.ErrorIs(t, sibling.register(r, "builder", sibling.pid), refusal.Conflict, "the name of a live one")
	require.ErrorIs(t, sibling.register(r, "mine", builder.pid), refusal.NotAllowed, "a sibling's process")
	require.ErrorIs(t, builder.register(r, "mine", shell.pid), refusal.NotAllowed, "a descendant")
	sibling.is(r, "")
	require.NoError(t, sibling.register(r, "sibling", sibling.pid))
	sibling.is(r, "sibling")

	// The same again is no error; another name for the same process is one.
	require.NoError(t, builder.register(r, "builder", builder.pid))
	require.ErrorIs(t, builder.register(r, "another", builder.pid), refusal.Conflict)
}

// TestRegisterAParent: a tool that an agent starts registers the agent, and then
// another tool is known by it.
func TestRegisterAParent(t *testing.T) {
	s, r := newStage(t), newRegistry(t, nil)
	agent := s.start("agent")
	tool := agent.start("tool", "sh", "setsid")
	require.NoError(t, tool.register(r, "builder", agent.pid))
	tool.is(r, "builder")
	tool.end()
	agent.start("another-tool", "sh").is(r, "builder")
}

// TestA01 is who may not be registered.
func TestA01(t *testing.T) {
	s, r := newStage(t), newRegistry(t, nil)
	multiplexer := s.start("multiplexer", "setsid")
	left, right := multiplexer.start("left", "setsid"), multiplexer.start("right", "setsid")
	check := func(err error, why string) {
		t.Helper()
		require.ErrorIs(t, err, refusal.NotAllowed, why)
		require.ErrorContains(t, err, why)
	}
	refused := func(a *actor, pid int, why string) {
		t.Helper()
		check(a.register(r, "x", pid), why)
	}
	refused(left, 1, "cannot be registered")
	refused(left, 0, "cannot be registered")
	refused(left, -1, "cannot be registered")
	refused(left, 1<<22+1, "neither the caller nor an ancestor")
	refused(left, right.pid, "neither the caller nor an ancestor")
	refused(left, multiplexer.pid, "leads another session")

	// One that leads no session, but is what registered ones have in common.
	common := s.start("common")
	one, two := common.start("one"), common.start("two")
	require.NoError(t, one.register(r, "one", one.pid))
	refused(two, common.pid, `"one", which is registered, descends`)
	refused(common, common.pid, `"one", which is registered, descends`)
	require.NoError(t, two.register(r, "two", two.pid))
	common.is(r, "")

	// A subreaper, and what is below one that takes in what it leaves behind.
	init := s.start("init")
	require.Equal(t, "ok", init.say("subreaper"))
	check(init.measure().register(r, "x", init.pid), "is a subreaper")
	below := init.start("below").measure()
	require.Equal(t, init.pid, below.reaper)
	check(below.register(r, "x", init.pid), "is a subreaper")
	require.NoError(t, below.register(r, "below", below.pid), "it takes in nothing")

	// A registered one that became a subreaper later.
	late := s.start("late")
	require.NoError(t, late.register(r, "late", late.pid))
	sub := late.start("sub")
	require.Equal(t, "ok", late.say("subreaper"))
	check(sub.measure().register(r, "x", sub.pid), "is a subreaper")

	_, err := r.Register(t.Context(), left.peer, Wish{Name: "x", PID: left.pid}, granted)
	require.ErrorIs(t, err, refusal.Malformed, "nothing was measured")
	_, err = r.Register(t.Context(), left.peer, Wish{Name: "x", PID: left.pid, Reaper: right.pid}, granted)
	require.ErrorIs(t, err, refusal.NotAllowed, "no ancestor gets no orphans")
	require.ErrorIs(t, left.register(r, "a b", left.pid), refusal.Malformed)
	if os.Geteuid() == 0 {
		other := s.start("another-uid", "nobody")
		own := other.start("its-own")
		refused(own, os.Getpid(), "under uid 65534")
		refused(s.start("root's"), other.pid, "neither the caller nor an ancestor")
		require.NoError(t, own.register(r, "theirs", other.pid))
	}
}

// TestA02 is who is not known by a name.
func TestA02(t *testing.T) {
	s, r := newStage(t), newRegistry(t, nil)
	builder := s.start("builder")
	require.NoError(t, builder.register(r, "builder", builder.pid))

	// Double fork: lineage ends with the process between.
	orphan := builder.start("orphan", "orphan")
	require.NotEqual(t, builder.pid, orphan.number("parent"))
	orphan.is(r, "")
	require.ErrorIs(t, orphan.register(r, "another", builder.pid), refusal.NotAllowed)

	// One whose parent ends later. Nobody tells it, and nobody has to.
	parent := builder.start("parent")
	left := parent.start("left-behind")
	parent.end()
	left.is(r, "")

	// The same where a registered process is a subreaper after all.
	require.Equal(t, "ok", builder.say("subreaper"))
	taken := builder.start("leader", "setsid").start("taken-in", "orphan")
	require.Equal(t, builder.pid, taken.number("parent"))
	taken.is(r, "", "a session that is neither its parent's nor its own")
	plain := builder.start("plain-orphan", "orphan")
	require.Equal(t, builder.pid, plain.number("parent"))
	name, ok := r.Who(plain.peer, plain.measure().reaper)
	require.False(t, ok, name)
	name, ok = r.Who(builder.peer, builder.measure().reaper)
	require.True(t, ok, "it is itself, whoever takes in orphans")
	require.Equal(t, "builder#7", name.Who())

	if os.Geteuid() == 0 {
		other := builder.start("another-uid", "nobody")
		other.is(r, "", "a name does not pass to another uid")
		inside := builder.start("inside", "pidns")
		require.Equal(t, 1, inside.pid, "as it says")
		require.Greater(t, inside.peer.PID, 1, "as it is seen")
		inside.is(r, "", "another PID namespace")
		_, err := r.Register(t.Context(), inside.peer, Wish{Name: "x", PID: inside.peer.PID, Reaper: 1}, granted)
		require.ErrorIs(t, err, refusal.NotAllowed)
		require.ErrorContains(t, err, "namespace")
	}
}

// TestA02Connections: a connection speaks for who opened it, while that lives.
func TestA02Connections(t *testing.T) {
	s, r := newStage(t), newRegistry(t, nil)
	builder := s.start("builder")
	require.NoError(t, builder.register(r, "builder", builder.pid))
	for _, then := range []string{"stay", "exit"} {
		child := builder.start("opens-then-" + then)
		must.Get(child.conn.Write([]byte("hand " + then + "\n")))(t)
		line := must.Get(child.lines.ReadString('\n'))(t)
		require.Contains(t, line, "inherited", "another process has the connection")
		if then == "exit" {
			require.NoError(t, child.peer.handle.Wait(t.Context()))
			child.is(r, "", "who opened it has ended")
			_, err := r.Register(t.Context(), child.peer, Wish{Name: "x", PID: child.pid, Reaper: 1}, granted)
			require.ErrorIs(t, err, refusal.NotAllowed)
			require.ErrorContains(t, err, "has ended")
		} else {
			child.is(r, "builder")
		}
	}
	gone := builder.start("gone")
	gone.is(r, "builder")
	gone.end()
	gone.is(r, "", "also where it was known before")
	require.False(t, gone.peer.Alive())
}
