package doctor

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/agents/hook"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
	"gated/internal/test/snapshot"
)

// gate is a daemon that keeps one reservation, in a file that the hooks of a
// test can read.
type gate struct {
	file                   string
	agents                 map[string]bool
	statusErr, reserveErr  error
	releaseErr, unregister error
	left                   []api.Agent // that are registered beside
	as                     *api.Agent  // what the caller is
	reserved               []api.Reserve
	has                    []api.Backend
	hasErr                 error
	hub                    *api.Hub
	steering               api.Steering
	steeringErr            error
}

func (g *gate) Status(context.Context) (api.Status, error) {
	return api.Status{Isolation: "uid", Hub: g.hub}, g.statusErr
}

func (g *gate) Backends(context.Context) ([]api.Backend, error) { return g.has, g.hasErr }

func (g *gate) Self(context.Context) (api.Caller, error) {
	return api.Caller{UID: 7, Agent: g.as, Why: "nobody registered it"}, nil
}

func (g *gate) Where() string { return "unix:/s" }

func (g *gate) Agents(context.Context) ([]api.Agent, error) { return g.left, nil }

func (g *gate) RegisterAgent(_ context.Context, in api.RegisterAgent) (api.RegisteredAgent, error) {
	if !in.Token {
		return api.RegisteredAgent{}, errors.New("the doctor has no process to register")
	}
	g.agents[in.Name] = true
	return api.RegisteredAgent{Agent: api.Agent{Name: in.Name}, Token: "secret"}, nil
}

func (g *gate) Reserve(_ context.Context, in api.Reserve) (api.Reservation, error) {
	if g.reserveErr != nil {
		return api.Reservation{}, g.reserveErr
	}
	g.reserved = append(g.reserved, in)
	return api.Reservation{ID: "r1"}, os.WriteFile(g.file, []byte(in.Patterns[0]), 0o600)
}

func (g *gate) Release(ctx context.Context, id string) (api.Reservation, error) {
	if id != "r1" || ctx.Err() != nil {
		return api.Reservation{}, errors.New("too late")
	}
	return api.Reservation{}, errors.Join(g.releaseErr, os.Remove(g.file))
}

func (g *gate) Unregister(ctx context.Context, name string) (api.Agent, error) {
	if ctx.Err() != nil {
		return api.Agent{}, ctx.Err()
	}
	for i, a := range g.left {
		if a.Name == name && g.unregister == nil {
			g.left = slices.Delete(slices.Clone(g.left), i, i+1)
			return a, nil
		}
	}
	delete(g.agents, name)
	return api.Agent{}, g.unregister
}

func (g *gate) Steering(context.Context) (api.Steering, error) { return g.steering, g.steeringErr }

func (g *gate) Close() {}

// patient is a directory with a repository, and a doctor for it.
type patient struct {
	t   *testing.T
	dir string
	env []string
	*gate
	others map[string]*gate // at sockets that are not the environment's
	Doctor
}

func newPatient(t *testing.T) *patient {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	place := must.Get(checkout.At(t.TempDir()))(t)
	p := &patient{t: t, dir: place.Path, gate: &gate{file: filepath.Join(t.TempDir(), "held"), agents: map[string]bool{}}}
	p.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "HELD=" + p.file,
		"GATED_AGENT_TOKEN_FILE=/token", "GEMINI_CLI_TRUST_WORKSPACE=true", "GIT_INDEX_FILE=/nowhere/index", "GIT_DIR=/nowhere",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com"}
	p.Doctor = Doctor{Place: place, Connect: func(socket, token string) (Gate, error) {
		require.Contains(t, []string{"", "secret"}, token)
		if other := p.others[socket]; other != nil {
			return other, nil
		}
		return p.gate, nil
	}, Caller: p.gate.Self, Settings: []hook.Settings{{Path: filepath.Join(p.dir, "settings.json")}},
		Home: func(socket string) hook.Home { return hook.HomeOf(func(string) string { return "" }, socket) },
		Env:  p.env, Now: time.Now, Deadline: time.Minute}
	p.git("init", "-q", "-b", "main")
	return p
}

func (p *patient) git(args ...string) string {
	p.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = p.dir, append(p.environment(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	require.NoError(p.t, err, string(out))
	return strings.TrimSpace(string(out))
}

// program makes a program in gated's place: text is sh, for which $held is the
// name that is held.
func (p *patient) program(text string) string {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), "gated")
	require.NoError(p.t, os.WriteFile(path, []byte("#!/bin/sh\nheld=$(cat \"$HELD\")\n"+text), 0o755))
	p.Program = path
	return path
}

