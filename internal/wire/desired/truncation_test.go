package desired_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/test/must"
	"gated/internal/wire/desired"
)

// wishes returns everything that a document asks for, one wish each. Labels
// are wishes of their own: reconcile leaves alone the ones not mentioned.
func wishes(doc desired.Document) map[string]any {
	out := map[string]any{}
	for _, g := range doc.Guests {
		if g.State != "" {
			out[g.Name+" state"] = g.State
		}
		for k, v := range g.Fields {
			labels, ok := v.(map[string]any)
			if !ok {
				out[g.Name+" "+k] = v
			}
			for name, value := range labels {
				out[g.Name+" label "+name] = value
			}
		}
	}
	return out
}

// checkTruncation cuts a valid document at each line end. What is left is
// refused or asks for nothing that the whole one did not.
func checkTruncation(t require.TestingT, src []byte) {
	doc := must.Get(desired.Parse("f", src))(t)
	all := wishes(doc)
	for i, c := range src {
		if c != '\n' {
			continue
		}
		for _, end := range []int{i, i + 1} {
			cut, err := desired.Parse("f", src[:end])
			if err != nil {
				continue
			}
			require.Equal(t, doc.Host, cut.Host)
			for wish, value := range wishes(cut) {
				require.Equal(t, all[wish], value, "cut at byte %d asks for %s:\n%s", end, wish, src[:end])
			}
		}
	}
}

// TestTruncatedDocumentsAskForNothingNew is B21: a file cut at a line end, so
// that protected: true is missing, does not ask to take protection away.
func TestTruncatedDocumentsAskForNothingNew(t *testing.T) {
	for name, src := range seeds(t) {
		t.Run(name, func(t *testing.T) { checkTruncation(t, src) })
	}
}

func TestTruncationOfAnyDocument(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		src := anyDocument(t)
		if _, err := desired.Parse("f", src); err != nil {
			t.Skip("not a valid document")
		}
		checkTruncation(t, src)
	})
}

// anyDocument draws documents in many styles, also odd ones.
func anyDocument(t *rapid.T) []byte {
	var b bytes.Buffer
	b.WriteString("apiVersion: gated/v1\n")
	hostLast := rapid.Bool().Draw(t, "host last")
	if !hostLast {
		b.WriteString("host: h\n")
	}
	b.WriteString("guests:\n")
	for i := range rapid.IntRange(0, 4).Draw(t, "guests") {
		lines := rapid.Permutation(fields(t, i)).Draw(t, "order")
		if rapid.Bool().Draw(t, "flow") {
			fmt.Fprintf(&b, "  - {%s}\n", strings.Join(flat(lines), rapid.SampledFrom([]string{", ", ",\n     "}).Draw(t, "sep")))
			continue
		}
		for n, line := range lines {
			b.WriteString(map[bool]string{true: "  - ", false: "    "}[n == 0])
			b.WriteString(line + "\n")
		}
	}
	if hostLast {
		b.WriteString("host: h\n")
	}
	return b.Bytes()
}

func fields(t *rapid.T, i int) []string {
	out := []string{fmt.Sprintf("name: g%d", i)}
	pick := func(choices ...string) {
		if s := rapid.SampledFrom(append(choices, "")).Draw(t, "field"); s != "" {
			out = append(out, s)
		}
	}
	pick("state: running", "state: stopped", "state: absent", "state:\n      running", "state: \"run\\\n      ning\"")
	pick("memory: 512MiB", "memory: 2GiB # two", "memory:\n      1MiB", "memory: '1MiB'")
	pick("cpus: 2", "cpus:\n      3")
	pick("command: web", "command: \"\"", "command: we\n      b")
	pick("labels: {tier: prod, a: b}", "labels:\n      tier: prod\n      a: b c\n       d", "labels: {tier: prod,\n      a: b}",
		"labels:\n      tier: \"p\n        q\"\n      a: b", "labels: {}", "labels:\n      tier: >\n        x\n        y", "labels:\n      ? a\n      : b")
	pick("protected: true", "protected: false", "protected:\n      true")
	return out
}

// flat drops what spreads over lines in a way that {…} does not take.
func flat(lines []string) []string {
	var out []string
	for _, l := range lines {
		if !strings.Contains(l, "\n") && !strings.Contains(l, "#") {
			out = append(out, l)
		}
	}
	return out
}
