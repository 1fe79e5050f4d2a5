package command_test

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/command"
	"gated/internal/driver/command/catalogue"
	"gated/internal/driver/drivertest"
	"gated/internal/host/config"
	"gated/internal/test/must"
)

// example is a shipped example, set up in a directory of the test instead of this machine's
// directories.
func (b *bench) example(name string, as string, instead ...string) {
	b.t.Helper()
	dir := filepath.Join("..", "..", "..", "examples", "commands", name)
	text := must.Get(os.ReadFile(filepath.Join(dir, "gated.yaml")))(b.t)
	probes := must.Get(filepath.Glob(filepath.Join(dir, "probe-*")))(b.t)
	require.Len(b.t, probes, 1)
	copyFile(b.t, probes[0], b.path(filepath.Base(probes[0])))
	replaced := strings.NewReplacer(append([]string{"/usr/local/lib/gated", b.dir}, instead...)...).Replace(string(text))
	c := must.Get(config.Parse("gated.yaml", []byte("host: h\n"+replaced)))(b.t)
	require.Len(b.t, c.Commands, 1)
	for name, e := range c.Commands {
		e.User = as
		b.entries[name] = e
	}
	require.Empty(b.t, c.Policy.Benign)
	b.Driver = command.New(command.Config{Entries: b.entries, SingleUser: b.own, Grace: time.Second})
}

// needs skips a test if the machine lacks a program. It names the package of the program.
func needs(t *testing.T, program, pkg string) {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Skipf("needs %s (Debian: %s)", program, pkg)
	}
}

// as runs a program as a user and returns its output.
func (b *bench) as(name string, env []string, argv ...string) string {
	b.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = append(env, "PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"), b.path("work")
	if !b.own {
		u := must.Get(user.Lookup(name))(b.t)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(number(b.t, u.Uid)), Gid: uint32(number(b.t, u.Gid))}}
	}
	out, err := cmd.CombinedOutput()
	require.NoError(b.t, err, "%v: %s", argv, out)
	return strings.TrimSpace(string(out))
}

// approved is a request that the operator signed, and the look that the operator saw.
func (b *bench) approved(g *drivertest.Gate, l op.Look) (op.Request, op.Observed) {
	b.t.Helper()
	o := b.look(l)
	return g.Approved(drivertest.Hub, op.Ask{Op: l.Op, Target: l.Target, Params: l.Params}), o
}

func TestExampleDropdb(t *testing.T) {
	const bin = "/usr/lib/postgresql/15/bin/"
	needs(t, bin+"initdb", "postgresql-15")
	b := newBench(t)
	as := "postgres"
	if b.own {
		u := must.Get(user.Current())(t)
		as = u.Username
	}
	cluster := b.cluster(bin, as)
	b.example("dropdb", as, "/run/postgresql", cluster)
	sql := func(db, text string) string {
		return b.as(as, nil, bin+"psql", "-XAtq", "-h", cluster, "-d", db, "-c", text)
	}
	for _, db := range []string{"doomed", "bystander"} {
		sql("postgres", "CREATE DATABASE "+db)
		sql(db, "CREATE TABLE orders (id int); INSERT INTO orders SELECT generate_series(1, 1234); CREATE TABLE \"Odd name\" (x text)")
	}
	ask := asking("drop-db", "database", "doomed")
	g := b.gate()
	r, o := b.approved(g, ask)
	says := fact(o, "probe says")
	require.Contains(t, says, "database doomed, owned by "+as)
	require.Contains(t, says, "tables: 2\n")
	require.Contains(t, says, `rows in public."Odd name": 0`)
	require.Contains(t, says, "rows in public.orders: 1234")
	require.Contains(t, fact(o, "runs"), bin+"dropdb --no-password -- doomed")

	sql("doomed", "INSERT INTO orders VALUES (0)")
	require.ErrorIs(t, g.Execute(r.ID), refusal.StaleTarget, "a row more than the operator saw")
	r, _ = b.approved(g, ask)
	require.NoError(t, g.Execute(r.ID))
	require.Equal(t, "bystander", sql("postgres", "SELECT string_agg(datname, ',') FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'"))
	require.Equal(t, "1234", sql("bystander", "SELECT count(*) FROM orders"))
	require.Contains(t, fact(b.look(ask), "probe ended with"), "exit status", "there is no such database any more")
	for _, bad := range []string{"--help", "doomed; drop", "dbname=x", "A"} {
		must.Fail(b.Observe(t.Context(), asking("drop-db", "database", bad)))(t, refusal.BadParams, bad)
	}
}

