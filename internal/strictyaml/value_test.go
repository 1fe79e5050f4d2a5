package strictyaml

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWalk(t *testing.T) {
	m, err := Parse("f.yaml", []byte(`name: web-1
quoted: "010"
n: 12
on: {tier: prod, "8": x}
list:
  - {a: true}
  - {a: false}
`))
	require.NoError(t, err)
	require.Equal(t, "web-1", m.String("name"))
	require.Equal(t, "010", m.Need("quoted").String())
	require.EqualValues(t, 12, m.Int("n", 12, 12))
	require.Equal(t, []string{"tier", "8"}, m.Map("on").Keys())
	var got []bool
	for _, v := range m.List("list") {
		got = append(got, v.Map().Bool("a"))
	}
	require.Equal(t, []bool{true, false}, got)
	require.NoError(t, m.Done())
	line, col := m.List("list")[1].At()
	require.Equal(t, [2]int{7, 5}, [2]int{line, col})
}

func TestAbsentReadsAsZeroAndIsNotWrong(t *testing.T) {
	m, err := Parse("f.yaml", []byte("a: 1\n"))
	require.NoError(t, err)
	m.Int("a", 0, 1)
	require.False(t, m.Has("b"))
	require.Empty(t, m.String("b"))
	require.Zero(t, m.Int("b", 5, 6))
	require.False(t, m.Bool("b"))
	require.Empty(t, m.List("b"))
	require.Empty(t, m.Map("b").Map("c").Keys())
	m.Map("b").Need("c").Fail("never said")
	require.NoError(t, m.Done())
}

func TestOtherTypesAreRefused(t *testing.T) {
	text := func(m *Map) { m.String("k") }
	number := func(m *Map) { m.Int("k", 1, 8) }
	truth := func(m *Map) { m.Bool("k") }
	for _, c := range []struct {
		value string
		read  func(*Map)
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
		{"a", func(m *Map) { m.Map("k") }, "not a map"}, {"[a]", func(m *Map) { m.Map("k") }, "not a map"},
		{"a", func(m *Map) { m.List("k") }, "not a list"}, {"{a: b}", func(m *Map) { m.List("k") }, "not a list"},
	} {
		m, err := Parse("f.yaml", []byte("k: "+c.value+"\n"))
		require.NoError(t, err, c.value)
		c.read(m)
		var e *Error
		require.ErrorAs(t, m.Done(), &e, c.value)
		require.Contains(t, e.Msg, c.msg, c.value)
		require.Equal(t, [2]int{1, 4}, [2]int{e.Line, e.Column})
	}
	for _, v := range []string{"1", "8"} {
		m, err := Parse("f.yaml", []byte("k: "+v+"\n"))
		require.NoError(t, err)
		number(m)
		require.NoError(t, m.Done(), v)
	}
}

func TestUnknownKeysAreRefusedEverywhere(t *testing.T) {
	m, err := Parse("f.yaml", []byte("a: 1\nm:\n  b: 1\n  scratch: true\n"))
	require.NoError(t, err)
	m.Int("a", 0, 9)
	m.Map("m").Int("b", 0, 9)
	var e *Error
	require.ErrorAs(t, m.Done(), &e)
	require.Equal(t, "scratch", e.Key)
	require.Equal(t, "m", e.In)
	require.Equal(t, "f.yaml:4:3: unknown key scratch in m, in: scratch: true", e.Error())
}

func TestTheErrorNearestToTheBeginningIsTheOneReported(t *testing.T) {
	m, err := Parse("f.yaml", []byte("zz: 1\nb: 1\na: 1\n"))
	require.NoError(t, err)
	m.Bool("a")
	m.Bool("b")
	var e *Error
	require.ErrorAs(t, m.Done(), &e)
	require.Equal(t, "zz", e.Key)

	m, err = Parse("f.yaml", []byte("\nb: 1\n"))
	require.NoError(t, err)
	m.Bool("b")
	m.Need("name")
	require.ErrorAs(t, m.Done(), &e)
	require.Contains(t, e.Msg, "name is missing")
}

func TestSoundUntilSomethingIsWrong(t *testing.T) {
	m, err := Parse("f.yaml", []byte("a: 1\nm: {b: x}\n"))
	require.NoError(t, err)
	sub := m.Map("m")
	m.Int("a", 0, 1)
	require.True(t, m.Sound())
	require.True(t, sub.Sound())
	sub.Int("b", 0, 1)
	require.False(t, m.Sound(), "it is of the whole file")
	require.True(t, m.Map("absent").Sound())
}
