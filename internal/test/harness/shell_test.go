package harness_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// line is a line of a shell that patches one file below held/, which another agent holds.
type line struct {
	name string
	text string
	file string
	args map[string]any // of the call, beside the line
}

// patchOf is a command that patches a file in the shell's directory. quoted are the quotes of the heredoc's word.
func patchOf(path, quoted string) string {
	return "apply_patch <<" + quoted + "EOF" + quoted + "\n" + envelope(update(path)) + "EOF\n"
}

// freePatch is a command that makes a file which no agent holds.
func freePatch(path string) string { return "apply_patch <<'EOF'\n" + envelope(add(path)) + "EOF\n" }

// lines are literal: their text alone says which file they patch.
var lines = []line{
	{name: "cd", text: "cd held && " + patchOf("cd.txt", "'"), file: "cd.txt"},
	{name: "the call's own directory", text: patchOf("workdir.txt", "'"), file: "workdir.txt",
		args: map[string]any{"workdir": "held"}},
	{name: "pushd", text: "pushd held && " + patchOf("pushd.txt", "'"), file: "pushd.txt"},
	{name: "cd -P", text: "cd -P held && " + patchOf("cd-p.txt", "'"), file: "cd-p.txt"},
	{name: "cd to a directory in quotes", text: `cd "held"/sub && ` + patchOf("quotes.txt", "'"),
		file: "sub/quotes.txt"},
	{name: "cd with redirections", text: "cd held 2>/dev/null >&2 && " + patchOf("redirected.txt", "'"),
		file: "redirected.txt"},
	{name: "cd in an if", text: "if cd held; then\n" + patchOf("if.txt", "'") + "fi", file: "if.txt"},
	{name: "a second patch after a cd", text: freePatch("free-1.txt") + "cd held && " + patchOf("second.txt", "'"),
		file: "second.txt"},
	{name: "a second patch after a cd, in a login shell",
		text: freePatch("free-2.txt") + "cd held && " + patchOf("login.txt", "'"), file: "login.txt",
		args: map[string]any{"login": true}},
	{name: "bash -c", text: `bash -c "cd held && ` + patchOf("bash.txt", "'") + `"`, file: "bash.txt"},
	{name: "env -C", text: "env -C held " + patchOf("env.txt", "'"), file: "env.txt"},
	{name: "a file of a name that a shell would expand, and a held one",
		text: "apply_patch <<EOF\n" + envelope(add(`odd\$name`)+update("held/odd.txt")) + "EOF\n", file: "odd.txt"},
	{name: "a header in two lines", text: ":; apply_patch <<EOF\n" + envelope(add("free-3.txt")+
		"*** Upd\\\nate File: held/header.txt\n@@\n-"+before+"\n+"+after+"\n") + "EOF\n", file: "header.txt"},
	{name: "the argument of codex --codex-run-as-apply-patch",
		text: "codex --codex-run-as-apply-patch '" + envelope(update("held/argument.txt")) + "'", file: "argument.txt"},
}

// unclear are lines whose files only the shell knows. A hook with --on-failure block refuses them.
var unclear = []line{
	{name: "cd to the home", text: "HOME=$PWD/held; cd && " + patchOf("home.txt", "'"), file: "home.txt"},
	{name: "a variable in the patch, after a heredoc in quotes",
		text: "F=held/variable.txt\ncat <<'X' >/dev/null\nX\n" + patchOf("$F", ""), file: "variable.txt"},
}

// TestShellLines has Codex run lines that patch a file which another agent holds. Each has to be refused.
func TestShellLines(t *testing.T) {
	names := map[string]bool{}
	for _, l := range slices.Concat(lines, unclear) {
		require.False(t, names[l.file], l.name)
		names[l.file] = true
	}
	if !*products {
		return
	}
	g := newGate(t)
	t.Run("literal", func(t *testing.T) { refuses(t, g, lines, held, "another agent has reserved") })
	t.Run("unclear", func(t *testing.T) { refuses(t, g, unclear, blocks, "nothing was changed") })
}

// refuses runs Codex with one call for each line, and looks at the held files. words are told of each refusal.
func refuses(t *testing.T, g *gate, lines []line, when condition, words string) {
	p := codex()
	w := newWorld(t, g, p.speaks, nil)
	require.NoError(t, os.MkdirAll(filepath.Join(w.repo, "held", "sub"), 0o700))
	for i, l := range lines {
		c := codexShell(l.text)
		c.id, c.args["login"] = fmt.Sprintf("call-%d", i), false // a login shell has another PATH, without apply_patch
		for name, value := range l.args {
			c.args[name] = value
		}
		w.model.script = append(w.model.script, c)
		put(t, w.repo, map[string]string{filepath.Join("held", l.file): before + "\n"})
	}
	put(t, w.home, p.files(w))
	w.install(t, p, when)
	w.holds(t, "held/**")
	printed := w.product(t, p)
	if *verbose {
		t.Logf("%s printed:\n%s", p.name, printed)
	}
	for i, l := range lines {
		t.Run(l.name, func(t *testing.T) {
			said := w.model.said(t, fmt.Sprintf("call-%d", i))
			require.Equal(t, before+"\n", string(must.Get(os.ReadFile(filepath.Join(w.repo, "held", l.file)))(t)), said)
			require.Contains(t, said, words)
		})
	}
}