// cluster starts a PostgreSQL for the test, only on a socket, and returns the socket's
// directory.
func (b *bench) cluster(bin, as string) string {
	b.t.Helper()
	dir, err := os.MkdirTemp("", "gated-pg") // a socket's path must be short
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if !b.own {
		u := must.Get(user.Lookup(as))(b.t)
		require.NoError(b.t, os.Chown(dir, int(number(b.t, u.Uid)), int(number(b.t, u.Gid))))
	}
	require.NoError(b.t, os.Chmod(b.path("work"), 0o755))
	data := filepath.Join(dir, "data")
	b.as(as, nil, bin+"initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--no-locale", "-D", data)
	b.as(as, nil, bin+"pg_ctl", "-D", data, "-l", filepath.Join(dir, "log"), "-w", "-t", "120",
		"-o", "-F -k "+dir+" -c listen_addresses='' -c autovacuum=off", "start")
	b.t.Cleanup(func() { b.as(as, nil, bin+"pg_ctl", "-D", data, "-w", "-m", "immediate", "stop") })
	return dir
}

// repository makes a repository. It has a branch with two commits of its own, and a remote with
// the same branch.
func (b *bench) repository() (git func(argv ...string) string) {
	b.t.Helper()
	git = func(argv ...string) string {
		return b.as(worker, []string{"HOME=" + b.path("work"), "GIT_AUTHOR_NAME=alice", "GIT_AUTHOR_EMAIL=alice@example.com",
			"GIT_COMMITTER_NAME=alice", "GIT_COMMITTER_EMAIL=alice@example.com"}, append([]string{"/usr/bin/git"}, argv...)...)
	}
	git("init", "-q", "--bare", "-b", "main", "remote")
	git("init", "-q", "-b", "main", "repo")
	git("-C", "repo", "commit", "-q", "--allow-empty", "-m", "the first")
	git("-C", "repo", "checkout", "-q", "-b", "topic")
	git("-C", "repo", "commit", "-q", "--allow-empty", "-m", "work of a week")
	git("-C", "repo", "commit", "-q", "--allow-empty", "-m", "and of another")
	git("-C", "repo", "remote", "add", "origin", b.path("work", "remote"))
	git("-C", "repo", "checkout", "-q", "main")
	return git
}

func (b *bench) workerName() string {
	if b.own {
		return ""
	}
	return worker
}

func TestExampleGitBranchDelete(t *testing.T) {
	needs(t, "/usr/bin/git", "git")
	b := newBench(t)
	git := b.repository()
	b.example("git-branch-delete", b.workerName(), "/srv/git", b.path("work"))
	ask := asking("delete-branch", "repository", "repo", "branch", "topic")
	g := b.gate()
	r, o := b.approved(g, ask)
	says := fact(o, "probe says")
	require.Contains(t, says, "topic is at "+git("-C", "repo", "rev-parse", "topic"))
	require.Contains(t, says, "commits that are nowhere else: 2\n")
	require.Contains(t, says, "alice: work of a week")
	git("-C", "repo", "branch", "keeps", "topic~1")
	require.ErrorIs(t, g.Execute(r.ID), refusal.StaleTarget, "one of the two is elsewhere by now")
	r, o = b.approved(g, ask)
	require.Contains(t, fact(o, "probe says"), "commits that are nowhere else: 1\n")
	require.NoError(t, g.Execute(r.ID))
	require.Equal(t, "keeps\nmain", git("-C", "repo", "branch", "--format=%(refname:short)"))
	require.Equal(t, "there is no branch topic", fact(b.look(ask), "probe says"))
	for _, bad := range []op.Look{asking("delete-branch", "repository", "/etc", "branch", "main"), asking("delete-branch", "repository", "repo", "branch", "-a")} {
		must.Fail(b.Observe(t.Context(), bad))(t, refusal.BadParams)
	}
}

