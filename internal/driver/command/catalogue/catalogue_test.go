package catalogue

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestNamesOfSecrets(t *testing.T) {
	for _, name := range []string{"password", "db_password", "dbPassword", "PASSWD", "pass", "pass-phrase", "token", "apitoken", "api-key", "apiKey",
		"key", "KEY", "ssh.key", "client_secret", "credential", "pin", "private_key", "pwd"} {
		require.Contains(t, CheckParamName(name), "sounds like a secret", name)
	}
	for _, name := range []string{"database", "monkey", "keyspace", "keyboard", "passenger", "compass", "spin", "author", "commit", "n"} {
		require.Empty(t, CheckParamName(name), name)
	}
	require.Contains(t, CheckParamName("a b"), "is not a parameter's name")
}

func TestTemplates(t *testing.T) {
	values := map[string]string{"a": "1", "b": "{a}"}
	for word, want := range map[string]string{"{a}": "1", "x{a}y{b}": "x1y{a}", "{{a}}": "{a}", "{{{a}}}": "{1}", "}}{{": "}{", "": "", "é{a}": "é1"} {
		require.Equal(t, []string{want}, must.Get(Fill([]string{word}, values))(t), word)
	}
	for _, word := range []string{"{", "}", "{a", "a}", "{}", "{a b}", "{-a}", "{a}}", "{{a}", "{\n}", "{a{b}}"} {
		require.NotNil(t, checkTemplate([]string{"/bin/x", word}), word)
	}
	require.NotNil(t, checkTemplate(nil))
	require.Nil(t, checkTemplate(append([]string{"/bin/x"}, make([]string, MaxWords-1)...)))
	require.NotNil(t, checkTemplate(append([]string{"/bin/x"}, make([]string, MaxWords)...)))
}

// No value may stand where an interpreter could read it as a program, also if a wrapper runs
// the interpreter.
func TestValuesAreNotPrograms(t *testing.T) {
	for _, words := range [][]string{
		{"/bin/sh", "-c", "echo {x}"}, {"/bin/sh", "{x}"}, {"/bin/sh", "-c", "-u", "echo {x}"}, {"/bin/sh", "-c", "--", "{x}"}, {"/bin/sh", "--", "{x}"},
		{"/bin/bash", "--norc", "-c", "echo {x}"}, {"/bin/bash", "-c", "-x", "echo {x}"}, {"/bin/bash", "-c", "-x", "--", "{x}"},
		{"/bin/bash", "--rcfile", "/etc/x", "-c", "{x}"}, {"/bin/bash", "--rcfile={x}", "/srv/script"}, {"/bin/bash", "-O", "{x}", "/srv/script"},
		{"/usr/bin/awk", "{x}"}, {"/usr/bin/awk", "{{print}} {x}"}, {"/usr/bin/gawk", "{x}"}, {"/usr/bin/sed", "{x}"}, {"/usr/bin/sed", "-e", "-n", "{x}"},
		{"/usr/bin/python3", "-Ic", "{x}"}, {"/usr/bin/python3.11", "-c", "{x}"}, {"/usr/bin/python3", "-m", "{x}"}, {"/usr/bin/python3", "/srv/{x}"},
		{"/usr/bin/perl", "-E{x}"}, {"/usr/bin/perl", "-I", "/srv", "-e", "{x}"}, {"/usr/bin/perl5.36.0", "-ne{x}"},
		{"/usr/bin/node", "--eval", "{x}"}, {"/usr/bin/node", "--eval={x}"}, {"/usr/bin/php", "-r", "{x}"}, {"/usr/bin/php8.2", "-r{x}"},
		{"/usr/bin/env", "-S{x}"}, {"/usr/bin/env", "{x}"}, {"/usr/bin/env", "--", "{x}"}, {"/usr/bin/env", "-C", "/srv", "{x}"}, {"/usr/bin/env", "A={x}", "/bin/true"},
		{"/usr/bin/env", "/bin/sh", "-c", "{x}"}, {"/usr/bin/env", "-c", "true", "{x}"},
		{"/usr/bin/timeout", "5", "/bin/sh", "-c", "echo {x}"}, {"/usr/bin/timeout", "5", "{x}"}, {"/usr/bin/nice", "sh", "-c", "{x}"},
		{"/usr/bin/xargs", "-I%", "{x}"}, {"/usr/bin/sudo", "-u", "{x}", "/bin/true"}, {"/usr/bin/ssh", "db1", "rm {x}"}, {"/bin/su", "-c", "true", "{x}"},
		{"/bin/busybox", "sh", "-c", "{x}"}, {"/usr/bin/find", "/srv", "-exec", "sh", "-c", "rm {x}", ";"}, {"/usr/bin/kubectl", "exec", "pod", "--", "sh", "-c", "{x}"},
	} {
		f := checkTemplate(words)
		require.NotNil(t, f, "%q", words)
		require.Contains(t, f.Why, "it would be read as a program", "%q", words)
		require.Contains(t, words[f.Word], "{x}")
	}
	for _, words := range [][]string{
		{"/bin/sh", "-c", `echo "$1"`, "sh", "{x}"}, {"/bin/bash", "-euc", `echo "$1"`, "bash", "--x={x}"}, {"/bin/sh", "/srv/script", "{x}"},
		{"/usr/bin/python3", "/srv/x.py", "--name={x}"}, {"/usr/bin/perl", "-e", "print @ARGV", "--", "{x}"}, {"/usr/bin/nice", "/usr/bin/git", "tag", "{x}"},
		{"/usr/bin/timeout", "5", "/bin/sh", "-c", `echo "$1"`, "sh", "{x}"}, {"/usr/bin/env", "/bin/sh", "/srv/script", "{x}"},
		{"/usr/bin/git", "-C", "{x}", "branch", "-D", "--", "{x}"}, {"/srv/script", "-c", "{x}"}, {"/usr/bin/find", "/srv", "-name", "{x}"}, {"/bin/sh", "-c", "echo"},
	} {
		require.Nil(t, checkTemplate(words), "%q", words)
	}
}

