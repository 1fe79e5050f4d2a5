package matrix_test

import (
	"os"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
)

// working is an agent that has registered itself and has src/** as r1.
func (s *stage) working(label string, how ...string) *actor {
	s.t.Helper()
	a := s.actor(label, how...)
	a.works()
	return a
}

func (a *actor) works() {
	a.t.Helper()
	require.Equal(a.t, "builder#1", a.does("register builder %d", a.pid))
	require.Equal(a.t, "r1", a.does("reserve %s src/**", a.repo))
}

// registers is a row in which somebody registers a process that is not theirs
// to register.
func registers(id, what string, want refusal.Code, scene func(s *stage) (who *actor, pid int)) attack {
	return onStage(id, "an agent registers "+what, want, func(s *stage) func() error {
		who, pid := scene(s)
		return func() error {
			err := who.tries("register impostor %d", pid)
			if self := who.does("self"); self != "-" && self != "builder#1" {
				return nil // it has a name that it may not have
			}
			return err
		}
	})
}

// impersonates is a row in which somebody who is not builder, but looks much
// like it, lets go of what builder holds.
func impersonates(id, what string, scene func(s *stage) *actor) attack {
	return onStage(id, what+", lets go of what an agent holds", refusal.NotHolder, func(s *stage) func() error {
		who := scene(s)
		return func() error {
			require.Equal(s.t, "-", who.does("self"))
			require.ErrorIs(s.t, who.tries("reserve %s src/a.go", s.repo), refusal.Conflict)
			return who.tries("release r1")
		}
	})
}

// needsRoot skips a row that takes other uids or namespaces.
func (s *stage) needsRoot(why string) {
	if os.Getuid() != 0 {
		s.halt() // so that nothing else fails before the skip
		s.t.Skip("needs root, " + why)
	}
}

