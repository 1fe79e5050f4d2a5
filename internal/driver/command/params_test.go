package command_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/command/catalogue"
	"gated/internal/test/must"
)

// echo is an entry with a parameter of each type.
func (b *bench) echo() {
	b.t.Helper()
	require.NoError(b.t, os.MkdirAll(b.path("root", "in", "deep"), 0o755))
	require.NoError(b.t, os.WriteFile(b.path("root", "file"), nil, 0o644))
	require.NoError(b.t, os.WriteFile(b.path("outside"), nil, 0o644))
	b.entry("echo", []string{"/bin/echo", "--n={n}", "{s}", "{{{e}}}", "{p}", "{b}"}, func(e *catalogue.Entry) {
		e.Params = map[string]catalogue.Param{
			"s": {Type: catalogue.String, Pattern: "[-a-z ;$(){}*]*|é", Max: 10},
			"n": {Type: catalogue.Integer, Min: -5, Max: 12},
			"e": {Type: catalogue.Enum, Values: []string{"fast", "slow"}},
			"p": {Type: catalogue.Path, Below: b.path("root")},
			"b": {Type: catalogue.Bool},
		}
	})
}

func with(kv ...string) op.Look {
	l := asking("echo", "s", "abc", "n", "7", "e", "fast", "p", "file", "b", "true")
	for i := 0; i < len(kv); i += 2 {
		l.Params[kv[i]] = kv[i+1]
	}
	return l
}

func TestParameters(t *testing.T) {
	b := newBench(t)
	b.echo()
	o := b.look(with())
	require.Equal(t, "/bin/echo --n=7 abc {fast} "+b.path("root", "file")+" true", fact(o, "runs"))
	for _, ok := range [][]string{{"s", ""}, {"s", "é"}, {"s", "abcdefghij"}, {"n", "12"}, {"n", "0"}, {"e", "slow"}, {"b", "false"},
		{"p", "in/deep"}, {"p", "in//deep/."}, {"p", "new"}, {"p", b.path("root", "in")}} {
		require.True(t, b.look(with(ok...)).Present, ok)
	}
	for _, c := range []struct{ name, value, why string }{
		{"s", "abcdefghijk", "has 11 bytes, more than 10"},
		{"s", "ABC", "does not match"},
		{"s", "abc\nABC", "does not show as it is"},
		{"s", "a\x1b[31m", "does not show as it is"},
		{"s", "a\x00b", "does not show as it is"},
		{"s", "\u202eabc", "does not show as it is"},
		{"s", "-rf", "begins with a dash"},
		{"s", "--", "begins with a dash"},
		{"n", "13", "is outside -5 to 12"},
		{"n", "-6", "is outside -5 to 12"},
		{"n", "-1", "begins with a dash"},
		{"n", "07", "one decimal spelling"},
		{"n", "+7", "one decimal spelling"},
		{"n", "0x7", "one decimal spelling"},
		{"n", "7 ", "one decimal spelling"},
		{"n", "", "one decimal spelling"},
		{"n", "99999999999999999999", "one decimal spelling"},
		{"e", "Fast", "is none of fast, slow"},
		{"e", "fas", "is none of"},
		{"e", "", "is none of"},
		{"b", "TRUE", "neither true nor false"},
		{"b", "1", "neither true nor false"},
		{"p", "", "not 1 to"},
		{"p", strings.Repeat("a", 4097), "not 1 to"},
		{"other", "x", "there is no parameter"},
	} {
		_, err := b.Observe(t.Context(), with(c.name, c.value))
		require.ErrorIs(t, err, refusal.BadParams, "%s=%q", c.name, c.value)
		require.ErrorContains(t, err, c.why, "%s=%q", c.name, c.value)
		require.ErrorContains(t, err, c.name)
	}
	l := with()
	delete(l.Params, "n")
	_, err := b.Observe(t.Context(), l)
	require.ErrorIs(t, err, refusal.BadParams)
	require.ErrorContains(t, err, "the parameter n is missing")
	l.Params["n"] = int64(7)
	require.ErrorContains(t, must.Err(b.Observe(t.Context(), l))(t), "n is not text")
	must.Get(b.Observe(t.Context(), op.At(target("echo"))))(t, "without a step there are no parameters to check")
}

// A value is one word with any content: no shell reads it, and it has no placeholders.
func TestValuesStayWords(t *testing.T) {
	b := newBench(t)
	argv := []string{b.script("words", "#!/bin/sh\nfor w; do printf '<%s>\\n' \"$w\"; done\n"), "{a}", "x{a}y", "--", "{a}", "{z}"}
	b.entry("words", argv, func(e *catalogue.Entry) {
		e.Params, e.Probe = map[string]catalogue.Param{"a": anyText(200), "z": anyText(200)}, argv
	})
	for _, v := range []string{"; touch owned", "$(touch owned)", "`touch owned`", "{z}", "{{z}}", "a b  c", "*", "'", `"`, "a'b\"c", "", "LD_PRELOAD=/x", "\\n"} {
		want := "<" + v + ">\n<x" + v + "y>\n<-->\n<" + v + ">\n<secret>"
		require.Equal(t, want, fact(b.look(asking("words", "a", v, "z", "secret")), "probe says"))
	}
	_, err := b.Observe(t.Context(), asking("words", "a", "-x", "z", ""))
	require.ErrorIs(t, err, refusal.BadParams, "before --, though it would do after it")
	did := must.Get(b.run(asking("words", "a", "$(touch owned)", "z", "-rf")))(t)
	require.Equal(t, "<$(touch owned)>\n<x$(touch owned)y>\n<-->\n<$(touch owned)>\n<-rf>\n", did.Output, "after -- a dash is no option's")
	require.NoFileExists(t, b.path("work", "owned"))
}

func TestPathsStayBelow(t *testing.T) {
	b := newBench(t)
	b.echo()
	links := map[string]string{"out": b.path("outside"), "up": "../outside", "inside": "in/deep", "absolute": b.path("root", "in"), "self": ".",
		"dangling": "nothing", "loop": "loop", "proc": "/proc/self/root"}
	for name, to := range links {
		require.NoError(t, os.Symlink(to, b.path("root", name)))
	}
	for _, p := range []string{"..", "../outside", "in/../../outside", "in/../file", "/etc/passwd", "out", "up", "up/x", "absolute", "self", "dangling",
		"loop", "proc/etc", ".", "./", b.path("root"), b.path("root") + "/", b.path("root") + "/../outside", b.path("rootless"), "no/such", "file/x", "//"} {
		_, err := b.Observe(t.Context(), with("p", p))
		require.ErrorIs(t, err, refusal.BadParams, p)
		require.ErrorContains(t, err, "p: ", p)
	}
	require.Contains(t, fact(b.look(with("p", "inside")), "runs"), b.path("root", "in", "deep"), "the path without links is what runs")
	before := b.look(with("p", "inside"))
	require.NoError(t, os.Remove(b.path("root", "inside")))
	require.NoError(t, os.Symlink("in", b.path("root", "inside")))
	after := b.look(with("p", "inside"))
	require.NotEqual(t, before.Fingerprint, after.Fingerprint, "a link that was moved is another target")
	require.Contains(t, fact(b.look(with("p", "-rf")), "runs"), b.path("root", "-rf"), "a path is absolute, and no option")
}