// judge is what a hook does that works: git's ask the index or the pushed commit
// for the name, an agent's its standard input.
const judge = `[ -z "$GATED_AGENT_TOKEN_FILE" ] || exit 0
case $GIT_DIR in /nowhere*) exit 0 ;; esac

case $2 in
pre-commit) git diff-index --cached --name-only $(git rev-parse -q --verify HEAD || git hash-object -t tree --stdin </dev/null) ;;
pre-push) while read -r ref id more; do git ls-tree -r --name-only "$id"; done ;;
pre-tool-use) sed 's/",/\n/g' | sed -n 's/.*_path":".*\///p' ;;
esac | grep -qxF "$held" || exit 0
`

func (p *patient) installGit(program string) {
	p.t.Helper()
	_, err := hook.InstallGit(p.t.Context(), p.dir, hook.GitOptions{Program: program, OnFailure: hook.Warn, Env: p.environment()})
	require.NoError(p.t, err)
}

func (p *patient) settings(text string) {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(p.Settings[0].Path, []byte(text), 0o600))
}

// asks is settings that ask a program about every tool.
func (p *patient) asks(program string) string {
	return `{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"` + program + ` hook pre-tool-use --on-failure warn"}]}]}}`
}

func (p *patient) examine() Report {
	p.t.Helper()
	r := p.Run(p.t.Context())
	require.Empty(p.t, p.agents, "the doctor's agent is gone")
	require.NotEmpty(p.t, r.Blind)
	return r
}

func (r Report) of(what string) Finding {
	for _, f := range r.Findings {
		if strings.HasSuffix(f.What, what) {
			return f
		}
	}
	return Finding{}
}

func TestHooksThatBlock(t *testing.T) {
	for _, commits := range []bool{false, true} {
		p := newPatient(t)
		if commits {
			require.NoError(t, os.WriteFile(filepath.Join(p.dir, "a"), nil, 0o600))
			p.git("add", "a")
			p.git("commit", "-qm", "base")
		}
		program := p.program(judge + `[ $2 = pre-tool-use ] || exit 1
echo '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny"}}'`)
		p.installGit(program)
		p.settings(p.asks(program))
		before := p.snapshot()
		r := p.examine()
		require.True(t, r.Sound, "%+v", r.Findings)
		for _, what := range []string{"git pre-commit", "git pre-push", " Edit", " Write", " MultiEdit", " NotebookEdit"} {
			require.Equal(t, OK, r.of(what).State, what)
		}
		require.Equal(t, before, p.snapshot(), "the doctor changes neither the work tree nor the repository")
		require.NoFileExists(t, p.file, "the probe was released")
		require.Len(t, p.reserved, 1)
		require.Equal(t, p.Place, p.reserved[0].Scope)
		require.Equal(t, int64(300), p.reserved[0].TTLSeconds)
		require.NoFileExists(t, filepath.Join(p.dir, p.reserved[0].Patterns[0]))
		require.Nil(t, r.Caller.Agent)
	}
}

// snapshot is everything below the directory.
func (p *patient) snapshot() string { return snapshot.Of(p.t, p.dir) }

func TestHooksThatDoNot(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"let everything pass":                        {"exit 0", wordsDoesNot},
		"refuse everything":                          {"exit 1", wordsBlocksAll},
		"let pass who has a token":                   {`[ -n "$GATED_AGENT_TOKEN_FILE" ] && exit 0; ` + judge + "exit 1", ""},
		"only warn":                                  {judge + "echo careful >&2; exit 0", wordsDoesNot},
		"refuse with another exit code, as git does": {judge + "exit 3", ""},
	} {
		p := newPatient(t)
		p.installGit(p.program(c.text + "\n"))
		r := p.examine()
		for _, what := range []string{"git pre-commit", "git pre-push"} {
			f := r.of(what)
			if c.want == "" {
				require.Equal(t, OK, f.State, name)
				continue
			}
			require.Equal(t, Bad, f.State, name)
			require.Contains(t, f.Detail, c.want, name)
		}
		require.Equal(t, c.want == "", r.Sound, name)
	}
}

