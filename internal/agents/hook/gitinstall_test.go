package hook

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// stub makes a program in the place of gated that writes down how it was called
// and what it read, and exits with a code.
func stub(t *testing.T, code string) (path, record string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a path's \"dir\" $HOME")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	path, record = filepath.Join(dir, "gated"), filepath.Join(dir, "record")
	text := "#!/bin/sh\n{ echo ours \"$@\"; [ \"$2\" = pre-push ] && cat; } >>'" + strings.ReplaceAll(record, "'", `'\''`) + "'\nexit " + code + "\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
	return path, record
}

func (r *repo) options(program string) GitOptions {
	return GitOptions{Program: program, OnFailure: Warn, Env: r.env}
}

func (r *repo) install(o GitOptions) Report {
	r.t.Helper()
	return must.Get(InstallGit(r.t.Context(), r.dir, o))(r.t)
}

func (r *repo) hook(name string) string { return filepath.Join(r.dir, ".git/hooks", name) }

func (r *repo) writeHook(name, text string, mode os.FileMode) {
	r.t.Helper()
	require.NoError(r.t, os.MkdirAll(filepath.Dir(r.hook(name)), 0o755))
	require.NoError(r.t, os.WriteFile(r.hook(name), []byte(text), mode))
	require.NoError(r.t, os.Chmod(r.hook(name), mode))
}

func content(t *testing.T, path string) string {
	t.Helper()
	b := must.Get(os.ReadFile(path))(t)
	return string(b)
}

func actions(r Report) []Action {
	var out []Action
	for _, c := range r.Changes {
		out = append(out, c.Action)
	}
	return out
}

func TestInstalledHooksAreRun(t *testing.T) {
	r := newRepo(t)
	program, record := stub(t, "0")
	o := r.options(program)
	o.Socket, o.Deadline = "/run/a b/s", 1500*time.Millisecond
	require.Equal(t, []Action{Created, Created}, actions(r.install(o)))
	info := must.Get(os.Stat(r.hook("pre-commit")))(t)
	require.Equal(t, os.FileMode(0o755), info.Mode().Perm())

	r.commit("base", "a")
	require.Equal(t, "ours hook pre-commit --on-failure warn --deadline 1.5s --socket /run/a b/s\n", content(t, record))

	bare := filepath.Join(t.TempDir(), "bare")
	r.git("init", "-q", "--bare", bare)
	r.git("remote", "add", "origin", bare)
	r.git("push", "-q", "origin", "main", "main:refs/heads/x")
	tip := r.git("rev-parse", "HEAD")
	require.Equal(t, "ours hook pre-push --on-failure warn --deadline 1.5s --socket /run/a b/s origin "+bare+"\n"+
		"refs/heads/main "+tip+" refs/heads/main "+zero+"\nrefs/heads/main "+tip+" refs/heads/x "+zero+"\n",
		strings.SplitAfterN(content(t, record), "\n", 2)[1])
}

func TestAHookThatSaysNoStopsGit(t *testing.T) {
	r := newRepo(t)
	program, _ := stub(t, "1")
	r.install(r.options(program))
	r.write("a", "")
	r.git("add", "a")
	must.Err(r.try("commit", "-qm", "x"))(t)
	r.git("commit", "-qm", "x", "--no-verify")
	bare := filepath.Join(t.TempDir(), "bare")
	r.git("init", "-q", "--bare", bare)
	must.Err(r.try("push", "-q", bare, "main"))(t)
	require.Empty(t, repoAt(t, bare).git("for-each-ref"))
}

// TestAHookThatWasThereIsChained: it is run first, with the same arguments and
// the same standard input, and its no is a no.
func TestAHookThatWasThereIsChained(t *testing.T) {
	r := newRepo(t)
	first := r.commit("base", "a")
	bare := filepath.Join(t.TempDir(), "bare")
	r.git("init", "-q", "--bare", bare)
	program, record := stub(t, "0")
	theirs := filepath.Join(t.TempDir(), "theirs")
	for _, name := range gitHooks {
		r.writeHook(name, "#!/bin/sh\n{ echo theirs \"$@\"; cat; } >>"+theirs+"\nexit ${THEIRS-0}\n", 0o751)
	}
	report := r.install(r.options(program))
	require.Equal(t, []Action{Changed, Changed}, actions(report))
	require.Equal(t, r.hook("pre-push")+chainedSuffix, report.Changes[1].Backup)
	info := must.Get(os.Stat(r.hook("pre-push") + chainedSuffix))(t)
	require.Equal(t, os.FileMode(0o751), info.Mode().Perm())

	r.git("push", "-q", bare, "main")
	lines := "refs/heads/main " + first + " refs/heads/main " + zero + "\n"
	require.Equal(t, "theirs "+bare+" "+bare+"\n"+lines, content(t, theirs))
	require.Equal(t, "ours hook pre-push --on-failure warn "+bare+" "+bare+"\n"+lines, content(t, record))

	r.env = append(r.env, "THEIRS=7")
	require.NoError(t, os.Remove(record))
	r.write("a", "2")
	r.git("add", "a")
	must.Err(r.try("commit", "-qm", "no"))(t)
	require.NoFileExists(t, record, "theirs said no, so nobody asked ours")
	cmd := exec.Command(r.hook("pre-push"), "origin", bare)
	cmd.Env, cmd.Dir = r.env, r.dir
	require.Error(t, cmd.Run())
	require.Equal(t, 7, cmd.ProcessState.ExitCode())
	require.NoFileExists(t, record)
}

