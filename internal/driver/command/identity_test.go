package command_test

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/command/catalogue"
	"gated/internal/test/must"
)

// Everything that decides what runs changes an entry's incarnation. To undo the change restores
// the incarnation.
func TestTheIncarnationCoversAllThatRuns(t *testing.T) {
	b := newBench(t)
	interpreter := b.path("sh")
	copyFile(t, "/bin/sh", interpreter)
	script := func(text string) string { return "#!" + interpreter + "\n" + text }
	b.script("does", script("echo one"))
	b.script("probe", script("echo probe"))
	b.entry("does", []string{b.path("does"), "{p}"}, func(e *catalogue.Entry) {
		e.Probe = []string{b.path("probe"), "{p}"}
		e.Params["p"] = anyText(9)
	})
	was, original := b.look(op.At(target("does"))), b.entries["does"]
	require.Equal(t, was.Incarnation, b.look(asking("does", "p", "x")).Incarnation)
	seen := map[op.Incarnation]string{was.Incarnation: "as it was"}
	other := func(what string, now op.Incarnation) {
		require.Empty(t, seen[now], "%s makes no other incarnation", what)
		seen[now] = what
	}
	for what, change := range map[string]func(*catalogue.Entry){
		"a word":        func(e *catalogue.Entry) { e.Argv = append(e.Argv[:1:1], "{p}", "x") },
		"the probe":     func(e *catalogue.Entry) { e.Probe = []string{b.path("probe")} },
		"no probe":      func(e *catalogue.Entry) { e.Probe = nil },
		"the directory": func(e *catalogue.Entry) { e.Dir = "/" },
		"the variables": func(e *catalogue.Entry) { e.Env = maps.Clone(e.Env); e.Env["LD_PRELOAD"] = "/x" },
		"a variable":    func(e *catalogue.Entry) { e.Env = map[string]string{"PATH": "/sbin"} },
		"the timeout":   func(e *catalogue.Entry) { e.Timeout += time.Second },
		"its probe's":   func(e *catalogue.Entry) { e.ProbeTimeout += time.Second },
		"the output":    func(e *catalogue.Entry) { e.Output-- },
		"the class":     func(e *catalogue.Entry) { e.Benign = true },
		"a parameter":   func(e *catalogue.Entry) { e.Params = map[string]catalogue.Param{"p": anyText(10)} },
	} {
		e := original
		change(&e)
		b.entries["does"] = e
		other(what, b.look(op.At(target("does"))).Incarnation)
	}
	if !b.own {
		e := original
		e.User = "daemon"
		b.entries["does"] = e
		other("the user", b.look(op.At(target("does"))).Incarnation)
	}
	b.entries["does"] = original
	b.script("does", script("echo two"))
	other("the script", b.look(op.At(target("does"))).Incarnation)
	b.script("does", "#!"+interpreter+" -e\necho one")
	other("the interpreter's option", b.look(op.At(target("does"))).Incarnation)
	b.script("does", script("echo one"))
	b.script("probe", script("echo other"))
	other("the probe's script", b.look(op.At(target("does"))).Incarnation)
	b.script("probe", script("echo probe"))
	require.Equal(t, was.Incarnation, b.look(op.At(target("does"))).Incarnation)
	f := must.Get(os.OpenFile(interpreter, os.O_WRONLY|os.O_APPEND, 0))(t)
	must.Get(f.WriteString("\x00"))(t)
	require.NoError(t, f.Close())
	other("the interpreter", b.look(op.At(target("does"))).Incarnation)
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content := must.Get(os.ReadFile(from))(t)
	require.NoError(t, os.WriteFile(to, content, 0o755))
}

// The fingerprint covers the words, the probe's output, and how the probe ended.
func TestTheFingerprintCoversWhatIsSeen(t *testing.T) {
	b := newBench(t)
	says := func(text string) { require.NoError(t, os.WriteFile(b.path("says"), []byte(text), 0o644)) }
	b.script("probe", "#!/bin/sh\ncat "+b.path("says")+"\n[ ! -e "+b.path("fails")+" ]\n")
	b.entry("does", []string{"/bin/true", "{p}"}, func(e *catalogue.Entry) {
		e.Probe = []string{b.path("probe")}
		e.Params["p"] = anyText(9)
	})
	says("3 tables\n12 rows\n")
	was := b.look(asking("does", "p", "x"))
	require.Equal(t, "3 tables\n12 rows", fact(was, "probe says"))
	require.Equal(t, was, b.look(asking("does", "p", "x")))
	require.NotEqual(t, was.Fingerprint, b.look(asking("does", "p", "y")).Fingerprint, "a parameter")
	says("3 tables\n13 rows\n")
	require.NotEqual(t, was.Fingerprint, b.look(asking("does", "p", "x")).Fingerprint, "the probe's output")
	says("3 tables\n12 rows\n")
	require.Equal(t, was.Fingerprint, b.look(asking("does", "p", "x")).Fingerprint)
	require.NoError(t, os.WriteFile(b.path("fails"), nil, 0o644))
	failing := b.look(asking("does", "p", "x"))
	require.NotEqual(t, was.Fingerprint, failing.Fingerprint, "its exit status")
	require.Equal(t, "exit status 1", fact(failing, "probe ended with"))
	require.Equal(t, was.Incarnation, failing.Incarnation)
}