func TestExampleGitForcePush(t *testing.T) {
	needs(t, "/usr/bin/git", "git")
	b := newBench(t)
	git := b.repository()
	git("-C", "repo", "push", "-q", "origin", "topic", "main")
	b.example("git-force-push", b.workerName(), "/srv/git", b.path("work"))
	old, instead := git("-C", "repo", "rev-parse", "topic"), git("-C", "repo", "rev-parse", "topic~1")
	ask := asking("force-push", "repository", "repo", "branch", "topic", "expect", old, "commit", instead)
	g := b.gate()
	r, o := b.approved(g, ask)
	says := fact(o, "probe says")
	require.Contains(t, says, "the push goes to "+b.path("work", "remote")+"\ntopic is there at "+old+"\n")
	require.Contains(t, says, "commits that would go: 1\n")
	require.Contains(t, says, "alice: and of another")
	require.Contains(t, says, "commits that would come: 0")
	git("-C", "repo", "push", "-q", "--force", "origin", "main:topic")
	require.ErrorIs(t, g.Execute(r.ID), refusal.StaleTarget, "the remote's branch is elsewhere by now")
	require.Equal(t, git("-C", "repo", "rev-parse", "main"), git("-C", "remote", "rev-parse", "topic"))
	require.Contains(t, fact(b.look(ask), "probe says"), "the push will be refused")

	git("-C", "repo", "push", "-q", "--force", "origin", "topic")
	r, _ = b.approved(g, ask)
	require.NoError(t, g.Execute(r.ID))
	require.Equal(t, instead, git("-C", "remote", "rev-parse", "topic"))
}

// A push goes to pushurl, not to the URL of fetches. So the probe looks at pushurl, the
// operator sees it, and the signature covers it. The same holds for the hook that git runs
// before it.
func TestExampleGitForcePushElsewhere(t *testing.T) {
	needs(t, "/usr/bin/git", "git")
	b := newBench(t)
	git := b.repository()
	git("-C", "repo", "push", "-q", "origin", "topic", "main")
	git("clone", "-q", "--bare", "remote", "elsewhere")
	git("clone", "-q", "--bare", "remote", "third")
	b.example("git-force-push", b.workerName(), "/srv/git", b.path("work"))
	old, instead := git("-C", "repo", "rev-parse", "topic"), git("-C", "repo", "rev-parse", "topic~1")
	ask := asking("force-push", "repository", "repo", "branch", "topic", "expect", old, "commit", instead)
	says := func() string { return fact(b.look(ask), "probe says") }
	g := b.gate()
	stale := func(change func(), then string) {
		t.Helper()
		r, _ := b.approved(g, ask)
		change()
		require.ErrorIs(t, g.Execute(r.ID), refusal.StaleTarget)
		require.Contains(t, says(), then)
	}
	elsewhere := b.path("work", "elsewhere")
	stale(func() { git("-C", "repo", "remote", "set-url", "--push", "origin", elsewhere) }, "the push goes to "+elsewhere+"\n")
	hook := b.path("work", "repo", ".git", "hooks", "pre-push")
	stale(func() { b.as(worker, nil, "/bin/sh", "-c", "printf '#!/bin/sh\n' > "+hook+" && chmod +x "+hook) }, "git runs .git/hooks/pre-push before it")
	stale(func() { b.as(worker, nil, "/bin/sh", "-c", "echo exit 0 >> "+hook) }, "git runs .git/hooks/pre-push before it")
	r, _ := b.approved(g, ask)
	require.NoError(t, g.Execute(r.ID))
	require.Equal(t, instead, git("-C", "elsewhere", "rev-parse", "topic"))
	require.Equal(t, old, git("-C", "remote", "rev-parse", "topic"))
	require.Contains(t, says(), "topic is there at "+instead)

	git("-C", "repo", "config", "url."+b.path("work", "third")+".insteadOf", elsewhere)
	require.Contains(t, says(), "the push goes to "+b.path("work", "third")+"\ngit runs", "git's settings lead it elsewhere")
	git("-C", "repo", "config", "url."+b.path("work", "remote")+".insteadOf", b.path("work", "third"))
	require.Contains(t, says(), "what would go is not known")
	git("-C", "repo", "remote", "set-url", "--push", "--add", "origin", b.path("work", "remote"))
	require.Contains(t, says(), "more than one place")
	git("-C", "repo", "config", "--replace-all", "remote.origin.pushurl", "https://git:sesame@127.0.0.1:1/x")
	require.Contains(t, says(), "https://git:...@127.0.0.1:1/x")
	require.NotContains(t, says(), "sesame")
}

