package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/proc"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/base/store/storetest"
	"gated/internal/test/must"
)

// tell is a Config.Ended that returns when the test has taken what it is told,
// or is over.
func tell(t *testing.T, ended chan Registration) func(Registration) {
	return func(e Registration) {
		select {
		case ended <- e:
		case <-t.Context().Done():
		}
	}
}

// TestAnEnd: who ended has no name at once, and nobody else has it before the
// end was dealt with.
func TestAnEnd(t *testing.T) {
	ended := make(chan Registration)
	s, r := newStage(t), newRegistry(t, tell(t, ended))
	for i := range 3 {
		name := fmt.Sprint("agent", i)
		a := s.start(name)
		require.NoError(t, a.register(r, name, a.pid))
		require.True(t, r.Alive(name))
		child := a.start("child" + name)
		child.is(r, name)
		require.NoError(t, unix.Kill(a.pid, unix.SIGKILL))
		require.NoError(t, a.peer.handle.Wait(t.Context()))
		a.is(r, "", "before anybody was told")
		child.is(r, "", "who was known by it")
		require.False(t, r.Alive(name))
		b := s.start("next" + name)
		require.ErrorIs(t, b.register(r, name, b.pid), refusal.Conflict)
		require.Equal(t, name, (<-ended).Name)
		freed(t, r, name)
		require.NoError(t, b.register(r, name, b.pid))
		b.is(r, name)
		must.Get(r.Unregister(t.Context(), name, fmt.Sprintf("%s#%d", name, len(name)), false, dropped))(t)
	}
}

// BenchmarkAnEndIsSeen is how long after a process was killed its end is told.
func BenchmarkAnEndIsSeen(b *testing.B) {
	ended := make(chan struct{}, 1)
	s, r := newStage(b), newRegistry(b, func(Registration) { ended <- struct{}{} })
	for i := range b.N {
		b.StopTimer()
		name := fmt.Sprint("agent", i)
		a := s.start(name)
		require.NoError(b, a.register(r, name, a.pid))
		b.StartTimer()
		require.NoError(b, unix.Kill(a.pid, unix.SIGKILL))
		<-ended
	}
}

// TestAPidThatIsGivenAgain: the end of who had it before is none of the next one.
func TestAPidThatIsGivenAgain(t *testing.T) {
	table, ended := newFakeTable(), make(chan Registration)
	r, err := New(Config{Now: func() time.Time { return newYear }, Table: table, Boot: "boot", Ended: tell(t, ended)})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	first := table.fork(table.init, 5)
	must.Get(r.Register(t.Context(), first.peer(), Wish{Name: "first", PID: 5, Reaper: 1}, granted))(t)
	table.exit(first)
	table.tick += 16
	second := table.fork(table.init, 5)
	name, ok := r.Who(second.peer(), 0)
	require.False(t, ok, name)
	must.Get(r.Register(t.Context(), second.peer(), Wish{Name: "second", PID: 5, Reaper: 1}, granted))(t)
	require.Equal(t, "first", (<-ended).Name)
	freed(t, r, "first")
	name, ok = r.Who(second.peer(), 0)
	require.True(t, ok)
	require.Equal(t, "second#6", name.Who())
	table.exit(second)
	require.Equal(t, "second", (<-ended).Name)
}

// TestAPidThatIsGivenAgainWithinOneTick: a pid goes to a stranger while the
// registry looks, and the stranger has the same start tick. Pid and start alone
// cannot tell the two apart, so the registry walks again with the handle open.
func TestAPidThatIsGivenAgainWithinOneTick(t *testing.T) {
	looks := 0
	for at := 0; at == 0 || at <= looks; at++ { // at 0 nothing happens, and the looks are counted
		table := newFakeTable()
		r := must.Get(New(Config{Now: func() time.Time { return newYear }, Table: table, Boot: "boot"}))(t)
		t.Cleanup(r.Close)
		agent := table.fork(table.init, 4)
		caller := table.fork(agent, 5)
		n := 0
		table.look = func() {
			if n++; n == at {
				table.exit(agent)
				require.Equal(t, agent.Start, table.fork(table.init, 4).Start)
			}
		}
		_, err := r.Register(t.Context(), caller.peer(), Wish{Name: "agent", PID: 4, Reaper: 1}, granted)
		table.look = func() {}
		if at == 0 {
			require.NoError(t, err)
			looks = n
			continue
		}
		require.ErrorIs(t, err, refusal.NotAllowed, "replaced before look %d of %d", at, looks)
		require.Empty(t, r.All())
	}
	require.Greater(t, looks, 4)
}

