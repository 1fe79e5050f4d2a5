package doctor

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/test/must"
)

// hostile is a patient in whose checkout an agent has written what it likes. What
// runs anything of it leaves a file.
type hostile struct {
	*patient
	ran     string
	program string // gated, which works
	leaves  string // for sh: makes ran
}

func newHostile(t *testing.T) *hostile {
	p := newPatient(t)
	h := &hostile{patient: p, ran: filepath.Join(t.TempDir(), "ran")}
	h.leaves = "touch " + h.ran
	h.program = p.program(judge + "exit 2\n")
	return h
}

// script makes a program that leaves the file.
func (h *hostile) script(path string) string {
	h.t.Helper()
	require.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(h.t, os.WriteFile(path, []byte("#!/bin/sh\n"+h.leaves+"\nexit 2\n"), 0o755))
	return path
}

// line writes settings that have one line.
func (h *hostile) line(text string) {
	h.t.Helper()
	quoted := must.Get(json.Marshal(text))(h.t)
	h.settings(`{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":` + string(quoted) + `}]}]}}`)
}

// TestNoLineOfAFileIsRun: a line that begins like ours ran as root.
func TestNoLineOfAFileIsRun(t *testing.T) {
	h := newHostile(t)
	evil := h.script(filepath.Join(t.TempDir(), "bin", "gated"))
	for i, v := range h.env {
		if path, ok := strings.CutPrefix(v, "PATH="); ok {
			h.env[i] = "PATH=" + filepath.Dir(evil) + ":" + path
		}
	}
	h.Env = h.env
	ours := h.program + " hook pre-tool-use --on-failure warn"
	for _, line := range []string{
		ours + "; " + h.leaves,
		ours + " && " + h.leaves,
		ours + " | " + h.leaves,
		ours + " & " + h.leaves,
		ours + "\n" + h.leaves,
		ours + " $(" + h.leaves + ")",
		ours + " `" + h.leaves + "`",
		ours + " --socket '/s'$(" + h.leaves + ")",
		ours + " --socket /s;" + h.leaves,
		ours + " --socket /s --socket '/s'\n" + h.leaves,
		ours + " --socket=/s;" + h.leaves,
		ours + " # ' ; " + h.leaves,
		ours + " '",
		ours + " ",
		"\t" + ours,
		"'" + h.program + "' hook pre-tool-use --on-failure warn",
		h.program + " hook pre-tool-use",
		h.program + " hook pre-tool-use; " + h.leaves,
		h.program + " hook pre-tool-use --on-failure 'warn; " + h.leaves + "'",
		h.program + " hook pre-tool-use --on-failure warn --deadline 1s;" + h.leaves,
		h.program + "$(" + h.leaves + ") hook pre-tool-use --on-failure warn",
		"gated hook pre-tool-use --on-failure warn",
		"gated hook pre-tool-use;" + h.leaves,
		"gated; " + h.leaves + " hook pre-tool-use --on-failure warn",
		"PATH=" + filepath.Dir(evil) + " gated hook pre-tool-use --on-failure warn",
		"./gated hook pre-tool-use --on-failure warn",
		evil + " hook pre-tool-use --on-failure warn",
		"'" + evil + "' hook pre-tool-use --on-failure warn",
		filepath.Join(filepath.Dir(h.program), "..", "gated") + " hook pre-tool-use --on-failure warn",
	} {
		h.line(line)
		r := h.examine()
		require.NoFileExists(t, h.ran, "%q", line)
		for _, tool := range []string{" Edit", " Write"} {
			require.Empty(t, r.of(tool), "%q was not tried", line)
		}
		require.NotEqual(t, OK, r.of(whatTools).State, "%q", line)
	}
	h.line(ours)
	r := h.examine()
	require.Equal(t, OK, r.of(" Edit").State, "%+v", r.Findings)

	// What a line hands over is an argument and nothing else.
	h.line(ours + ` --socket '/s; ` + h.leaves + `'`)
	r = h.examine()
	require.NoFileExists(t, h.ran)
	require.Equal(t, "/s; "+h.leaves, r.of(" Edit").Setup.Socket)

	// By another name it is this program still.
	link := filepath.Join(t.TempDir(), "gated-link")
	require.NoError(t, os.Symlink(h.program, link))
	h.line(link + " hook pre-tool-use --on-failure warn")
	require.Equal(t, OK, h.examine().of(" Edit").State)
}