// A value that begins with a dash is refused if it could be an option, that is before --.
func TestDashes(t *testing.T) {
	v := map[string]string{"a": "-x", "b": "x"}
	for _, words := range [][]string{{"{a}"}, {"{a}", "--"}, {"--={a}"}, {"--{a}"}, {"-- ", "{a}"}, {"{b}", "{a}", "--", "{b}"}} {
		must.Fail(Fill(words, v))(t, refusal.BadParams, "%q", words)
	}
	for _, words := range [][]string{{"--", "{a}"}, {"--", "y={a}"}, {"{b}", "--", "{b}", "{a}"}} {
		must.Get(Fill(words, v))(t, "%q", words)
	}
	_, err := Fill([]string{"{b}", "{a}"}, map[string]string{"b": "--", "a": "-x"})
	require.ErrorIs(t, err, refusal.BadParams, "a value is never the end of options")
}

// With any values, there are as many words as in the template.
func TestFillKeepsWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		words := []string{"/bin/x", "--", "{a}", "<{b}{a}>", "{{b}}"}
		got := must.Get(Fill(words, map[string]string{"a": a, "b": b}))(t)
		require.Equal(t, []string{"/bin/x", "--", a, "<" + b + a + ">", "{b}"}, got)
	})
}

// FuzzTemplate: an accepted word whose braces are doubled stands for itself. Each of its
// placeholders names a parameter.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"{a}", "{{", "x{a}y{{z}}", "{a", "{\x00}", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, word string) {
		doubled := strings.NewReplacer("{", "{{", "}", "}}").Replace(word)
		require.Equal(t, word, must.Get(Fill([]string{doubled}, nil))(t)[0])
		parts, why := split(word)
		if why != "" {
			return
		}
		whole := ""
		for _, p := range parts {
			if p.placeholder {
				require.NoError(t, op.CheckName(p.text))
				whole += "{" + p.text + "}"
			} else {
				whole += strings.NewReplacer("{", "{{", "}", "}}").Replace(p.text)
			}
		}
		require.Equal(t, word, whole)
	})
}

// FuzzValue: an accepted integer, boolean or enum value has only one spelling. No value with
// invisible characters is accepted.
func FuzzValue(f *testing.F) {
	for _, seed := range []string{"1", "01", "-0", "true", "fast", "a\nb", "\u202e", "9223372036854775808"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, v string) {
		all := Param{Type: String, Pattern: "(?s).*", Max: MaxLength}
		if op.CheckText("", v) != nil || len(v) > MaxLength {
			require.NotEmpty(t, all.Refuses(v))
		} else {
			require.Empty(t, all.Refuses(v))
		}
		if (Param{Type: Integer, Min: -op.MaxInt, Max: op.MaxInt}).Refuses(v) == "" {
			require.Regexp(t, `^(0|-?[1-9][0-9]*)$`, v)
		}
		if (Param{Type: Bool}).Refuses(v) == "" {
			require.Contains(t, []string{"true", "false"}, v)
		}
		if (Param{Type: Enum, Values: []string{"fast", "slow"}}).Refuses(v) == "" {
			require.Contains(t, []string{"fast", "slow"}, v)
		}
		require.NotEmpty(t, Param{Type: String, Pattern: "a|bc", Max: 9}.Refuses("x"+v))
	})
}

// A hint is a sentence for every type.
func TestHintsOfParams(t *testing.T) {
	for want, p := range map[string]Param{
		"n is an integer, 1 to 9": {Type: Integer, Min: 1, Max: 9}, "n is a path below /srv": {Type: Path, Below: "/srv"},
		"n is one of a, b": {Type: Enum, Values: []string{"a", "b"}}, "n is true or false": {Type: Bool},
		"n is a string that matches x, at most 3 bytes": {Type: String, Pattern: "x", Max: 3},
	} {
		_, err := Read(map[string]Param{"n": p}, op.Params{})
		require.ErrorIs(t, err, refusal.BadParams)
		require.Equal(t, want, refusal.As(err).Hint)
	}
}