func TestExampleBtrfsSubvolumeDelete(t *testing.T) {
	needs(t, "/usr/bin/btrfs", "btrfs-progs")
	b := newBench(t)
	if b.own {
		t.Skip("needs root, to mount a file system")
	}
	image, at := b.path("image"), b.path("mounted")
	require.NoError(t, os.Mkdir(at, 0o755))
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 120<<20))
	out, err := exec.Command("mkfs.btrfs", "-q", image).CombinedOutput()
	require.NoError(t, err, "%s", out)
	if out, err := exec.Command("mount", "-o", "loop,user_subvol_rm_allowed", image, at).CombinedOutput(); err != nil {
		t.Skipf("needs to mount a loop file: %s", out)
	}
	t.Cleanup(func() {
		out, err := exec.Command("umount", at).CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
	b.give(at)
	for _, name := range []string{"doomed", "bystander"} {
		b.as(worker, nil, "/usr/bin/btrfs", "-q", "subvolume", "create", filepath.Join(at, name))
		b.as(worker, nil, "/bin/sh", "-c", "echo precious > "+filepath.Join(at, name, "file"))
	}
	b.as(worker, nil, "/bin/mkdir", filepath.Join(at, "plain"))
	b.example("btrfs-subvolume-delete", worker, "/srv/snapshots", at)
	ask := asking("delete-subvolume", "subvolume", "doomed")
	g := b.gate()
	r, o := b.approved(g, ask)
	require.Contains(t, fact(o, "probe says"), "files: 1\nbytes: 9\nnewest change: ")
	require.Contains(t, fact(o, "probe says"), "\n  file")
	b.as(worker, nil, "/bin/sh", "-c", "echo more > "+filepath.Join(at, "doomed", "more"))
	require.ErrorIs(t, g.Execute(r.ID), refusal.StaleTarget, "a file more than the operator saw")
	r, _ = b.approved(g, ask)
	require.NoError(t, g.Execute(r.ID))
	require.NoDirExists(t, filepath.Join(at, "doomed"))
	require.FileExists(t, filepath.Join(at, "bystander", "file"))
	require.Contains(t, fact(b.look(asking("delete-subvolume", "subvolume", "plain")), "probe says"), "is no subvolume")
	_, err = b.Observe(t.Context(), asking("delete-subvolume", "subvolume", "."))
	require.ErrorIs(t, err, refusal.BadParams, "the root itself")
	require.Equal(t, catalogue.Path, b.entries["delete-subvolume"].Params["subvolume"].Type)
}