// TestNoScriptOfAFileIsRun, be its digest right: anybody can write one.
func TestNoScriptOfAFileIsRun(t *testing.T) {
	h := newHostile(t)
	h.installGit(h.program)
	path := filepath.Join(h.dir, ".git/hooks/pre-commit")
	good := must.Get(os.ReadFile(path))(t)
	const marker = "# gated hook script v1 sha256:"
	head, rest, found := strings.Cut(string(good), marker)
	require.True(t, found)
	_, body, _ := strings.Cut(rest, "\n")
	forged := func(body string) string {
		sum := sha256.Sum256([]byte(body))
		return head + marker + hex.EncodeToString(sum[:]) + "\n" + body
	}
	require.Equal(t, string(good), forged(body))
	evil := h.script(filepath.Join(t.TempDir(), "gated"))
	for name, text := range map[string]string{
		"a command before":      forged(h.leaves + "\n" + body),
		"a command in the line": forged(strings.Replace(body, "exec ", h.leaves+"; exec ", 1)),
		"a command at its end":  forged(strings.TrimSuffix(body, "\n") + "; " + h.leaves + "\n"),
		"another program":       forged(strings.ReplaceAll(body, h.program, evil)),
		"another program once":  forged(strings.Replace(body, "exec "+h.program, "exec "+evil, 1)),
		"an old one":            forged(strings.Replace(body, "exit $?", "exit 1", 1)),
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o755))
		r := h.examine()
		require.NoFileExists(t, h.ran, name)
		require.Equal(t, Bad, r.of("git pre-commit").State, name)
		require.False(t, r.Sound, name)
	}
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink(evil, path))
	r := h.examine()
	require.NoFileExists(t, h.ran)
	require.Equal(t, Note, r.of("git pre-commit").State, "not gated's")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.WriteFile(path, good, 0o755))
	require.Equal(t, OK, h.examine().of("git pre-commit").State)
}

// plant has git's configuration of the checkout name a program for everything that
// git ever runs one for.
func (h *hostile) plant() {
	h.t.Helper()
	evil := h.script(filepath.Join(h.dir, "evil"))
	hooks := filepath.Join(h.dir, ".git", "hooks")
	for _, name := range []string{"post-index-change", "reference-transaction", "fsmonitor-watchman", "post-checkout", "post-commit", "pre-auto-gc", "query-watchman"} {
		h.script(filepath.Join(hooks, name))
	}
	for _, kv := range [][2]string{
		{"core.fsmonitor", evil}, {"core.pager", evil}, {"core.editor", evil}, {"core.sshCommand", evil}, {"core.gitProxy", evil},
		{"core.alternateRefsCommand", evil}, {"core.askPass", evil}, {"diff.external", evil}, {"diff.x.command", evil}, {"diff.x.textconv", evil},
		{"filter.x.clean", evil}, {"filter.x.smudge", evil}, {"filter.x.process", evil}, {"filter.x.required", "true"}, {"merge.x.driver", evil},
		{"gpg.program", evil}, {"commit.gpgSign", "true"}, {"credential.helper", "!" + evil}, {"alias.rev-parse", "!" + evil}, {"alias.hash-object", "!" + evil},
		{"pager.config", evil}, {"pager.rev-parse", evil}, {"uploadpack.packObjectsHook", evil}, {"trace2.eventTarget", filepath.Join(h.dir, "trace")},
		{"remote.origin.url", "ext::" + evil}, {"remote.origin.promisor", "true"}, {"protocol.ext.allow", "always"}, {"core.untrackedCache", "true"},
		{"remote.origin.uploadpack", evil}, {"gc.auto", "1"}, {"sequence.editor", evil}, {"interactive.diffFilter", evil},
	} {
		h.git("config", kv[0], kv[1])
	}
	more := filepath.Join(h.dir, "more")
	require.NoError(h.t, os.WriteFile(more, []byte("[core]\n\tfsmonitor = "+evil+"\n\thooksPath = "+hooks+"\n[extensions]\n\tpartialClone = origin\n"), 0o644))
	h.git("config", "include.path", more)
	require.NoError(h.t, os.WriteFile(filepath.Join(h.dir, ".gitattributes"), []byte("* filter=x diff=x merge=x\n"), 0o644))
	require.NoError(h.t, os.RemoveAll(h.ran)) // git config itself may have run some
}

