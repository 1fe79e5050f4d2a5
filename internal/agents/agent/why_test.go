package agent

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/test/must"
)

// why requires that a has no name, and that it is said why.
func (a *actor) why(r *Registry, want string) {
	a.t.Helper()
	a.is(r, "")
	require.Contains(a.t, r.WhyNot(a.peer), want)
}

func TestWhyNot(t *testing.T) {
	s, r := newStage(t), newRegistry(t, nil)
	builder, sibling := s.start("builder"), s.start("sibling")
	sibling.why(r, "neither process")
	require.NoError(t, builder.register(r, "builder", builder.pid))
	require.Empty(t, r.WhyNot(builder.peer))
	require.Empty(t, r.WhyNot(builder.start("child").peer))
	sibling.why(r, "neither process")
	sibling.why(r, "is registered") // as it is kept for the connection
	if s.reaper == 1 {
		builder.start("orphan", "orphan").why(r, "it is an orphan")
	}
	if os.Geteuid() == 0 {
		builder.start("other-uid", "nobody").why(r, "other uids than 65534")
		builder.start("namespace", "pidns").why(r, "another PID namespace")
	}
	require.Equal(t, "ok", builder.say("subreaper"))
	builder.start("leader", "setsid").start("taken-in", "orphan").why(r, "did not start it")

	left := builder.start("left")
	require.NoError(t, unix.Kill(left.pid, unix.SIGKILL))
	require.NoError(t, left.peer.handle.Wait(t.Context()))
	left.why(r, "has ended")
	require.Contains(t, r.WhyNot(&Peer{UID: 7}), "cannot be seen")

	table := newFakeTable()
	table.byPID[os.Getpid()].Foreign = true
	blind := must.Get(New(Config{Now: func() time.Time { return newYear }, Table: table, Boot: "boot"}))(t)
	defer blind.Close()
	require.Contains(t, blind.WhyNot(builder.peer), "another PID namespace; a token would do")
}