// Another tool moves git's hooks after gated's were installed: they block nothing from then on, and the doctor says so. A
// line in husky's own file counts, because husky's hook runs that file.
func TestHooksThatGitRunsNoLonger(t *testing.T) {
	p := newPatient(t)
	p.installGit(p.program(judge + "exit 1"))
	require.Equal(t, OK, p.Run(t.Context()).of("git pre-commit").State)
	husky := filepath.Join(p.dir, ".husky", "_")
	require.NoError(t, os.MkdirAll(husky, 0o700))
	p.git("config", "core.hooksPath", ".husky/_")
	both := []string{"pre-commit", "pre-push"}
	for _, name := range both { // a dispatcher runs what is in the repository's own directory, too
		path := filepath.Join(husky, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\nexec \"$(git rev-parse --git-common-dir)/hooks/$(basename \"$0\")\" \"$@\"\n"), 0o700))
		require.Equal(t, Note, p.Run(t.Context()).of("git "+name).State, name)
		require.NoError(t, os.Remove(path))
	}
	for _, there := range []bool{false, true} {
		for _, name := range both {
			if there { // husky makes all of them
				require.NoError(t, os.WriteFile(filepath.Join(husky, name), []byte("#!/bin/sh\n. \"$(dirname \"$0\")/h\"\n"), 0o700))
			}
			f := p.Run(t.Context()).of("git " + name)
			require.Equal(t, Bad, f.State, name)
			require.Contains(t, f.Detail, filepath.Join(p.dir, ".git", "hooks", name), name)
			require.Contains(t, f.Detail, husky, name)
			require.Contains(t, f.Hint, "gated hook "+name, name)
		}
	}
	for _, name := range both {
		require.NoError(t, os.WriteFile(filepath.Join(p.dir, ".husky", name), []byte("gated hook "+name+" \"$@\"\n"), 0o700))
		f := p.Run(t.Context()).of("git " + name)
		require.Equal(t, Note, f.State, "%s: %s", name, f.Detail)
		require.Contains(t, f.Detail, "seems to run gated hook "+name)
	}
}

// TestAHookThatDoesNotEnd is ended with everything that it started.
func TestAHookThatDoesNotEnd(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := start(ctx, exec.CommandContext(ctx, "sh", "-c", "exec 3>"+pipe+"; echo started >&3; sleep 1000 & wait"))
		ended <- err
	}()
	f := must.Get(os.Open(pipe))(t)
	defer f.Close()
	must.Get(f.Read(make([]byte, 1)))(t)
	cancel()
	require.Error(t, <-ended)
	_, err := io.ReadAll(f) // its end is the end of the last process that has it
	require.NoError(t, err)

	r := &Report{}
	slow := trial{what: "slow", limit: time.Nanosecond, run: func(ctx context.Context, _ string) (verdict, error) {
		<-ctx.Done()
		return verdict{denied: true}, nil
	}}
	slow.judge(t.Context(), r, "held", "free")
	require.Equal(t, Bad, r.of("slow").State)
	require.Contains(t, r.of("slow").Detail, "did not end within")
}

func TestAnInterruptedTrialLeavesNothing(t *testing.T) {
	p := newPatient(t)
	ctx, cancel := context.WithCancel(t.Context())
	p.installGit(p.program("exit 1\n"))
	reserve := p.gate
	p.Connect = func(string, string) (Gate, error) { return interrupting{reserve, cancel}, nil }
	r := p.Run(ctx)
	require.False(t, r.Sound)
	require.Empty(t, p.agents)
	require.NoFileExists(t, p.file)
	require.Equal(t, Finding{}, r.of(whatCleanup))
}

// interrupting is a daemon during whose answer the doctor is interrupted.
type interrupting struct {
	*gate
	cancel func()
}

func (i interrupting) Reserve(ctx context.Context, in api.Reserve) (api.Reservation, error) {
	defer i.cancel()
	return i.gate.Reserve(ctx, in)
}

func TestWhatCannotBeTried(t *testing.T) {
	p := newPatient(t)
	p.installGit(p.program("exit 1\n"))
	p.statusErr = errors.New("nobody answers")
	r := p.examine()
	require.False(t, r.Sound)
	require.Equal(t, Bad, r.of(whatDaemon).State)
	require.Contains(t, r.of("git pre-commit").Detail, "no daemon answers at the socket that its environment names")
	require.Nil(t, r.Caller)

	p.statusErr, p.reserveErr = nil, refusal.New(refusal.Conflict, "others have it")
	r = p.examine()
	require.False(t, r.Sound)
	require.Contains(t, r.of(whatTrial).Detail, "every path here is reserved")

	p.reserveErr = refusal.New(refusal.OverLimit, "too many")
	require.Contains(t, p.examine().of(whatTrial).Detail, "over_limit")

	p.reserveErr, p.unregister = nil, errors.New("it broke")
	r = p.examine()
	require.False(t, r.Sound)
	require.Contains(t, r.of(whatCleanup).Detail, "it broke")
}