// TestAPidOfAnEndedAgentWithinOneTick: the registration of an ended process is
// not granted again to the process that has its pid and its start tick now.
func TestAPidOfAnEndedAgentWithinOneTick(t *testing.T) {
	table, ended := newFakeTable(), make(chan Registration)
	r, err := New(Config{Now: func() time.Time { return newYear }, Table: table, Boot: "boot", Ended: tell(t, ended)})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	first := table.fork(table.init, 5)
	must.Get(r.Register(t.Context(), first.peer(), Wish{Name: "first", PID: 5, Reaper: 1}, granted))(t)
	table.exit(first)
	second := table.fork(table.init, 5)
	require.Equal(t, first.Start, second.Start)
	_, err = r.Register(t.Context(), second.peer(), Wish{Name: "first", PID: 5, Reaper: 1}, granted)
	require.ErrorIs(t, err, refusal.Conflict, "the name is being freed")
	must.Get(r.Register(t.Context(), second.peer(), Wish{Name: "second", PID: 5, Reaper: 1}, granted))(t)
	require.Equal(t, "first", (<-ended).Name)
}

// freed waits until a name may be taken again.
func freed(t *testing.T, r *Registry, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return r.byName[name] == nil
	}, time.Minute, time.Millisecond)
}

func TestRestore(t *testing.T) {
	s, before := newStage(t), newRegistry(t, nil)
	lives, ends := s.start("lives"), s.start("ends")
	require.NoError(t, lives.register(before, "lives", lives.pid))
	require.NoError(t, ends.register(before, "ends", ends.pid))
	_, token := must.Two(before.RegisterToken(t.Context(), lives.peer, "token", granted))(t)
	list := before.All()
	require.Len(t, list, 3)
	for i, change := range []func(*proc.ID){
		func(id *proc.ID) { id.Start-- },
		func(id *proc.ID) { id.Boot = "another boot" },
		func(id *proc.ID) { id.PID = 1<<22 + 1 },
	} {
		other := before.byName["lives"].Registration
		other.Name = fmt.Sprint("other", i)
		change(&other.Process)
		list = append(list, other)
	}
	before.Close()
	lives.is(before, "", "it is closed")
	ends.end()

	told := make(chan Registration, 1)
	r := newRegistry(t, func(e Registration) { told <- e })
	alive, ended := must.Two(r.Restore(list))(t)
	require.Equal(t, []string{"lives", "token"}, names(alive))
	require.Equal(t, []string{"ends", "other0", "other1", "other2"}, names(ended))
	lives.is(r, "lives")
	name, ok := r.WhoByToken(lives.peer, token)
	require.True(t, ok)
	require.Equal(t, "token#5", name.Who())
	lives.end()
	require.Equal(t, "lives", (<-told).Name)
}

func names(list []Registration) []string {
	var all []string
	for _, r := range list {
		all = append(all, r.Name)
	}
	return all
}

