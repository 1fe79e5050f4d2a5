package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
	"gated/internal/test/programs"
)

// screensDir has a screenshot of each screen, as docs/guides/approving.md shows them.
const screensDir = "../../docs/screens"

// A screen is what a command shows on a terminal of 80 columns and 24 rows.
var screens = []struct {
	name, command string
	until         string // what ends the screen
}{
	{name: "list", command: "opsign list"},
	{name: "show", command: "opsign show j4.1"},
	{name: "approve", command: "opsign approve j4.1", until: "Type yes:"},
	{name: "review", command: "opsign review", until: "? help"},
	{name: "status", command: "gated status"},
	{name: "guests", command: "gated guests"},
	{name: "watch", command: "gated status --watch", until: "Ctrl-C ends"},
}

// tour is what is typed on one terminal, and the answer to its question.
const (
	tour = `gated submit guest.create blog --wait
echo "cannot be made again" > ~/.local/state/gated/guests/blog/data/notes
gated submit guest.destroy blog --reason "the project is over"
opsign approve j7.1
gated submit guest.undelete blog --wait`
	tourAnswer = "yes"
)

// TestScreens compares what is on the screen with the screenshots. GATED_SCREENS=write
// makes them anew.
func TestScreens(t *testing.T) {
	for _, name := range []string{"tmux", "ssh-keygen"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	s := newStage(t)
	for _, c := range screens {
		compare(t, c.name, s.shot(c.name, 24, "printf '$ "+c.command+"\\n'; "+c.command, c.until, ""))
	}
	script := ""
	for line := range strings.SplitSeq(tour, "\n") {
		script += "printf '%s\\n' '$ " + line + "'\n" + line + "\n"
	}
	file := filepath.Join(s.dir, "tour.sh")
	require.NoError(t, os.WriteFile(file, []byte(script), 0o600))
	compare(t, "tour", s.shot("tour", 60, "sh "+file, "", tourAnswer))
}

const howToWrite = "if it is meant: GATED_SCREENS=write go test ./cmd/opsign -run TestScreens"

// compare fails the test unless a screen is the screenshot of that name.
func compare(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join(screensDir, name+".txt")
	if os.Getenv("GATED_SCREENS") == "write" {
		require.NoError(t, os.MkdirAll(screensDir, 0o755))
		require.NoError(t, os.WriteFile(file, []byte(masked(got)), 0o644))
		if title := pictures[name]; title != "" {
			require.NoError(t, os.WriteFile(filepath.Join(screensDir, name+".svg"), []byte(picture(title, masked(got))), 0o644))
		}
	}
	want := must.Get(os.ReadFile(file))(t)
	require.Equal(t, flat(string(want)), flat(masked(got)), "%s; %s", file, howToWrite)
	for line := range strings.Lines(got) {
		require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), 80, line)
	}
}

// stage is a gate with three guests and two requests, and a tmux of its own.
type stage struct {
	t   *testing.T
	dir string
	env []string
}

func newStage(t *testing.T) *stage {
	dir, err := os.MkdirTemp("/tmp", "gs") // a socket's path is short
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	home := filepath.Join(dir, "home")
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".ssh"), 0o700))
	s := &stage{t: t, dir: dir, env: append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home, "XDG_CONFIG_HOME="+home,
		"GATED_SOCKET="+filepath.Join(dir, "s"), "PATH="+dir+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8", "SSH_AUTH_SOCK=", "NO_COLOR=1")}
	require.NoError(t, programs.Into(dir, "gated", "opsign"))
	s.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "alice@example.com", "-f", home+"/.ssh/id_ed25519")
	state := filepath.Join(dir, "state")
	s.run("gated", "init", "--state", state, "--host", "pve1", "--operator", home+"/.ssh/id_ed25519.pub")
	require.NoError(t, os.MkdirAll(home+"/.local/state", 0o700))
	require.NoError(t, os.Symlink(state, home+"/.local/state/gated")) // as README's tour has it
	s.serve(state)
	// The same name on each machine, in the place of the uid.
	s.run("gated", "agent", "register", "builder", "--pid", strconv.Itoa(os.Getpid()))
	for _, name := range []string{"web", "db", "cache"} {
		s.run("gated", "submit", "guest.create", name, "-p", "memory=512MiB", "-p", "labels.tier=prod", "--wait")
	}
	require.NoError(t, os.WriteFile(filepath.Join(state, "guests", "web", "data", "notes.txt"), []byte("cannot be made again\n"), 0o600))
	s.waits("gated", "submit", "guest.destroy", "web", "--reason", "the project is over")
	s.waits("gated", "submit", "guest.wipe", "db", "--reason", "a fresh start")
	s.run("opsign", "list") // the gate is met, and is not met on a screen
	s.tmux("new-session", "-d", "-s", "first", "cat")
	t.Cleanup(func() { s.tmux("kill-server") })
	return s
}