// TestStandardInputReachesBoth: as it was, whoever reads how much of it.
func TestStandardInputReachesBoth(t *testing.T) {
	r := newRepo(t)
	long := strings.Repeat("refs/heads/$HOME`id`\\ \"x\" 'y' "+zero+" refs/heads/x "+zero+"\n", 3000)
	for name, in := range map[string]string{"nothing": "", "one line": "a b c d\n", "more than a pipe holds": long} {
		for _, reads := range []string{"cat >/dev/null", ":", "head -c 10 >/dev/null"} {
			program, record := stub(t, "0")
			require.NoError(t, os.RemoveAll(filepath.Dir(r.hook("x"))))
			r.writeHook("pre-push", "#!/bin/sh\n"+reads+"\n", 0o755)
			r.install(r.options(program))
			cmd := exec.Command(r.hook("pre-push"), "origin", "url")
			cmd.Stdin, cmd.Env, cmd.Dir = strings.NewReader(in), r.env, r.dir
			out := must.Get(cmd.CombinedOutput())(t, name)
			require.Empty(t, string(out), name)
			require.Equal(t, "ours hook pre-push --on-failure warn origin url\n"+in, content(t, record), name+", "+reads)
		}
	}
}

func TestWhatGitWouldNotRunIsNotRun(t *testing.T) {
	r := newRepo(t)
	program, record := stub(t, "0")
	r.writeHook("pre-commit", "#!/bin/sh\nexit 1\n", 0o644)
	r.install(r.options(program))
	r.commit("base", "a")
	require.FileExists(t, record)
}

func TestInstallingTwiceChangesNothing(t *testing.T) {
	r := newRepo(t)
	program, _ := stub(t, "0")
	r.writeHook("pre-commit", "#!/bin/sh\nexit 0\n", 0o755)
	r.install(r.options(program))
	before := r.snapshot()
	report := r.install(r.options(program))
	require.Equal(t, []Action{Unchanged, Unchanged}, actions(report))
	require.Equal(t, before, r.snapshot())

	// With other options the script is another, and the chain is one hook long.
	o := r.options(program)
	o.OnFailure = Block
	require.Equal(t, []Action{Changed, Changed}, actions(r.install(o)))
	require.Contains(t, content(t, r.hook("pre-commit")), "hook pre-commit --on-failure block ")
	require.Equal(t, "#!/bin/sh\nexit 0\n", content(t, r.hook("pre-commit")+chainedSuffix))
	require.NoFileExists(t, r.hook("pre-commit")+chainedSuffix+chainedSuffix)

	// A script that git would not run is made one that it does.
	require.NoError(t, os.Chmod(r.hook("pre-push"), 0o644))
	require.Equal(t, []Action{Unchanged, Changed}, actions(r.install(o)))
}

func TestADryRunChangesNothing(t *testing.T) {
	r := newRepo(t)
	program, _ := stub(t, "0")
	r.writeHook("pre-commit", "#!/bin/sh\nexit 0\n", 0o755)
	before := r.snapshot()
	o := r.options(program)
	o.DryRun = true
	require.Equal(t, []Action{Changed, Created}, actions(r.install(o)))
	require.Equal(t, before, r.snapshot())
	r.install(r.options(program))
	before = r.snapshot()
	report := must.Get(UninstallGit(t.Context(), r.dir, o))(t)
	require.Equal(t, []Action{Changed, Removed}, actions(report))
	require.Equal(t, before, r.snapshot())
}

