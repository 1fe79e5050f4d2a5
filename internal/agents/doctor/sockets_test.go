package doctor

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/agents/hook"
	"gated/internal/base/refusal"
)

func (p *patient) installSetup(program string, s hook.Setup) {
	p.t.Helper()
	_, err := hook.InstallGit(p.t.Context(), p.dir, hook.GitOptions{Program: program, OnFailure: s.OnFailure, Deadline: s.Deadline, Socket: s.Socket, Env: p.environment()})
	require.NoError(p.t, err)
}

func TestEachHookIsTriedAtItsOwnSocket(t *testing.T) {
	p := newPatient(t)
	away := errors.New("nobody answers here")
	p.statusErr = away
	own := &gate{file: p.file, agents: map[string]bool{}}
	p.others = map[string]*gate{"/own": own, "/gone": {file: p.file, agents: map[string]bool{}, statusErr: away}}
	program := p.program(judge + "exit 1\n")
	p.installSetup(program, hook.Setup{OnFailure: hook.Block, Deadline: 2 * time.Second, Socket: "/own"})
	r := p.examine()
	require.True(t, r.Sound, "%+v", r.Findings)
	require.Equal(t, Note, r.of(whatDaemon).State, "who asks there is another matter")
	require.Contains(t, r.of(whatDaemon).Hint, "GATED_SOCKET=/own")
	require.Equal(t, wordsBlocks+"; on-failure: block, deadline: 2s, socket: /own", r.of("git pre-push").Detail)
	require.Equal(t, &Setup{OnFailure: hook.Block, Deadline: 2000, Socket: "/own"}, r.of("git pre-push").Setup)
	require.Len(t, own.reserved, 1)
	require.Empty(t, own.agents)
	require.Empty(t, p.reserved)

	// An agent's hook asks where the environment says, which is nowhere.
	p.settings(p.asks(program))
	r = p.examine()
	require.False(t, r.Sound)
	require.Equal(t, Bad, r.of(whatDaemon).State)
	require.Equal(t, OK, r.of("git pre-commit").State, "the rest goes on")
	require.Contains(t, r.of(" Write").Detail, "does NOT block: no daemon answers")
	require.Contains(t, r.of(" Write").Detail, "on-failure: warn, deadline: 500ms, socket: as its environment says")

	// What was installed decides what becomes of changes that nobody can check.
	p.settings(`{}`)
	for on, want := range map[hook.OnFailure]string{hook.Warn: "every change goes on unchecked", hook.Block: "every change is refused"} {
		p.installSetup(program, hook.Setup{OnFailure: on, Socket: "/gone"})
		r = p.examine()
		require.False(t, r.Sound)
		require.Contains(t, r.of("git pre-commit").Detail, "no daemon answers at /gone, where it asks (nobody answers here)")
		require.Contains(t, r.of("git pre-commit").Detail, want)
	}
	p.Socket = "/gone"
	require.Equal(t, Bad, p.examine().of(whatDaemon).State, "which was asked for")
}

func TestACallerThatCannotAskIsSaidAndTheRestGoesOn(t *testing.T) {
	p := newPatient(t)
	p.Caller = func(context.Context) (api.Caller, error) {
		return api.Caller{}, refusal.New(refusal.NotAllowed, "t may be read by others")
	}
	p.installGit(p.program(judge + "exit 1\n"))
	r := p.examine()
	require.False(t, r.Sound)
	require.Contains(t, r.of(whatCaller).Detail, "t may be read by others")
	require.Equal(t, OK, r.of("git pre-commit").State)

	connect := p.Connect
	p.Connect = func(string, string) (Gate, error) { return nil, refusal.New(refusal.Malformed, "GATED_UID is x") }
	require.Contains(t, p.examine().of("git pre-commit").Detail, "GATED_UID is x")
	n := 0
	p.Connect = func(socket, token string) (Gate, error) {
		if n++; n > 3 { // how it is, its back ends, one git hook
			return nil, refusal.New(refusal.Malformed, "GATED_UID is y")
		}
		return connect(socket, token)
	}
	require.Contains(t, p.examine().of(whatTrial).Detail, "GATED_UID is y")
}

func TestWhatKilledDoctorsLeftIsTakenAway(t *testing.T) {
	p := newPatient(t)
	p.installGit(p.program(judge + "exit 1\n"))
	old := time.Now().Add(-probeTTL - time.Second)
	mine := api.Agent{Name: "doctor-0123456789ab", UID: 7, RegisteredAt: old}
	kept := []api.Agent{
		{Name: "doctor-0123456789ac", UID: 8, RegisteredAt: old},
		{Name: "doctor-0123456789ad", UID: 7, RegisteredAt: old, PID: 12},
		{Name: "doctor-0123456789ae", UID: 7, RegisteredAt: time.Now()}, // one that is at work
		{Name: "doctor-who", UID: 7, RegisteredAt: old},
		{Name: "my-doctor-0123456789ab", UID: 7, RegisteredAt: old},
	}
	p.left = append([]api.Agent{mine}, kept...)
	r := p.examine()
	require.True(t, r.Sound)
	require.Equal(t, "1 names of doctors that were killed were removed", r.of(whatLeft).Detail)
	require.Equal(t, kept, p.left)
	require.Equal(t, Finding{}, p.examine().of(whatLeft))

	// Who may not is told who may; an agent does not even ask.
	p.left, p.as = []api.Agent{mine}, &api.Agent{Name: "builder"}
	r = p.examine()
	require.True(t, r.Sound, "%+v", r.Findings)
	require.Equal(t, Note, r.of(whatLeft).State)
	require.Contains(t, r.of(whatLeft).Detail, "doctor-0123456789ab")
	p.as, p.unregister = nil, refusal.New(refusal.NotHolder, "no")
	require.Contains(t, p.examine().of(whatLeft).Detail, "not_holder: no")
	require.Len(t, p.left, 1)
}