func TestCommitDecides(t *testing.T) {
	table := newFakeTable()
	r := must.Get(New(Config{Now: func() time.Time { return newYear }, Table: table, Boot: "boot"}))(t)
	defer r.Close()
	p := table.fork(table.init, 5)
	no := errors.New("no")
	wish := Wish{Name: "a", PID: 5, Reaper: 1}
	must.Fail(r.Register(t.Context(), p.peer(), wish, func(_ context.Context, reg Registration) (int64, error) {
		require.Equal(t, Registration{Name: "a", UID: 1000, At: newYear,
			Process: proc.ID{PID: 5, Start: p.Start, Boot: "boot"}}, reg)
		name, ok := r.Who(p.peer(), 0)
		require.False(t, ok, name)
		require.Empty(t, r.All())
		must.Fail(r.Register(t.Context(), p.peer(), wish, granted))(t, refusal.Conflict, "it is being registered")
		return 0, no
	}))(t, no)
	name, ok := r.Who(p.peer(), 0)
	require.False(t, ok, name)
	must.Get(r.Register(t.Context(), p.peer(), wish, granted))(t)

	must.Fail(r.Unregister(t.Context(), "a", "b#1", false, dropped))(t, refusal.NotHolder)
	_, err := r.Unregister(t.Context(), "a", "a#1", false, func(context.Context, Registration) error { return no })
	require.ErrorIs(t, err, no)
	require.True(t, r.Alive("a"))
	_, err = r.Unregister(t.Context(), "a", "a#2", false, dropped)
	require.ErrorIs(t, err, refusal.UnknownTarget, "another registration of the name")
	must.Fail(r.Unregister(t.Context(), "a", "", false, dropped))(t, refusal.NotHolder)
	_, err = r.Unregister(t.Context(), "a", "", true, dropped)
	require.ErrorIs(t, err, refusal.NotHolder, "a process's name is not an operator's to take")
	require.True(t, r.Alive("a"))
	must.Get(r.Unregister(t.Context(), "a", "a#1", false, dropped))(t)
	must.Fail(r.Unregister(t.Context(), "a", "a#1", false, dropped))(t, refusal.UnknownTarget)
	must.Fail(r.Unregister(t.Context(), "a", "", true, dropped))(t, refusal.UnknownTarget)
	require.False(t, r.Alive("a"))
}

// TestUnregisterOfAToken: an operator may, where nothing that is written down is
// against it.
func TestUnregisterOfAToken(t *testing.T) {
	r := newRegistry(t, nil)
	_, _, err := r.RegisterToken(t.Context(), &Peer{UID: 7}, "a", granted)
	require.NoError(t, err)
	must.Fail(r.Unregister(t.Context(), "a", "b#2", false, dropped))(t, refusal.NotHolder)
	must.Fail(r.Unregister(t.Context(), "a", "", false, dropped))(t, refusal.NotHolder)
	held := func(context.Context, Registration) error { return refusal.New(refusal.NotHolder, "it holds r1") }
	require.ErrorContains(t, must.Err(r.Unregister(t.Context(), "a", "", true, held))(t), "r1")
	require.True(t, r.Alive("a"))
	must.Get(r.Unregister(t.Context(), "a", "", true, dropped))(t)
	require.Empty(t, r.All())
}

func TestTerminals(t *testing.T) {
	for _, c := range []struct {
		above, caller int
		ok            bool
	}{{1, 1, true}, {0, 1, true}, {1, 0, true}, {1, 2, false}} {
		table := newFakeTable()
		r := must.Get(New(Config{Now: func() time.Time { return newYear }, Table: table, Boot: "boot"}))(t)
		above := table.fork(table.init, 5)
		pane := table.fork(above, 6)
		above.Terminal, pane.Terminal, pane.Session = c.above, c.caller, 6
		_, err := r.Register(t.Context(), pane.peer(), Wish{Name: "a", PID: 5, Reaper: 1}, granted)
		require.Equal(t, c.ok, err == nil, "%+v: %v", c, err)
		r.Close()
	}
}

// TestBlind: a /proc of elsewhere would answer for other processes.
func TestBlind(t *testing.T) {
	table := newFakeTable()
	table.byPID[os.Getpid()].Foreign = true
	r := must.Get(New(Config{Now: func() time.Time { return newYear }, Table: table, Boot: "boot"}))(t)
	defer r.Close()
	require.Contains(t, r.Blind(), "another PID namespace")
	p := table.fork(table.init, 5)
	must.Fail(r.Register(t.Context(), p.peer(), Wish{Name: "a", PID: 5, Reaper: 1}, granted))(t, refusal.Unavailable)
	_, token := must.Two(r.RegisterToken(t.Context(), &Peer{UID: 7}, "a", granted))(t)
	name, ok := r.WhoByToken(&Peer{UID: 7}, token)
	require.True(t, ok)
	require.Equal(t, "a#1", name.Who())
	name, ok = r.Who(&Peer{UID: 7}, 0)
	require.False(t, ok, name)
}

func TestLimits(t *testing.T) {
	r := newRegistry(t, nil)
	add := func(uid, i int) error {
		_, _, err := r.RegisterToken(t.Context(), &Peer{UID: uint32(uid)}, fmt.Sprintf("a%d.%d", uid, i), granted)
		return err
	}
	for i := range MaxAgents {
		require.NoError(t, add(i/MaxTokensOfUID, i))
	}
	require.ErrorIs(t, add(MaxAgents, 1), refusal.OverLimit)
	must.Get(r.Unregister(t.Context(), "a0.0", "", true, dropped))(t)
	require.NoError(t, add(MaxAgents, 1))
}