func TestUninstallPutsBackWhatWasThere(t *testing.T) {
	r := newRepo(t)
	program, _ := stub(t, "0")
	r.writeHook("pre-commit", "#!/bin/sh\nexit 0\n", 0o751)
	require.NoError(t, os.Symlink("../dispatch", r.hook("pre-push")))
	before := r.snapshot()
	r.install(r.options(program))
	require.NotEqual(t, before, r.snapshot())
	report := must.Get(UninstallGit(t.Context(), r.dir, r.options(program)))(t)
	require.Equal(t, []Action{Changed, Changed}, actions(report))
	names := func(s string) string { return strings.Join(strings.Split(s, "\n")[2:], "\n") }
	require.Equal(t, len(strings.Split(before, "\n")), len(strings.Split(r.snapshot(), "\n")))
	require.Equal(t, "#!/bin/sh\nexit 0\n", content(t, r.hook("pre-commit")))
	info := must.Get(os.Stat(r.hook("pre-commit")))(t)
	require.Equal(t, os.FileMode(0o751), info.Mode().Perm())
	to := must.Get(os.Readlink(r.hook("pre-push")))(t)
	require.Equal(t, "../dispatch", to)

	before = names(r.snapshot())
	report = must.Get(UninstallGit(t.Context(), r.dir, r.options(program)))(t)
	require.Equal(t, []Action{Unchanged, Unchanged}, actions(report))
	require.Len(t, report.Notes, 2, "they are not gated's")
	require.Equal(t, before, names(r.snapshot()))
}

func TestUninstallLeavesNothing(t *testing.T) {
	r := newRepo(t)
	program, _ := stub(t, "0")
	r.install(r.options(program))
	report := must.Get(UninstallGit(t.Context(), r.dir, r.options(program)))(t)
	require.Equal(t, []Action{Removed, Removed}, actions(report))
	for _, name := range gitHooks {
		require.NoFileExists(t, r.hook(name))
	}
	require.Empty(t, must.Get(filepath.Glob(r.hook("*gated*")))(t))
}

// TestWhatSomebodyWroteIntoItIsNotLost: an edited script is neither written over
// nor removed.
func TestWhatSomebodyWroteIntoItIsNotLost(t *testing.T) {
	program, _ := stub(t, "0")
	for name, edit := range map[string]func(string) string{
		"a line at the end":    func(s string) string { return s + "make test\n" },
		"a line in the middle": func(s string) string { return strings.Replace(s, "if [", "make test\nif [", 1) },
		"another interpreter":  func(s string) string { return strings.Replace(s, "/bin/sh", "/bin/bash", 1) },
		"a line at the top":    func(s string) string { return strings.Replace(s, "\n", "\nmake test\n", 1) },
	} {
		r := newRepo(t)
		r.install(r.options(program))
		r.writeHook("pre-push", edit(content(t, r.hook("pre-push"))), 0o755)
		before := r.snapshot()
		o := r.options(program)
		o.OnFailure = Block
		must.Fail(InstallGit(t.Context(), r.dir, o))(t, refusal.Conflict, name)
		must.Fail(UninstallGit(t.Context(), r.dir, o))(t, refusal.Conflict, name)
		require.Equal(t, before, r.snapshot(), "%s: not even the other hook was touched", name)
	}
}

// TestAHookThatWasPutOverOurs: another tool installed its own, and both the old
// one and the new one are somebody's.
func TestAHookThatWasPutOverOurs(t *testing.T) {
	r := newRepo(t)
	program, _ := stub(t, "0")
	r.writeHook("pre-commit", "#!/bin/sh\nexit 0\n", 0o755)
	r.install(r.options(program))
	r.writeHook("pre-commit", "#!/bin/sh\n# of another tool\n", 0o755)
	must.Fail(InstallGit(t.Context(), r.dir, r.options(program)))(t, refusal.Conflict)
	report := must.Get(UninstallGit(t.Context(), r.dir, r.options(program)))(t)
	require.Equal(t, Unchanged, report.Changes[0].Action)
	require.NoFileExists(t, r.hook("pre-push"))
	require.Equal(t, "#!/bin/sh\n# of another tool\n", content(t, r.hook("pre-commit")))

	// An installation that ended between its two steps goes on.
	r = newRepo(t)
	r.writeHook("pre-commit", "#!/bin/sh\nexit 0\n", 0o755)
	require.NoError(t, os.Link(r.hook("pre-commit"), r.hook("pre-commit")+chainedSuffix))
	r.install(r.options(program))
	require.Equal(t, "#!/bin/sh\nexit 0\n", content(t, r.hook("pre-commit")+chainedSuffix))
	require.Contains(t, content(t, r.hook("pre-commit")), marker)
}