// TestGitsConfigurationRunsNothing, whatever the checkout's and the environment's
// say. The program that stands for gated asks git as gated's hooks do.
func TestGitsConfigurationRunsNothing(t *testing.T) {
	h := newHostile(t)
	require.NoError(t, os.WriteFile(filepath.Join(h.dir, "a"), nil, 0o600))
	h.git("add", "a")
	h.git("commit", "-qm", "base")
	h.installGit(h.program)
	h.plant()
	evil := filepath.Join(h.dir, "evil")
	exec := filepath.Dir(h.script(filepath.Join(t.TempDir(), "git-rev-parse")))
	h.Env = append(h.env, "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=core.fsmonitor", "GIT_CONFIG_VALUE_0="+evil, "GIT_EXTERNAL_DIFF="+evil,
		"GIT_EXEC_PATH="+exec, "GIT_SSH="+evil, "GIT_SSH_COMMAND="+evil, "GIT_PAGER="+evil, "GIT_EDITOR="+evil, "GIT_ASKPASS="+evil,
		"GIT_PROXY_COMMAND="+evil, "GIT_TRACE="+h.ran, "GIT_CONFIG_PARAMETERS='core.fsmonitor="+evil+"'", "GIT_ALTERNATE_OBJECT_DIRECTORIES=/nowhere")
	r := h.examine()
	require.NoFileExists(t, h.ran)
	require.NoFileExists(t, filepath.Join(h.dir, "trace"))
	require.Equal(t, OK, r.of("git pre-commit").State, "%+v", r.Findings)
	require.Equal(t, OK, r.of("git pre-push").State, "%+v", r.Findings)
}

// TestACheckoutOfOthersIsNotRead, in whichever way it is theirs to write to.
func TestACheckoutOfOthersIsNotRead(t *testing.T) {
	chmod := func(name string, mode os.FileMode) func(*hostile) {
		return func(h *hostile) { require.NoError(h.t, os.Chmod(filepath.Join(h.dir, name), mode)) }
	}
	give := func(name string) func(*hostile) {
		return func(h *hostile) {
			if os.Geteuid() != 0 {
				h.t.Skip("only root can give files away")
			}
			require.NoError(h.t, os.Lchown(filepath.Join(h.dir, name), 4242, -1))
		}
	}
	for name, spoil := range map[string]func(*hostile){
		"its directory is open":               chmod("", 0o777),
		"its directory is its group's":        chmod("", 0o775),
		"its directory is another's":          give(""),
		"the one above is open":               chmod("..", 0o777),
		"the repository is open":              chmod(".git", 0o777),
		"the repository is another's":         give(".git"),
		"the configuration is open":           chmod(".git/config", 0o666),
		"the configuration is another's":      give(".git/config"),
		"the configuration is its group's":    chmod(".git/config", 0o664),
		"HEAD is open":                        chmod(".git/HEAD", 0o666),
		"the repository is a link to another": func(h *hostile) { h.linkTo(".git") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t)
			h.installGit(h.program)
			h.line(h.program + " hook pre-tool-use --on-failure warn")
			h.plant()
			h.has = []api.Backend{{Name: "local", State: api.BackendOK, Findings: []api.Finding{{What: "root", State: "ok"}}}}
			spoil(h)
			r := h.Run(t.Context())
			require.NoFileExists(t, h.ran)
			require.Equal(t, Note, r.of(whatCheckout).State)
			require.Contains(t, r.of(whatCheckout).Detail, "read nothing of this checkout")
			require.Equal(t, OK, r.of("local: root").State, "the back ends are looked at all the same")
			require.Empty(t, r.of("git pre-commit"))
			require.Empty(t, r.of(" Edit"))
			require.Empty(t, r.of(whatTools))
			require.Empty(t, h.reserved, "there was nothing to try")
		})
	}
}