// serve runs the daemon until the test ends.
func (s *stage) serve(state string) {
	daemon := exec.Command(filepath.Join(s.dir, "gated"), "serve", "--state", state)
	daemon.Env = s.env
	require.NoError(s.t, daemon.Start())
	s.t.Cleanup(func() {
		require.NoError(s.t, daemon.Process.Signal(os.Interrupt))
		require.NoError(s.t, daemon.Wait())
	})
	require.Eventually(s.t, func() bool { return s.command("gated", "status").Run() == nil }, 30*time.Second, 20*time.Millisecond)
}

// command is a program of the stage, or of the machine.
func (s *stage) command(name string, args ...string) *exec.Cmd {
	if own := filepath.Join(s.dir, name); name == "gated" || name == "opsign" {
		name = own
	}
	cmd := exec.Command(name, args...)
	cmd.Env = s.env
	return cmd
}

func (s *stage) run(name string, args ...string) string {
	s.t.Helper()
	out, err := s.command(name, args...).CombinedOutput()
	require.NoError(s.t, err, "%s %s: %s", name, strings.Join(args, " "), out)
	return string(out)
}

// waits runs a command that ends with exit code 3: it waits for a signature.
func (s *stage) waits(name string, args ...string) {
	s.t.Helper()
	cmd := s.command(name, args...)
	out, err := cmd.CombinedOutput()
	require.Error(s.t, err)
	require.Equal(s.t, 3, cmd.ProcessState.ExitCode(), "%s", out)
}

// tmux has the stage's own server do something.
func (s *stage) tmux(args ...string) string {
	s.t.Helper()
	return s.run("tmux", append([]string{"-S", filepath.Join(s.dir, "t"), "-f", "/dev/null"}, args...)...)
}

// shot runs a command on a terminal of its own until its text is there, by default the
// next prompt, and returns the screen. If the command asks for yes, that is typed.
func (s *stage) shot(name string, rows int, command, until, answer string) string {
	if until == "" {
		until = "\n$"
	}
	s.tmux("new-session", "-d", "-s", name, "-x", "80", "-y", strconv.Itoa(rows), command+"; printf '$ '; exec cat")
	screen := ""
	require.Eventually(s.t, func() bool {
		screen = strings.TrimRight(s.tmux("capture-pane", "-p", "-t", name), "\n ")
		if answer != "" && strings.HasSuffix(screen, "Type yes:") {
			s.tmux("send-keys", "-t", name, answer, "Enter")
			answer = ""
		}
		return strings.HasSuffix(screen, until)
	}, 30*time.Second, 20*time.Millisecond, "%s", name)
	return screen + "\n"
}

// masks put the same in the place of what differs from run to run and from machine to
// machine, if it can be of the same length.
var masks = []struct {
	find *regexp.Regexp
	put  string
}{
	{regexp.MustCompile(`20\d\d-\d\d-\d\d([T ])\d\d:\d\d:\d\dZ`), "2026-03-04${1}05:06:07Z"},
	{regexp.MustCompile(`at \d\d:\d\d:\d\dZ`), "at 05:06:07Z"},
	{regexp.MustCompile(`\(\d+s\)`), "(1s)"},
	{regexp.MustCompile(`counts for 2[34]h(\d+m)?`), "counts for 24h"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "6c942eaa31f9023b8ffc25f84babfc96"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
	{regexp.MustCompile(`/tmp/gs\d+`), "/tmp/gate"},
	{regexp.MustCompile(`uid:\d+`), "uid:1000"},
	{regexp.MustCompile(`asked by (\S+ \(uid:1000\)|uid:1000)`), "asked by alice (uid:1000)"},
	{regexp.MustCompile(`policy [0-9a-f]{12}`), "policy 9f86d081884c"},
	{regexp.MustCompile(`(log at) \d+ [0-9a-f |\n]+\n(\d+ registered)`), "$1 14 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6\n      | c15b0f00a08\n$2"},
	// How guests are confined depends on the kernel and on the user.
	{regexp.MustCompile(`guests' (uid|landlock|seccomp)( +)(ok|none) .*(\n      \| .*)*`), "guests' $1${2}ok  as this machine has it"},
	{regexp.MustCompile(`limits: [^;]*;`), "limits: landlock, rlimit (not here: cgroup);"},
}

func masked(screen string) string {
	for _, m := range masks {
		screen = m.find.ReplaceAllString(screen, m.put)
	}
	return screen
}

// blanks is how a line was cut and how wide its columns are, which differ with the length
// of what is masked.
var blanks = regexp.MustCompile(`\n      \| |[ \n]+`)

func flat(screen string) string { return blanks.ReplaceAllString(screen, " ") }
