package main

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// tourRest are lines of the tour that its story cannot have as they are: it has a
// state directory and a socket of its own, and ends the daemon otherwise.
var tourRest = regexp.MustCompile(`^(export GATED_SOCKET=|gated (init|serve)|echo |rm -r |EOF$|cat > )`)

// TestTheTourIsWhatItsStoryRuns: every line to type of README's tour is in the
// story.
func TestTheTourIsWhatItsStoryRuns(t *testing.T) {
	page := must.Get(os.ReadFile("../../README.md"))(t)
	_, tour, found := strings.Cut(string(page), "\n## Five minutes\n")
	require.True(t, found)
	tour, _, _ = strings.Cut(tour, "\n## ")
	story := must.Get(os.ReadFile("testdata/script/readme.txtar"))(t)
	run := strings.NewReplacer(" --state $STATE", "", "$HOME/.ssh", "~/.ssh", " || waits=$?", "").Replace(string(story))
	lines := 0
	for line := range strings.SplitSeq(tour, "\n") {
		text, indented := strings.CutPrefix(line, "    ")
		text, _, _ = strings.Cut(text, "  #")
		if text = strings.TrimSpace(text); !indented || tourRest.MatchString(text) {
			continue
		}
		require.Contains(t, run, text)
		lines++
	}
	require.Greater(t, lines, 20)
}

// TestGuidesMakeDirectoriesOfTheirOwn: where the user's umask lets a group write,
// a directory for a gate has to be made for its owner alone.
func TestGuidesMakeDirectoriesOfTheirOwn(t *testing.T) {
	for _, name := range []string{"several-agents", "people", "certificates"} {
		page := must.Get(os.ReadFile("../../docs/guides/" + name + ".md"))(t)
		require.Regexp(t, `(?m)^    mkdir -m 700 [a-z]+ && cd `, string(page), name)
		require.NotRegexp(t, `(?m)^    mkdir [a-z]+ && cd `, string(page), name)
	}
}

// TestPackagesOfOneMachine: README's line builds the one package, and make packages alone builds all of them.
func TestPackagesOfOneMachine(t *testing.T) {
	const one = "packages ARCH=amd64 FORM=deb"
	require.Contains(t, string(must.Get(os.ReadFile("../../README.md"))(t)), "`make "+one+"`")
	for args, want := range map[string]string{"packages": "build.sh", one: "build.sh -archs 'amd64' -formats 'deb'"} {
		cmd := exec.Command("make", append([]string{"-n", "--no-print-directory", "GO=go"}, strings.Fields(args)...)...)
		cmd.Dir, cmd.Env = "../..", append(os.Environ(), "MAKEFLAGS=", "ARCH=", "FORM=")
		lines := strings.Split(strings.TrimSpace(string(must.Get(cmd.Output())(t))), "\n")
		_, does, _ := strings.Cut(lines[len(lines)-1], "/contrib/packaging/")
		require.Equal(t, want, strings.TrimSpace(does), args)
	}
}
