package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/wire/cli"
)

// helped returns what gated help prints, and says beside that.
func helped(t *testing.T, exit int, args ...string) (out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	tl := testTool()
	tl.Stdout, tl.Stderr = &stdout, &stderr
	require.Equal(t, exit, tl.run(t.Context(), append([]string{"help"}, args...)), args)
	return stdout.String(), stderr.String()
}

// Each topic fits the smallest usual screen with the prompt below it, and the help text of the program names it. Each word
// of concepts.md is found by itself.
func TestEachWordFitsAScreen(t *testing.T) {
	terms := glossary()
	require.Greater(t, len(terms), 60)
	var topics []string
	for _, e := range terms {
		if !slices.Contains(topics, e.Topic) {
			topics = append(topics, e.Topic)
		}
		for _, name := range e.Names {
			out, errs := helped(t, api.ExitDone, name)
			require.NotEmpty(t, out)
			require.Empty(t, errs)
			if _, _, err := testTool().root().Find([]string{name}); err != nil { // else it is the help of that command
				require.Contains(t, strings.Join(strings.Fields(out), " "), e.Text)
			}
		}
	}
	require.Len(t, topics, 9)
	for _, topic := range topics {
		require.Contains(t, strings.Join(strings.Fields(wordsTopics), " "), " "+topic)
		out, _ := helped(t, api.ExitDone, topic)
		require.Less(t, strings.Count(out, "\n"), 24, topic)
		for line := range strings.Lines(out) {
			require.Less(t, utf8.RuneCountInString(line), 80, line)
			require.NotRegexp(t, "[`*]|\\]\\(", line, "a mark of Markdown")
		}
	}
}

func TestHelp(t *testing.T) {
	out, _ := helped(t, api.ExitDone)
	require.Contains(t, out, "What you need first:\n  setup ")
	out, _ = helped(t, api.ExitDone, "gate", "id")
	require.Regexp(t, `^gate id: 32 random hex digits [^\n]*\n    [^\n]*\n    [^\n]*\ngated help gate has what goes with it\n$`, out)
	out, _ = helped(t, api.ExitDone, "Fingerprint")
	require.Contains(t, out, "fingerprint of a target: ")
	require.Contains(t, out, "fingerprint of a key: ")
	out, _ = helped(t, api.ExitDone, "reservation")
	require.Contains(t, out, "\nholder: ")
	require.Contains(t, out, "\ngated reservation --help shows the commands; ")
	out, _ = helped(t, api.ExitDone, "trust", "rotate")
	require.Contains(t, out, "  gated trust rotate ")
	out, _ = helped(t, api.ExitDone, "incarnation", "--json")
	require.Regexp(t, `^\{"topic":"target","names":\["incarnation"\],"text":"incarnation: one life of a target: [^\n]*"\}\n$`, out)
	for word, meant := range map[string]string{"submt": "submit", "incarnatin": "incarnation", "sigantures": "signature", "roles": "role"} {
		out, errs := helped(t, api.ExitUsage, word)
		require.Empty(t, out)
		require.Equal(t, "usage: unknown command \""+word+"\" for \"gated\"; is \""+meant+"\" meant?\n  hint: gated help --help\n", errs)
	}
	_, errs := helped(t, api.ExitUsage, "trust", "shwo")
	require.Contains(t, errs, `unknown command "shwo" for "gated trust"; is "show" meant?`)
	_, errs = helped(t, api.ExitUsage, "approve")
	require.Contains(t, errs, "that is opsign approve")
	_, errs = helped(t, api.ExitUsage, "zzzzzzzz")
	require.NotContains(t, errs, "meant?")
}

// Each old word is one that no command has, leads to a command, and completes as that command does.
func TestMovedWords(t *testing.T) {
	require.Len(t, cli.Moved, 12)
	for old, now := range cli.Moved {
		require.NotContains(t, cli.Programs["gated"], old)
		c, rest, err := testTool().root().Find(strings.Fields(now))
		require.NoError(t, err, now)
		require.Empty(t, rest, now)
		require.Equal(t, "gated "+now, c.CommandPath())
		completed := func(args ...string) string {
			var out, errs bytes.Buffer
			tl := testTool()
			tl.Stdout, tl.Stderr = &out, &errs
			require.Equal(t, api.ExitDone, tl.run(t.Context(), append([]string{"__completeNoDesc"}, args...)))
			require.NotContains(t, errs.String(), "note: ")
			return out.String()
		}
		for _, before := range [][]string{{}, {"--json"}, {"--socket", "reserve"}} {
			want := completed(slices.Concat(before, strings.Fields(now), []string{"--"})...)
			require.Contains(t, want, "--help\n")
			require.Equal(t, want, completed(append(before, old, "--")...), old)
		}
		require.NotContains(t, completed(old), "--help", "the word that is being typed is no command yet")
	}
}

// A word that is spelt almost as an old one is that one's new words; a word of today comes first.
func TestAnOldWordIsTheNearest(t *testing.T) {
	for word, meant := range map[string]string{"reserv": "reservation reserve", "relaese": "reservation release",
		"takeovr": "member takeover", "reservatoin": "reservation", "mebmer": "member"} {
		for _, args := range [][]string{{word}, {"help", word}} {
			var out, errs bytes.Buffer
			tl := testTool()
			tl.Stdout, tl.Stderr = &out, &errs
			require.Equal(t, api.ExitUsage, tl.run(t.Context(), args))
			require.Contains(t, errs.String(), "unknown command \""+word+"\" for \"gated\"; is \""+meant+"\" meant?")
		}
	}
	// Below a group no old word is meant.
	for _, words := range [][3]string{{"config", "chek", "check"}, {"member", "jion", "join"}, {"reservation", "relase", "release"}} {
		var out, errs bytes.Buffer
		tl := testTool()
		tl.Stdout, tl.Stderr = &out, &errs
		require.Equal(t, api.ExitUsage, tl.run(t.Context(), words[:2]))
		require.Contains(t, errs.String(), `is "`+words[2]+`" meant?`)
	}
}
