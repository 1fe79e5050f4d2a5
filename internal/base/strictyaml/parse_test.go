package strictyaml

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// refused parses src and returns the error, which must be an *Error.
func refused(t *testing.T, src string) *Error {
	t.Helper()
	_, err := Parse("f.yaml", []byte(src))
	var e *Error
	require.ErrorAs(t, err, &e)
	return e
}

func TestParseRefusesWhatCouldMeanSomethingElse(t *testing.T) {
	for name, c := range map[string]struct {
		src  string
		line int
		col  int
		msg  string
	}{
		"empty":                 {"", 1, 1, "empty"},
		"comment only":          {"# nothing\n", 1, 1, "empty"},
		"list":                  {"- a\n", 1, 1, "not a map"},
		"text":                  {"a\n", 1, 1, "not a map"},
		"anchor":                {"a: &x b\n", 1, 4, "anchor"},
		"anchor on a map":       {"a: &x\n  b: c\n", 1, 4, "anchor"},
		"anchor on a key":       {"&x a: b\n", 1, 1, "anchor"},
		"alias":                 {"a: [&x b, *x]\n", 1, 5, "anchor"},
		"merge":                 {"a: 1\n<<: {b: 1}\n", 2, 1, "merge"},
		"tag":                   {"a: !!str 1\n", 1, 4, "tag"},
		"own tag":               {"a: !secret b\n", 1, 4, "tag"},
		"bare tag":              {"a: ! 12\n", 1, 4, "tag"},
		"bare tag on a map":     {"a: !\n  b: 1\n", 1, 4, "tag"},
		"tag after wide text":   {"{ä: 1, b: ! x}\n", 1, 11, "tag"},
		"null":                  {"a: null\n", 1, 1, "no value"},
		"tilde":                 {"b: 1\na: ~\n", 2, 1, "no value"},
		"nothing":               {"a:\n", 1, 1, "no value"},
		"null in a list":        {"a: [null]\n", 1, 5, "empty value"},
		"duplicate":             {"a: 1\nb: 2\na: 3\n", 3, 1, "twice"},
		"duplicate in quotes":   {"a: 1\n\"a\": 3\n", 2, 1, "twice"},
		"duplicate further in":  {"m:\n  a: 1\n  a: 1\n", 3, 3, "twice"},
		"number key":            {"1: a\n", 1, 1, "not text"},
		"truth key":             {"true: a\n", 1, 1, "not text"},
		"null key":              {"~: a\n", 1, 1, "empty key"},
		"map key":               {"{a: b}: c\n", 1, 1, "key that is a map"},
		"second document":       {"a: 1\n---\nb: 2\n", 2, 1, "second document"},
		"second, empty":         {"a: 1\n---\n", 2, 1, "second document"},
		"broken after document": {"a: 1\n...\n]\n", 3, 1, "not YAML"},
		"latin 1":               {"a: 1\nb: caf\xe9\n", 2, 7, "not UTF-8"},
		"utf-16":                {"\xff\xfea\x00", 1, 1, "not UTF-8"},
		"byte-order mark":       {"\ufeffa: 1\n", 1, 1, "U+FEFF"},
		"carriage return":       {"a: 1\r\n", 1, 5, "carriage return"},
		"tab":                   {"a:\n\tb: 1\n", 2, 1, "tab"},
		"nul":                   {"a: \x00\n", 1, 4, "U+0000"},
		"escape":                {"a: \x1b[2J\n", 1, 4, "U+001B"},
		"del":                   {"a: \x7f\n", 1, 4, "U+007F"},
		"bidirectional":         {"a: x # \u202e\n", 1, 8, "U+202E"},
		"line separator":        {"a: x\u2028b: y\n", 1, 5, "U+2028"},
		"escaped control":       {"a: \"x\\e\"\n", 1, 4, "U+001B"},
		"escaped zero width":    {"a: \"x\\u200b\"\n", 1, 4, "U+200B"},
		"control in a key":      {"\"x\\a\": 1\n", 1, 1, "U+0007"},
		"literal block":         {"a: |\n  b\n", 1, 4, "several lines"},
		"folded block":          {"a: >\n  b\n", 1, 4, "several lines"},
		"plain on two lines":    {"a: b\n  c\n", 1, 4, "next line"},
		"open list":             {"a: 1\nb: [\nc: 2\nd: 3\n", 3, 1, "not YAML"},
		"open map":              {"a: 1\nb:\n  - {c: d\n    e: 2\nf: 3\n", 3, 3, "not YAML"},
		"indented too little":   {"a:\n  - b: 1\n    c: 2\n   d: 3\n  - b: 4\n", 4, 4, "not YAML"},
		"indented too much":     {"a:\n  b: 1\n   c: 2\n", 3, 4, "not YAML"},
		"no colon":              {"a: 1\nb\nc: 2\n", 2, 1, "not YAML"},
		"html":                  {"<html>\n<body>a: b: c\n</html>\n", 2, 1, "not YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			e := refused(t, c.src)
			require.Contains(t, e.Msg, c.msg)
			require.Equal(t, [2]int{c.line, c.col}, [2]int{e.Line, e.Column}, "%v", e)
			require.Equal(t, "f.yaml", e.File)
			require.False(t, e.TooLarge)
		})
	}
}

