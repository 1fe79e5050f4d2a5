package strictyaml

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

func TestWalk(t *testing.T) {
	m := must.Get(Parse("f.yaml", []byte(`name: web-1
quoted: "010"
n: 12
on: {tier: prod, "8": x}
list:
  - {a: true}
  - {a: false}
`)))(t)
	require.Equal(t, "web-1", m.Get("name").Text())
	require.Equal(t, "010", m.Need("quoted").Text())
	require.EqualValues(t, 12, m.Get("n").Int(12, 12))
	var keys, texts []string
	for k, v := range m.Get("on").Each() {
		keys, texts = append(keys, k), append(texts, v.Text())
	}
	require.Equal(t, []string{"tier", "8"}, keys)
	require.Equal(t, []string{"prod", "x"}, texts)
	var got []bool
	for _, v := range m.Get("list").List() {
		got = append(got, v.Get("a").Bool())
	}
	require.Equal(t, []bool{true, false}, got)
	require.NoError(t, m.Done())
	line, col := m.Get("list").List()[1].At()
	require.Equal(t, [2]int{7, 5}, [2]int{line, col})
}

func TestAbsentReadsAsZeroAndIsNotWrong(t *testing.T) {
	m := must.Get(Parse("f.yaml", []byte("a: 1\n")))(t)
	m.Get("a").Int(0, 1)
	require.True(t, m.Get("a").Present())
	b := m.Get("b")
	require.False(t, b.Present())
	require.Empty(t, b.Text())
	require.Zero(t, b.Int(5, 6))
	require.False(t, b.Bool())
	require.Empty(t, b.List())
	for range b.Get("c").Each() {
		require.Fail(t, "an absent map has no keys")
	}
	b.Need("c").Fail("never said")
	b.Fail("never said")
	require.NoError(t, m.Done())
}

func TestOtherTypesAreRefused(t *testing.T) {
	text := func(v Value) { v.Text() }
	number := func(v Value) { v.Int(1, 8) }
	dict := func(v Value) { v.Get("x") }
	list := func(v Value) { v.List() }
	truth := func(v Value) { v.Bool() }
	for _, c := range []struct {
		value string
		read  func(Value)
		msg   string
	}{
		{"010", text, `put it in quotes: "010"`}, {"12", text, "a number"}, {"1e3", text, "a number"},
		{"1_000", text, "a number"}, {"0x10", text, "a number"}, {"0o17", text, "a number"}, {".inf", text, "a number"},
		{"08", text, "a number"}, {"true", text, "a truth value"}, {"2024-01-01", text, "a time"},
		{"yes", text, "older readers"}, {"NO", text, "older readers"}, {"On", text, "older readers"},
		{"off", text, "older readers"}, {"[a]", text, "not text"}, {"{a: b}", text, "not text"},
		{"2.7", number, "not a whole number"}, {"010", number, "not a whole number"}, {"0x2", number, "not a whole number"},
		{"+2", number, "not a whole number"}, {"1_0", number, "not a whole number"}, {"\"2\"", number, "not a whole number"},
		{"-0", number, "not a whole number"}, {"2.0", number, "not a whole number"}, {"1e0", number, "not a whole number"},
		{"99999999999999999999", number, "not a whole number"}, {"0", number, "outside 1 to 8"}, {"9", number, "outside 1 to 8"},
		{"yes", truth, "neither true nor false"}, {"on", truth, "neither true nor false"}, {"True", truth, "neither true nor false"},
		{"1", truth, "neither true nor false"}, {"\"true\"", truth, "neither true nor false"},
		{"a", dict, "not a map"}, {"[a]", dict, "not a map"},
		{"a", list, "not a list"}, {"{a: b}", list, "not a list"},
	} {
		m := must.Get(Parse("f.yaml", []byte("k: "+c.value+"\n")))(t, c.value)
		c.read(m.Get("k"))
		var e *Error
		require.ErrorAs(t, m.Done(), &e, c.value)
		require.Contains(t, e.Msg, c.msg, c.value)
		require.Equal(t, [2]int{1, 4}, [2]int{e.Line, e.Column})
	}
	for _, v := range []string{"1", "8"} {
		m := must.Get(Parse("f.yaml", []byte("k: "+v+"\n")))(t)
		number(m.Get("k"))
		require.NoError(t, m.Done(), v)
	}
}

func TestUnknownKeysAreRefusedEverywhere(t *testing.T) {
	m := must.Get(Parse("f.yaml", []byte("a: 1\nm:\n  b: 1\n  scratch: true\n")))(t)
	m.Get("a").Int(0, 9)
	m.Get("m").Get("b").Int(0, 9)
	var e *Error
	require.ErrorAs(t, m.Done(), &e)
	require.Equal(t, "scratch", e.Key)
	require.Equal(t, "m", e.In)
	require.Equal(t, "f.yaml:4:3: unknown key scratch in m, in: scratch: true", e.Error())
}

func TestTheErrorNearestToTheBeginningIsTheOneReported(t *testing.T) {
	m := must.Get(Parse("f.yaml", []byte("zz: 1\nb: 1\na: 1\n")))(t)
	m.Get("a").Bool()
	m.Get("b").Bool()
	var e *Error
	require.ErrorAs(t, m.Done(), &e)
	require.Equal(t, "zz", e.Key)

	m = must.Get(Parse("f.yaml", []byte("\nb: 1\n")))(t)
	m.Get("b").Bool()
	m.Need("name")
	require.ErrorAs(t, m.Done(), &e)
	require.Contains(t, e.Msg, "name is missing")
}

func TestSoundUntilSomethingIsWrong(t *testing.T) {
	m := must.Get(Parse("f.yaml", []byte("a: 1\nm: {b: x}\n")))(t)
	sub := m.Get("m")
	m.Get("a").Int(0, 1)
	require.True(t, m.Sound())
	require.True(t, sub.Sound())
	sub.Get("b").Int(0, 1)
	require.False(t, m.Sound(), "it is of the whole file")
	require.True(t, m.Get("absent").Sound())
}

// A length of time is whole seconds within its bounds, and a word is one of those that there are.
func TestLengthsOfTimeAndWords(t *testing.T) {
	read := func(text string) (time.Duration, string, error) {
		var d time.Duration
		var w string
		root := must.Get(Parse("f.yaml", []byte(text)))(t)
		d = root.Get("d").Duration(time.Minute, time.Second, 24*time.Hour)
		if v := root.Get("w"); v.Present() {
			w = v.OneOf("red", "green")
		}
		return d, w, root.Done()
	}
	for text, want := range map[string]time.Duration{"{}": time.Minute, "d: 1h30m": 90 * time.Minute, "d: 24h": 24 * time.Hour, "d: 1s": time.Second} {
		d, _, err := read(text)
		require.NoError(t, err, text)
		require.Equal(t, want, d, text)
	}
	for text, says := range map[string]string{"d: 1500ms": `"1500ms" is not a length of time`, "d: -1s": `"-1s" is not a length`,
		"d: soon": `"soon" is not a length`, "d: 25h": "25h is outside 1s to 24h", "d: 0s": "0s is outside 1s to 24h", "w: blue": `"blue" is none of red, green`} {
		d, _, err := read(text)
		require.ErrorContains(t, err, says, text)
		require.Equal(t, time.Minute, d, text)
	}
	_, w, err := read("w: green")
	require.NoError(t, err)
	require.Equal(t, "green", w)
}