// The fingerprint covers which directory a path names, because another one can get the name. A file may be another one.
func TestTheFingerprintCoversADirectory(t *testing.T) {
	b := newBench(t)
	for _, dir := range []string{"work/a", "work/b"} {
		require.NoError(t, os.Mkdir(b.path(dir), 0o755))
	}
	b.entry("empty", []string{"/bin/true", "{p}"}, func(e *catalogue.Entry) {
		e.Params = map[string]catalogue.Param{"p": {Type: catalogue.Path, Below: b.path("work")}}
	})
	was := b.look(asking("empty", "p", "a"))
	require.Contains(t, fact(was, "path"), "p is the directory with inode ")
	require.NoError(t, os.WriteFile(b.path("work/a/f"), nil, 0o644))
	require.Equal(t, was, b.look(asking("empty", "p", "a")), "what is in it is for the probe")
	require.NoError(t, unix.Renameat2(unix.AT_FDCWD, b.path("work/a"), unix.AT_FDCWD, b.path("work/b"), unix.RENAME_EXCHANGE))
	now := b.look(asking("empty", "p", "a"))
	require.NotEqual(t, was.Fingerprint, now.Fingerprint)
	require.NotEqual(t, fact(was, "path"), fact(now, "path"), "the operator is told what differs")

	file := b.look(asking("empty", "p", "b/f"))
	require.NoError(t, os.WriteFile(b.path("work/new"), nil, 0o644))
	require.NoError(t, os.Rename(b.path("work/new"), b.path("work/b/f")))
	require.Equal(t, file, b.look(asking("empty", "p", "b/f")))
	require.Contains(t, fact(file, "path"), "p is in the directory with inode ")
	exchange := func() {
		t.Helper()
		require.NoError(t, unix.Renameat2(unix.AT_FDCWD, b.path("work/a"), unix.AT_FDCWD, b.path("work/b"), unix.RENAME_EXCHANGE))
	}
	missing := b.look(asking("empty", "p", "b/none"))
	exchange()
	require.NoError(t, os.WriteFile(b.path("work/b/f"), nil, 0o644))
	require.NotEqual(t, file.Fingerprint, b.look(asking("empty", "p", "b/f")).Fingerprint, "the directory that a file is in")
	require.NotEqual(t, missing.Fingerprint, b.look(asking("empty", "p", "b/none")).Fingerprint, "the directory that the command would make a file in")
	exchange()
	require.Equal(t, file, b.look(asking("empty", "p", "b/f")))

	// A directory that is made right after another one was removed may get its inode.
	gone := b.look(asking("empty", "p", "a"))
	require.NoError(t, os.RemoveAll(b.path("work/a")))
	require.NoError(t, os.Mkdir(b.path("work/a"), 0o755))
	require.NotEqual(t, gone.Fingerprint, b.look(asking("empty", "p", "a")).Fingerprint, "one that was made since")

	b.entry("here", []string{"/bin/true"}, nil)
	here := b.look(asking("here"))
	require.NoError(t, os.Mkdir(b.path("other"), 0o755))
	require.NoError(t, unix.Renameat2(unix.AT_FDCWD, b.path("work"), unix.AT_FDCWD, b.path("other"), unix.RENAME_EXCHANGE))
	require.NotEqual(t, here.Fingerprint, b.look(asking("here")).Fingerprint, "the directory in which it runs")
}

// The facts say which program runs where and as which user. They show a probe's output
// unchanged.
func TestFacts(t *testing.T) {
	b := newBench(t)
	b.script("probe", "#!/bin/sh\nprintf 'a\\033[2Jb\\tc\\r\\n\\377\\n'\n")
	b.entry("does", []string{"/bin/true", "{p}"}, func(e *catalogue.Entry) {
		e.Probe = []string{b.path("probe")}
		e.Params["p"] = anyText(9)
		e.Env = map[string]string{"B": "hidden", "A": "hidden"}
	})
	o := b.look(asking("does", "p", "a b'c"))
	require.Equal(t, `/bin/true 'a b'\''c'`, fact(o, "runs"))
	require.Equal(t, "a\\x1b[2Jb    c\n\\xff", fact(o, "probe says"))
	require.Equal(t, "A, B and nothing else", fact(o, "environment"))
	require.Equal(t, b.path("work"), fact(o, "in"))
	require.Contains(t, fact(o, "program"), "/bin/true")
	require.Contains(t, fact(o, "program"), "sha256:")
	require.Contains(t, fact(o, "probe is read by"), "/bin/sh")
	require.Equal(t, "cannot be undone", fact(o, "undo"))
	for _, f := range o.Facts {
		require.NoError(t, op.CheckText(f.Name, strings.ReplaceAll(f.Text, "\n", "")), "several lines are shown line by line")
		require.NotContains(t, f.Text, "hidden")
	}
	declared := b.look(op.At(target("does")))
	require.Equal(t, "/bin/true {p}", fact(declared, "runs"))
	require.NotEmpty(t, fact(declared, "parameter p"))
	absent := b.look(op.At(target("nothing")))
	require.False(t, absent.Present)
	must.Fail(b.Observe(t.Context(), op.At(op.Target{Kind: "guest", Name: "does"})))(t, refusal.UnknownTarget)
}