var agentRows = []attack{
	registers("A01a", "pid 1", refusal.NotAllowed, func(s *stage) (*actor, int) { return s.actor("x"), 1 }),
	registers("A01b", "another user's process, which started it", refusal.NotAllowed, func(s *stage) (*actor, int) {
		s.needsRoot("to be another user")
		return s.actor("x", "stranger"), os.Getpid()
	}),
	registers("A01c", "itself, which takes in orphans", refusal.NotAllowed, func(s *stage) (*actor, int) {
		a := s.actor("x")
		a.does("subreaper")
		return a, a.pid
	}),
	registers("A01d", "its parent, which takes in orphans", refusal.NotAllowed, func(s *stage) (*actor, int) {
		parent := s.actor("parent")
		parent.does("subreaper")
		return parent.starts("x"), parent.pid
	}),
	registers("A01e", "a terminal multiplexer, whose panes are sessions of their own", refusal.NotAllowed, func(s *stage) (*actor, int) {
		mux := s.actor("mux", "setsid")
		mux.starts("left", "setsid").works()
		return mux.starts("right", "setsid"), mux.pid
	}),
	registers("A01f", "what it and a registered agent have in common", refusal.NotAllowed, func(s *stage) (*actor, int) {
		common := s.actor("common")
		common.starts("left").works()
		return common.starts("right"), common.pid
	}),
	registers("A01g", "itself, from which a registered agent descends", refusal.NotAllowed, func(s *stage) (*actor, int) {
		common := s.actor("common")
		common.starts("left").works()
		return common, common.pid
	}),
	registers("A01h", "the leader of another session, which nobody has registered", refusal.NotAllowed, func(s *stage) (*actor, int) {
		login := s.actor("login", "setsid")
		return login.starts("x", "setsid"), login.pid
	}),
	registers("A01i", "a sibling", refusal.NotAllowed, func(s *stage) (*actor, int) { return s.actor("x"), s.actor("sibling").pid }),
	registers("A01j", "a sibling that is registered", refusal.NotAllowed, func(s *stage) (*actor, int) { return s.actor("x"), s.working("sibling").pid }),
	registers("A01k", "a process that it started", refusal.NotAllowed, func(s *stage) (*actor, int) {
		a := s.actor("x")
		return a, a.starts("child").pid
	}),
	onStage("A01l", "an agent says that its orphans go to a process that is no ancestor", refusal.NotAllowed, func(s *stage) func() error {
		a, sibling := s.actor("x"), s.actor("sibling")
		return func() error {
			require.ErrorIs(s.t, a.tries("register x %d 0", a.pid), refusal.Malformed)
			return a.tries("register x %d %d", a.pid, sibling.pid)
		}
	}),
	onStage("A01m", "an agent takes the name of another one that lives", refusal.Conflict, func(s *stage) func() error {
		s.working("builder")
		a := s.actor("x")
		return func() error { return a.tries("register builder %d", a.pid) }
	}),

	impersonates("A02a", "an agent's orphan", func(s *stage) *actor { return s.working("builder").starts("orphan", "orphan") }),
	impersonates("A02b", "a process whose parent, an agent's child, has ended since", func(s *stage) *actor {
		child := s.working("builder").starts("child")
		left := child.starts("left")
		child.ends()
		return left
	}),
	impersonates("A02c", "an orphan of another session that a registered agent took in, which became a subreaper", func(s *stage) *actor {
		builder := s.working("builder")
		builder.does("subreaper")
		return builder.starts("leader", "setsid").starts("orphan", "orphan")
	}),
	impersonates("A02d", "a sibling", func(s *stage) *actor {
		s.working("builder")
		return s.actor("sibling")
	}),
	impersonates("A02e", "a child under another uid", func(s *stage) *actor {
		s.needsRoot("to be another user")
		return s.working("builder").starts("other", "stranger")
	}),
	impersonates("A02f", "a child in a PID namespace of its own", func(s *stage) *actor {
		s.needsRoot("to make a PID namespace")
		return s.working("builder").starts("inside", "pidns")
	}),
	onStage("A02g", "a connection of an agent's child is inherited, and whoever opened it has ended", refusal.NotHolder, func(s *stage) func() error {
		builder := s.working("builder")
		return func() error {
			opener := builder.starts("opener")
			opener.does("lend heir")
			heir := s.await("heir")
			require.Contains(s.t, heir.does("borrowed GET /v1/agents/self"), `"id":"builder#1"`, "it speaks for who opened it")
			opener.ends()
			require.Contains(s.t, heir.does("borrowed GET /v1/agents/self"), `"agent":null`)
			return heir.tries("borrowed DELETE /v1/reservations/r1")
		}
	}),
	onStage("A02h", "an agent has ended, and a stranger under its uid lets go of what it kept", refusal.NotHolder, func(s *stage) func() error {
		builder := s.working("builder")
		builder.ends()
		s.alone()
		return func() error {
			x := s.actor("x")
			require.Equal(s.t, "-", x.does("self"))
			return x.tries("release r1")
		}
	}),

	takesTheName("A15a", "an agent's orphan in a session of its own, which has the daemon's uid and so is an operator", func(s *stage) *actor {
		return s.working("builder").starts("orphan", "setsid", "orphan")
	}),
	takesTheName("A15b", "a stranger under the daemon's uid", func(s *stage) *actor {
		s.working("builder")
		return s.actor("x")
	}),
	takesTheName("A15c", "another agent under the daemon's uid", func(s *stage) *actor {
		s.working("builder")
		x := s.actor("x")
		x.does("register other %d", x.pid)
		return x
	}),
	takesTheName("A15d", "a stranger under the daemon's uid, of a token's name under which something is kept", func(s *stage) *actor {
		boxed := s.actor("builder")
		require.Equal(s.t, "builder#1", boxed.does("token builder"))
		require.Equal(s.t, "r1", boxed.does("reserve %s src/**", s.repo))
		return s.actor("x")
	}),
	onStage("A15e", "a stranger under the daemon's uid takes the name of a process that holds nothing", refusal.NotHolder, func(s *stage) func() error {
		s.working("builder").does("release r1")
		x := s.actor("x")
		return func() error { return x.tries("unregister builder") }
	}),
	onStage("A15f", "another user takes the name of a token that holds nothing", refusal.NotHolder, func(s *stage) func() error {
		s.needsRoot("to be another user")
		s.actor("builder").does("token builder")
		x := s.actor("x", "stranger")
		return func() error { return x.tries("unregister builder") }
	}),
}

// takesTheName is a row in which somebody gives up the name of an agent that
// holds something, which would be free then.
func takesTheName(id, who string, scene func(s *stage) *actor) attack {
	return onStage(id, who+", gives up its name", refusal.NotHolder, func(s *stage) func() error {
		x := scene(s)
		return func() error {
			require.NotEqual(s.t, "builder#1", x.does("self"))
			return x.tries("unregister builder")
		}
	})
}