// TestTokensLeaveRoomForProcesses: nobody sees a token's end, so those that are
// forgotten must not keep a uid's processes from having names.
func TestTokensLeaveRoomForProcesses(t *testing.T) {
	table := newFakeTable()
	r := must.Get(New(Config{Now: func() time.Time { return newYear }, Table: table}))(t)
	defer r.Close()
	token := func(uid uint32, i int) error {
		_, _, err := r.RegisterToken(t.Context(), &Peer{UID: uid}, fmt.Sprintf("t%d.%d", uid, i), granted)
		return err
	}
	process := func(i int) error {
		p := table.fork(table.init, 100_000+i)
		p.UID = 7
		_, err := r.Register(t.Context(), p.peer(), Wish{Name: fmt.Sprintf("p%d", i), PID: p.PID, Reaper: 1}, granted)
		return err
	}
	for i := range MaxTokensOfUID {
		require.NoError(t, token(7, i))
	}
	err := token(7, MaxTokensOfUID)
	require.ErrorIs(t, err, refusal.OverLimit)
	require.ErrorContains(t, err, "tokens")
	require.NoError(t, token(8, 0))
	for i := range MaxAgentsOfUID - MaxTokensOfUID {
		require.NoError(t, process(i))
	}
	require.ErrorIs(t, process(MaxAgentsOfUID), refusal.OverLimit)
	must.Get(r.Unregister(t.Context(), "t7.0", "", true, dropped))(t)
	require.NoError(t, token(7, MaxTokensOfUID))
	require.ErrorIs(t, token(7, 0), refusal.OverLimit)
}

func TestRows(t *testing.T) {
	s := storetest.Open(t, filepath.Join(t.TempDir(), "agents.db"),
		store.Options{Migrations: []store.Migration{{Version: 1, Name: "agents", SQL: Schema + SchemaMembers}}}, nil)
	a := Registration{Name: "a", UID: 1<<32 - 2, Process: proc.ID{PID: 7, Start: 1 << 60, Boot: "b"}, At: newYear}
	b := Registration{Name: "b", UID: 1, Token: hashOf("t"), At: newYear}
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
		for want, r := range []*Registration{&b, &a} {
			r.ID = must.Get(Add(tx, *r))(t)
			require.EqualValues(t, want+1, r.ID)
		}
		all, err := All(tx)
		require.NoError(t, err)
		require.Equal(t, []Registration{a, b}, all)
		for _, twice := range []Registration{a, b, {Name: "c", Process: a.Process}, {Name: "c", Token: b.Token},
			{Name: "c"}, {Name: "c", Process: proc.ID{PID: 8}, Token: "x"}} {
			must.Fail(Add(tx, twice))(t, refusal.Conflict, "%+v", twice)
		}
		stands(t, tx, "a", a.ID, true)
		stands(t, tx, "b", a.ID, false)
		for _, want := range []bool{true, false} {
			gone := must.Get(Remove(tx, a))(t)
			require.Equal(t, want, gone)
		}
		stands(t, tx, "a", a.ID, false)
		gone := must.Get(Remove(tx, b))(t)
		require.True(t, gone)
		old := a
		a.ID = must.Get(Add(tx, a))(t)
		require.EqualValues(t, 3, a.ID, "a number is given once, also after the last one is gone")
		gone = must.Get(Remove(tx, old))(t)
		require.False(t, gone, "another one of the same name")
		stands(t, tx, "a", old.ID, false)
		stands(t, tx, "a", a.ID, true)
		all = must.Get(All(tx))(t)
		require.Equal(t, []Registration{a}, all)
		require.Equal(t, 1, must.Get(Clear(tx))(t))
		a.ID, err = Add(tx, a)
		require.EqualValues(t, 4, a.ID)
		return err
	}))
}

func stands(t *testing.T, tx *store.Tx, name string, id int64, want bool) {
	t.Helper()
	require.Equal(t, want, must.Get(Registered(tx, name, id))(t))
}
