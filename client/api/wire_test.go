package api

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

var at = time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("x", 3600))

// members returns the names of an object's members; no value may be missing.
func members(t *testing.T, v any) map[string]string {
	t.Helper()
	b := must.Get(Encode(v))(t)
	require.NotContains(t, string(b), "\n")
	var m map[string]jsontext.Value
	require.NoError(t, DecodeAnswer(b, &m))
	out := map[string]string{}
	for k, raw := range m {
		out[k] = string(raw)
	}
	return out
}

func requireMembers(t *testing.T, v any, names string) map[string]string {
	t.Helper()
	m := members(t, v)
	for _, name := range strings.Fields(names) {
		require.Contains(t, m, name)
	}
	return m
}

func TestEmptyListsAreNotNull(t *testing.T) {
	for _, v := range []any{OpList{}, JobList{}, RequestList{}, GuestList{}, SetList{}, EntryList{}} {
		require.Contains(t, string(must.Get(Encode(v))(t)), ":[]", "%T", v)
	}
}

func TestEntryKeepsItsText(t *testing.T) {
	raw := `{"seq":7,"time":"2026-03-04T04:06:07.5Z","kind":"approved","by":"uid:0","later":{"x":1},"prev":"00"}`
	e := must.Get(ParseEntry([]byte(raw)))(t)
	require.Equal(t, int64(7), e.Seq)
	require.Equal(t, "approved", e.Kind)
	b := must.Get(Encode(EntryList{Entries: []Entry{e}, Users: Users{"uid:0": "root"}}))(t)
	require.Equal(t, `{"entries":[`+raw+`],"users":{"uid:0":"root"}}`, string(b))
	var back EntryList
	require.NoError(t, DecodeAnswer(b, &back))
	require.Equal(t, []Entry{e}, back.Entries)
}

func TestHealthy(t *testing.T) {
	require.True(t, Status{Health: []Health{{OK: true}}}.Healthy())
	require.False(t, Status{Health: []Health{{OK: true}, {OK: false}}}.Healthy())
}