// TestWhereGitLooksForHooks: a linked work tree shares them, core.hooksPath
// moves them, a submodule has its own.
func TestWhereGitLooksForHooks(t *testing.T) {
	program, record := stub(t, "0")
	r := newRepo(t)
	r.commit("base", "a")
	linked := filepath.Join(filepath.Dir(r.dir), "linked")
	r.git("worktree", "add", "-q", linked)
	w := repoAt(t, linked)
	w.env = r.env
	w.install(w.options(program))
	require.FileExists(t, r.hook("pre-commit"))
	w.commit("there", "b")
	require.Contains(t, content(t, record), "ours hook pre-commit")

	r.git("config", "core.hooksPath", ".githooks")
	require.NoError(t, os.Mkdir(filepath.Join(r.dir, "sub"), 0o755))
	report := must.Get(InstallGit(t.Context(), filepath.Join(r.dir, "sub"), r.options(program)))(t)
	require.Equal(t, filepath.Join(r.dir, ".githooks/pre-commit"), report.Changes[0].Path)
	require.Len(t, report.Notes, 1)
	require.Contains(t, report.Notes[0], "inside the work tree")
	require.NoError(t, os.Remove(record))
	r.commit("here", "c")
	require.Contains(t, content(t, record), "ours hook pre-commit")

	// The variables that git sets in its hooks do not lead elsewhere.
	other := newRepo(t)
	o := other.options(program)
	o.Env = append(o.Env, "GIT_DIR="+filepath.Join(r.dir, ".git"), "GIT_WORK_TREE="+r.dir)
	other.install(o)
	require.FileExists(t, other.hook("pre-commit"))
}

func TestHooksThatServeOthersAreLeftAlone(t *testing.T) {
	program, _ := stub(t, "0")
	r := newRepo(t)
	global := t.TempDir()
	r.git("config", "core.hooksPath", global)
	_, err := InstallGit(t.Context(), r.dir, r.options(program))
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.ErrorContains(t, err, "core.hooksPath")
	_, err = UninstallGit(t.Context(), r.dir, r.options(program))
	require.ErrorIs(t, err, refusal.NotAllowed)
	entries, err := os.ReadDir(global)
	require.NoError(t, err)
	require.Empty(t, entries)
	o := r.options(program)
	o.Shared = true
	r.install(o)
	require.FileExists(t, filepath.Join(global, "pre-commit"))

	// A link out of the repository is the same.
	r = newRepo(t)
	require.NoError(t, os.RemoveAll(r.hook("")))
	require.NoError(t, os.Symlink(t.TempDir(), strings.TrimSuffix(r.hook(""), "/")))
	_, err = InstallGit(t.Context(), r.dir, r.options(program))
	require.ErrorIs(t, err, refusal.NotAllowed)
	require.ErrorContains(t, err, "symbolic link")

}

func TestAProgramThatIsGone(t *testing.T) {
	for on, works := range map[OnFailure]bool{Warn: true, Block: false} {
		r := newRepo(t)
		program, _ := stub(t, "0")
		o := r.options(program)
		o.OnFailure = on
		r.install(o)
		require.NoError(t, os.Remove(program))
		r.write("a", "")
		r.git("add", "a")
		out, err := r.try("commit", "-qm", "x")
		require.Equal(t, works, err == nil, on)
		require.Contains(t, out, "gated: the program that checks reservations is gone")
	}
}

func TestProgramsThatCannotBeWrittenDown(t *testing.T) {
	r := newRepo(t)
	for _, program := range []string{"gated", "", "/a\nb/gated", "/a\x1b/gated"} {
		must.Fail(InstallGit(t.Context(), r.dir, r.options(program)))(t, refusal.BadParams, program)
	}
	require.NoFileExists(t, r.hook("pre-commit"))
}

func TestAHookThatGoesByItsNameIsSaid(t *testing.T) {
	r := newRepo(t)
	program, _ := stub(t, "0")
	r.writeHook("pre-commit", "#!/bin/sh\n. \"$(dirname \"$0\")/h\"\n", 0o755)
	report := r.install(r.options(program))
	require.Len(t, report.Notes, 1)
	require.Contains(t, report.Notes[0], "uses its own name")
}

func TestHowHooksAreInstalled(t *testing.T) {
	r := newRepo(t)
	program, _ := stub(t, "0")
	states := func() []GitState {
		d := must.Get(FindHooks(t.Context(), r.dir, r.env))(t)
		return must.Get(d.Hooks())(t)
	}
	require.False(t, states()[0].There)
	r.writeHook("pre-commit", "#!/bin/sh\nexec gated hook pre-commit\n", 0o644)
	require.Equal(t, GitState{Name: "pre-commit", Path: r.hook("pre-commit"), There: true, Names: true}, states()[0])
	r.install(r.options(program))
	require.Equal(t, GitState{Name: "pre-commit", Path: r.hook("pre-commit"), There: true, Ours: true, Runs: true, Chained: true, Known: true, Program: program, Setup: Setup{OnFailure: Warn}}, states()[0])
	require.Equal(t, GitState{Name: "pre-push", Path: r.hook("pre-push"), There: true, Ours: true, Runs: true, Known: true, Program: program, Setup: Setup{OnFailure: Warn}}, states()[1])
	r.writeHook("pre-push", content(t, r.hook("pre-push"))+"x\n", 0o755)
	require.True(t, states()[1].Edited)
}