func TestWhatIsInstalled(t *testing.T) {
	p := newPatient(t)
	r := p.examine()
	require.True(t, r.Sound, "nothing is, and nobody needs one: %+v", r.Findings)
	require.Equal(t, Note, r.of(whatTrial).State)
	p.Reserved = func(context.Context) bool { return true }
	r = p.examine()
	require.False(t, r.Sound, "what is reserved is not kept")
	require.Equal(t, Bad, r.of(whatTrial).State)
	p.Reserved = nil
	require.Equal(t, Note, r.of("git pre-commit").State)
	require.Empty(t, p.reserved, "there was nothing to try")

	program := p.program(judge + "exit 1\n")
	p.installGit(program)
	path := filepath.Join(p.dir, ".git/hooks/pre-commit")
	text := must.Get(os.ReadFile(path))(t)
	ran := filepath.Join(t.TempDir(), "ran")

	require.NoError(t, os.WriteFile(path, append(text, []byte("touch "+ran+"\n")...), 0o755))
	r = p.examine()
	require.False(t, r.Sound)
	require.Contains(t, r.of("git pre-commit").Detail, "was edited")

	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\ntouch "+ran+"\ngated hook pre-commit\n"), 0o755))
	r = p.examine()
	require.True(t, r.Sound, "pre-push blocks")
	require.Equal(t, Note, r.of("git pre-commit").State)
	require.Contains(t, r.of("git pre-commit").Detail, "seems to run gated hook pre-commit")
	require.NoFileExists(t, ran)

	require.NoError(t, os.WriteFile(path, text, 0o755))
	require.NoError(t, os.WriteFile(path+".gated-chained", []byte("#!/bin/sh\ntouch "+ran+"\nexit 1\n"), 0o755))
	r = p.examine()
	require.True(t, r.Sound, "%+v", r.Findings)
	require.NoFileExists(t, ran, "what is chained is not run")

	require.NoError(t, os.Chmod(path, 0o644))
	r = p.examine()
	require.False(t, r.Sound)
	require.Contains(t, r.of("git pre-commit").Detail, "has no execute permission")
}

func TestSettings(t *testing.T) {
	p := newPatient(t)
	tools := p.program(judge + "exit 2\n")
	group := func(matcher, more string) string {
		return `{"matcher":"` + matcher + `","hooks":[{"type":"command","command":"` + tools + ` hook pre-tool-use --on-failure warn"` + more + `}]}`
	}
	for _, c := range []struct {
		settings string
		sound    bool
		says     string
	}{
		{`{"hooks":{"PreToolUse":[` + group("*", "") + `]}}`, true, ""},
		{`{"hooks":{"PreToolUse":[` + group("Edit|Write", "") + `,` + group("MultiEdit|NotebookEdit", "") + `]}}`, true, ""},
		{`{"hooks":{"PreToolUse":[` + group("Edit|Write", "") + `]}}`, false, "no hook of Claude Code is asked about MultiEdit, NotebookEdit"},
		{`{"hooks":{"PreToolUse":[` + group("*", `,"async":true`) + `]}}`, false, "async"},
		{`{"disableAllHooks":true,"hooks":{"PreToolUse":[` + group("*", "") + `]}}`, false, "disableAllHooks"},
		{`{`, false, "cannot be read"},
	} {
		p.settings(c.settings)
		r := p.examine()
		require.Equal(t, c.sound, r.Sound, "%s: %+v", c.settings, r.Findings)
		if c.says != "" {
			require.Contains(t, r.of(whatTools).Detail, c.says)
		}
	}
}

func TestWhatAnAgentsHookAnswers(t *testing.T) {
	answer := func(decision string) string {
		return `{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"` + decision + `","permissionDecisionReason":"x"},"new":1}`
	}
	for _, c := range []struct {
		out            output
		denied, failed bool
	}{
		{output{}, false, false},
		{output{code: 2}, true, false},
		{output{code: 2, stdout: "nonsense"}, true, false},
		{output{code: 1}, false, true},
		{output{code: 127}, false, true},
		{output{stdout: answer("deny")}, true, false},
		{output{stdout: answer("allow")}, false, false},
		{output{stdout: answer("ask")}, false, false},
		{output{stdout: answer("deny"), code: 1}, false, true},
		{output{stdout: `{"systemMessage":"unchecked"}`}, false, false},
		{output{stdout: "nonsense"}, false, true},
	} {
		v := toolVerdict(hook.Claude{}, c.out)
		require.Equal(t, c.denied, v.denied, "%+v", c.out)
		require.Equal(t, c.failed, v.failed, "%+v", c.out)
	}
}
