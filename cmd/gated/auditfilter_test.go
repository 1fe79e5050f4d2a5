package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/test/must"
)

func TestMomentOf(t *testing.T) {
	now := time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-03-01":                time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		"2026-03-01 12:30":          time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC),
		"2026-03-01 12:30:15":       time.Date(2026, 3, 1, 12, 30, 15, 0, time.UTC),
		"2026-03-01 12:30:15Z":      time.Date(2026, 3, 1, 12, 30, 15, 0, time.UTC), // as an older gated printed it
		"2026-03-01T12:30:15.5Z":    time.Date(2026, 3, 1, 12, 30, 15, 5e8, time.UTC),
		"2026-03-01T12:30:15+01:00": time.Date(2026, 3, 1, 11, 30, 15, 0, time.UTC),
		"90m":                       now.Add(-90 * time.Minute),
	} {
		got := must.Get(momentOf("since", text, now))(t, text)
		require.True(t, want.Equal(got), "%s: %s", text, got)
	}
	for _, text := range []string{"yesterday", "-1h", "0s", "2026-13-01", "12:00", " ", "1\x1b[2J"} {
		_, err := momentOf("since", text, now)
		require.Equal(t, api.ExitUsage, api.Exit(err), text)
		require.NotContains(t, err.Error(), "\x1b")
	}
}

func TestWhichEntriesAreWanted(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := api.Entry{Time: at, Kind: "approved", Target: "guest/web-1",
		Signers: []string{"alice@example.com operational SHA256:aa ca=SHA256:bb flags=0x05 counter=17", "bob operational SHA256:cc"}}
	for name, f := range map[string]entryFilter{
		"all": {}, "since": {from: at}, "until": {to: at.Add(1)}, "target": {target: "guest/web-1"}, "name": {target: "web-1"},
		"kind": {kinds: []string{"refused", "approved"}}, "principal": {signer: "bob"}, "key": {signer: "SHA256:aa"}, "authority": {signer: "SHA256:bb"},
		"both": {from: at, to: at.Add(1), target: "web-1", signer: "alice@example.com", kinds: []string{"approved"}},
	} {
		require.True(t, f.wants(e), name)
		require.Equal(t, name == "all", f.all(), name)
	}
	for name, f := range map[string]entryFilter{
		"before": {from: at.Add(1)}, "after": {to: at}, "another": {target: "web-2"}, "part of a name": {target: "eb-1"}, "kind alone": {target: "guest"},
		"kind": {kinds: []string{"approve"}}, "role": {signer: "operational"}, "part": {signer: "alice"}, "flags": {signer: "0x05"},
		"one of both": {target: "web-1", signer: "carol"},
	} {
		require.False(t, f.wants(e), name)
	}
}
