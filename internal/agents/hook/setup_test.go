package hook

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// TestInstallingAgainWeakensNothing: what is not said stays as it is, and what
// is changed is said.
func TestInstallingAgainWeakensNothing(t *testing.T) {
	r := newRepo(t)
	s := settings(t, "")
	strict := Setup{OnFailure: Block, Deadline: 2 * time.Second, Socket: "/run/a b/s"}
	o := r.options(program)
	o.OnFailure, o.Deadline, o.Socket = strict.OnFailure, strict.Deadline, strict.Socket
	require.Nil(t, r.install(o).Changes[0].Differs, "it was not there")
	strict.ExitCode = new(true)
	must.Get(s.Install(program, strict))(t)
	before := s.content(t) + content(t, r.hook("pre-commit")) + content(t, r.hook("pre-push"))
	require.Contains(t, before, "--on-failure block --deadline 2s --exit-code --socket '/run/a b/s'\"")

	again := GitOptions{Program: program, Env: r.env}
	require.Equal(t, []Action{Unchanged, Unchanged}, actions(r.install(again)))
	require.Equal(t, Change{Path: s.Path, Action: Unchanged}, s.install(t))
	require.NoError(t, os.Remove(r.hook("pre-push")))
	require.Equal(t, []Action{Unchanged, Created}, actions(r.install(again)), "they were installed together")
	require.Equal(t, before, s.content(t)+content(t, r.hook("pre-commit"))+content(t, r.hook("pre-push")))
	require.Contains(t, before, "exit 1 # block")

	// Another program, and nothing else.
	again.Program = "/opt/gated"
	require.Equal(t, []string{"program: /usr/bin/gated -> /opt/gated"}, r.install(again).Changes[1].Differs)
	require.Contains(t, content(t, r.hook("pre-push")), "--on-failure block --deadline 2s --socket '/run/a b/s' \"$@\"")

	// One thing is said, in both.
	again.OnFailure = Warn
	for _, c := range r.install(again).Changes {
		require.Equal(t, []string{"on-failure: block -> warn"}, c.Differs)
	}
	report, err := s.Install(program, Setup{OnFailure: Warn, Deadline: time.Second, ExitCode: new(false), Socket: "/s"})
	require.NoError(t, err)
	require.Equal(t, []string{"on-failure: block -> warn", "deadline: 2s -> 1s", "socket: /run/a b/s -> /s", "exit-code: on -> off"}, report.Changes[0].Differs)
	require.Contains(t, s.content(t), line+" --deadline 1s --socket /s\"")
	require.Contains(t, s.content(t), `"timeout": 7`)
}

// TestWhatWasWrittenByHand is kept as far as a hook would understand it, and said
// where it is not.
func TestWhatWasWrittenByHand(t *testing.T) {
	for command, want := range map[string]struct {
		line    string
		differs []string
	}{
		"gated hook pre-tool-use --on-failure=block --deadline=1s || true": {
			"--on-failure block --deadline 1s", []string{"program: gated -> /usr/bin/gated"}},
		program + " hook pre-tool-use --deadline 0s --on-failure maybe": {
			"--on-failure warn", []string{"on-failure: maybe -> warn", "deadline: 0s -> the default"}},
		program + ` hook pre-tool-use --socket "$HOME/s"`: {
			"--on-failure warn", []string{`socket: "\"$HOME/s\"" -> as the environment says`}},
		program + " hook pre-tool-use --exit-code=false --deadline": {"--on-failure warn", nil},
		program + " hook pre-tool-use":                              {"--on-failure warn", nil},
	} {
		s := settings(t, `{"hooks":{"PreToolUse":[{"matcher":"*","hooks":[{"type":"command","command":"`+strings.ReplaceAll(command, `"`, `\"`)+`"}]}]}}`)
		require.Equal(t, want.differs, s.install(t).Differs, command)
		require.Contains(t, s.content(t), program+" hook pre-tool-use "+want.line+`"`, command)
	}
	// Of two the one that blocks counts.
	s := settings(t, `{"hooks":{"PreToolUse":[{"hooks":[{"command":"/a/gated hook pre-tool-use --socket /a"},{"command":"/b/gated hook pre-tool-use --on-failure block"}]}]}}`)
	s.install(t)
	require.Contains(t, s.content(t), "--on-failure block\"")
}

// TestALineIsReadAsItWasWritten, whatever the paths.
func TestALineIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.Map(rapid.String(), func(s string) string { return "/" + s })
		want := Setup{OnFailure: rapid.SampledFrom([]OnFailure{Warn, Block}).Draw(t, "on failure"),
			Deadline: time.Duration(rapid.Int64Range(0, int64(MaxDeadline)).Draw(t, "deadline"))}
		if socket := path.Draw(t, "socket"); op.CheckText("", socket) == nil {
			want.Socket = socket
		}
		if rapid.Bool().Draw(t, "exit code") {
			want.ExitCode = new(true)
		}
		program := path.Draw(t, "program")
		line, err := want.line(program, "pre-commit")
		if op.CheckText("", program) != nil {
			require.ErrorIs(t, err, refusal.BadParams)
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, readLine(line).setup(), line)
		require.Equal(t, program, readLine(line).program)
		script := must.Get(GitOptions{Program: program}.script("pre-push", want))(t)
		require.Equal(t, readLine(line), calledBy(script))
	})
}

func FuzzReadLine(f *testing.F) {
	f.Add(line)
	f.Add(`'a' --deadline='1s' --socket=\ x --exit-code=`)
	f.Fuzz(func(t *testing.T, text string) {
		c := readLine(text)
		require.Empty(t, c.differs(c))
		s := Setup{}.over(c.setup())
		require.Contains(t, []OnFailure{Warn, Block}, s.OnFailure)
		line := must.Get(s.line("/gated", "x"))(t)
		again := readLine(line).setup()
		require.Equal(t, s, again)
	})
}