func TestErrorShowsThePlaceAndTheLine(t *testing.T) {
	require.Equal(t, "f.yaml:2:6: an anchor: write the value out where it is meant, in: b: &x 2   # why",
		refused(t, "a:\n  b: &x 2   # why\n").Error())
	require.Equal(t, `f.yaml:1:4: the character U+001B does not show as it is, in: "a: \x1b[2J"`,
		refused(t, "a: \x1b[2J\n").Error())
	long := refused(t, "a: &x "+strings.Repeat("ä", 200)+"\n")
	require.LessOrEqual(t, len(long.Text), maxText+len("…"))
	require.True(t, strings.HasSuffix(long.Text, "ä…"), long.Text)
}

func TestLimitsAtAndAbove(t *testing.T) {
	nested := func(n int) []byte { return []byte("a: " + strings.Repeat("[", n) + "1" + strings.Repeat("]", n)) }
	_, err := Parse("f", nested(MaxDepth-2)) // the map and the number are a level each
	require.NoError(t, err)
	var e *Error
	_, err = Parse("f", nested(MaxDepth-1))
	require.ErrorAs(t, err, &e)
	require.True(t, e.TooLarge)

	pad := func(n int) []byte { return []byte("a: 1 #" + strings.Repeat("x", n-len("a: 1 #"))) }
	must.Get(Parse("f", pad(MaxBytes)))(t)
	_, err = Parse("f", pad(MaxBytes+1))
	require.ErrorAs(t, err, &e)
	require.True(t, e.TooLarge)

	marks := func(n int) []byte { return []byte("a: 1\n" + strings.Repeat("\n", n-2)) }
	must.Get(Parse("f", marks(MaxMarks)))(t)
	_, err = Parse("f", marks(MaxMarks+1))
	require.ErrorAs(t, err, &e)
	require.True(t, e.TooLarge)
}

// The library counts nesting as it scans, so that hostile nesting ends before
// it becomes slow; were that to change, this test would not come to its end.
func TestHostileNestingEnds(t *testing.T) {
	for _, unit := range []string{"[", "{", "- ", "? ", "[{a: ", "{a: "} {
		e := refused(t, strings.Repeat(unit, 40<<10))
		require.NotEmpty(t, e.Msg, unit)
	}
	deepLine := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	require.True(t, refused(t, "a: "+deepLine).TooLarge)
}

// Very many values on one line cost one pass over it, not one each.
func TestManyValuesOnOneLine(t *testing.T) {
	src := "é: 1\na: [" + strings.Repeat("é b,", MaxMarks/8) + "]\n"
	require.Len(t, must.Get(Parse("f", []byte(src)))(t).Get("a").List(), MaxMarks/8)
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a: 1\n", "a: {b: [c, \"d\"]}\n", "a: &x b\n", "a: !\n  b: 1\n", "- a\n", "a: |\n b\n",
		"? a\n: b\n", "é: [é, é]\n", "a: b # c\n---\n", "%YAML 1.1\n---\na: b\n", "a: 'x\n  y'\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Parse("f", b)
		if err != nil {
			var e *Error
			require.True(t, errors.As(err, &e))
			require.Positive(t, e.Line)
			require.Positive(t, e.Column)
			require.False(t, strings.ContainsFunc(e.Text, unprintable))
			return
		}
		for k, v := range m.Each() {
			require.False(t, strings.ContainsFunc(k, unprintable))
			require.True(t, v.Present())
		}
	})
}