// linkTo moves a path into a directory that others may write to, and leaves a link.
func (h *hostile) linkTo(name string) {
	h.t.Helper()
	open := h.t.TempDir()
	require.NoError(h.t, os.Chmod(open, 0o777))
	require.NoError(h.t, os.Rename(filepath.Join(h.dir, name), filepath.Join(open, "moved")))
	require.NoError(h.t, os.Symlink(filepath.Join(open, "moved"), filepath.Join(h.dir, name)))
}

// TestFilesOfOthersAreNotRead in a checkout of one's own: settings, hooks and the
// configuration of the user that the environment names.
func TestFilesOfOthersAreNotRead(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(h *hostile)
		what  string
	}{
		"settings": {func(h *hostile) { require.NoError(h.t, os.Chmod(h.Settings[0].Path, 0o666)) }, whatTools},
		"the settings' directory": {func(h *hostile) {
			dir := filepath.Join(h.dir, ".claude")
			require.NoError(h.t, os.Mkdir(dir, 0o755))
			require.NoError(h.t, os.Rename(h.Settings[0].Path, filepath.Join(dir, "settings.json")))
			require.NoError(h.t, os.Chmod(dir, 0o777))
			h.Settings[0].Path = filepath.Join(dir, "settings.json")
		}, whatTools},
		"settings by a link":   {func(h *hostile) { h.linkTo("settings.json") }, whatTools},
		"the hooks' directory": {func(h *hostile) { require.NoError(h.t, os.Chmod(filepath.Join(h.dir, ".git/hooks"), 0o777)) }, whatGit},
		"a hook":               {func(h *hostile) { require.NoError(h.t, os.Chmod(filepath.Join(h.dir, ".git/hooks/pre-push"), 0o777)) }, whatGit},
		"hooks elsewhere": {func(h *hostile) {
			dir := h.t.TempDir()
			require.NoError(h.t, os.Chmod(dir, 0o777))
			h.git("config", "core.hooksPath", dir)
		}, whatGit},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHostile(t)
			h.installGit(h.program)
			h.line(h.program + " hook pre-tool-use --on-failure warn")
			c.spoil(h)
			r := h.examine()
			require.False(t, r.Sound)
			f := r.of(c.what)
			require.Equal(t, Bad, f.State)
			require.Contains(t, f.Detail, "was not read, because other users could have written it: ")
			require.Contains(t, f.Hint, "chmod go-w ")
		})
	}
	h := newHostile(t)
	h.installGit(h.program)
	evil := h.script(filepath.Join(h.dir, "evil"))
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[core]\n\thooksPath = /nowhere\n\tfsmonitor = "+evil+"\n"), 0o666))
	require.NoError(t, os.Chmod(filepath.Join(home, ".gitconfig"), 0o666))
	h.Env = append(h.env, "HOME="+home)
	h.Env = h.Env[1:] // of two, getenv(3) sees the first
	for i, v := range h.Env {
		if strings.HasPrefix(v, "HOME=") && v != "HOME="+home {
			h.Env[i] = "HOME=" + home
		}
	}
	h.Env = append(h.Env, h.env[0])
	require.Equal(t, OK, h.examine().of("git pre-commit").State, "that configuration does not count")
	require.NoFileExists(t, h.ran)
}
