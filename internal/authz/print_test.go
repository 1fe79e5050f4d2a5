package authz_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/authz"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

func TestPrint(t *testing.T) {
	t.Parallel()
	alice, sk, ca := mint.Ed25519(t, "alice"), mint.SKECDSA(t, "sk", mint.Touched), mint.RSA(t, "ca", 3072)
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"\n# a comment\n \t\n", ""},
		{"  alice \t" + asOperator + "  " + alice.Text() + " alice's laptop", "alice " + asOperator + " " + alice.Text() + "\n"},
		{"\t\"alice\" namespaces=\"git,operational@gated,git\" " + alice.Text(), `alice namespaces="git,operational@gated" ` + alice.Text() + "\n"},
		{`"alice smith" ` + asOperator + " " + sk.Text(), `"alice smith" ` + asOperator + " " + sk.Text() + "\n"},
		{`"#alice" ` + asOperator + " " + sk.Text(), `"#alice" ` + asOperator + " " + sk.Text() + "\n"},
		{`"*,!b c" valid-before="20320101000000Z",namespaces="x@gated",cert-authority,valid-after="20310203040500Z" ` + ca.Text() + " ca",
			`"*,!b c" cert-authority,namespaces="x@gated",valid-after="203102030405Z",valid-before="20320101Z" ` + ca.Text() + "\n"},
		{`a namespaces="git",valid-after="20310203000001Z" ` + ca.Text(), `a namespaces="git",valid-after="20310203000001Z" ` + ca.Text() + "\n"},
	} {
		require.Equal(t, c.want, string(loaded(t, c.text).Print()))
	}
	require.Empty(t, (*authz.Trust)(nil).Print())
}

// TestParsePrintParse: printed text loads to the same, prints the same, and is not
// longer than the loaded text.
func TestParsePrintParse(t *testing.T) {
	t.Parallel()
	var keys []string
	for _, k := range everyKey(t) {
		keys = append(keys, k.Text())
	}
	rapid.Check(t, func(t *rapid.T) {
		text := drawFile(t, keys)
		trust := loaded(t, text)
		printed := trust.Print()
		require.LessOrEqual(t, len(printed), len(text)+1, "but for a last newline")
		again := must.Get(authz.LoadTrust(printed))(t, "%s", printed)
		require.Equal(t, string(printed), string(again.Print()))
		want, got := trust.Signers(), again.Signers()
		require.Len(t, got, len(want))
		for i := range got {
			require.Equal(t, i+1, got[i].Line)
			want[i].Line = got[i].Line
		}
		require.Equal(t, want, got)
	})
}

// drawFile draws a file that loads.
func drawFile(t *rapid.T, keys []string) string {
	var lines []string
	for range rapid.IntRange(0, 5).Draw(t, "lines") {
		if rapid.IntRange(0, 4).Draw(t, "comment") == 0 {
			lines = append(lines, rapid.SampledFrom([]string{"", "# comment", "\t #", " "}).Draw(t, "text"))
			continue
		}
		lines = append(lines, drawLine(t, rapid.SampledFrom(keys).Draw(t, "key")))
	}
	return strings.Join(lines, "\n") + rapid.SampledFrom([]string{"", "\n"}).Draw(t, "end")
}

func drawLine(t *rapid.T, key string) string {
	one := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
	blank := func() string { return one("blank", " ", "\t", "  ", " \t") }
	principal := one("principal", "alice", `"alice"`, `"alice smith"`, `"#1"`, `al\ice`, "ålice@example.com", "=x", `"'"`, `"`+"\t"+`"`)
	options := []string{`namespaces="` + strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{
		"operational@gated", "recovery@gated", "coordination@gated", "zoo@gated", "manager@gated", "git", "Odd@gated", "x=y",
	}), 1, 6).Draw(t, "namespaces"), ",") + `"`}
	if rapid.Bool().Draw(t, "CA") {
		options = append(options, "cert-authority")
		principal = one("patterns", "*", `"*"`, "alice", "*@example.com,!root@*", `"a b*,!c"`, `"!#,x"`, "?", `"#?"`)
	}
	if rapid.Bool().Draw(t, "after") {
		options = append(options, `valid-after="`+one("from", "20300101Z", "203001010000Z", "20300101000000Z", "203002030405Z", "20300203040506Z", "19700101000001Z")+`"`)
	}
	if rapid.Bool().Draw(t, "before") {
		options = append(options, `valid-before="`+one("to", "20310101Z", "203101010000Z", "99991231235959Z")+`"`)
	}
	return one("indent", "", " ", "\t") + principal + blank() + strings.Join(rapid.Permutation(options).Draw(t, "options"), ",") + blank() +
		strings.Replace(key, " ", blank(), 1) + one("tail", "", " ", " a comment", "\t\"x")
}
