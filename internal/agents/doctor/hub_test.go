package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
)

func TestTheHubIsSaid(t *testing.T) {
	p := newPatient(t)
	p.installGit(p.program(judge + "exit 1\n"))
	require.Empty(t, p.examine().of("hub"), "none is configured")

	read := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p.hub = &api.Hub{URL: "https://hub.example.com", Revision: "r1", ReadAt: &read}
	r := p.examine()
	require.True(t, r.Sound, "%+v", r.Findings)
	require.Equal(t, Finding{What: "hub", State: OK, Detail: "https://hub.example.com: revision r1, read 2026-03-01T12:00:00Z"}, r.of("hub"))

	for code, hint := range map[refusal.Code]string{refusal.NotAllowed: "chmod 600", refusal.Unavailable: "the hub runs", refusal.UnknownTarget: "a directory",
		refusal.Malformed: "guides/hub"} {
		p.hub.Error = &api.Error{Code: code, Detail: "what \x1b[2J is wrong"}
		r = p.examine()
		require.False(t, r.Sound)
		require.Equal(t, Bad, r.of("hub").State)
		require.Contains(t, r.of("hub").Detail, "2026-03-01T12:00:00Z")
		require.Contains(t, r.of("hub").Detail, "is wrong")
		require.NotContains(t, r.of("hub").Detail, "\x1b")
		require.Contains(t, r.of("hub").Hint, hint)
	}

	p.hub = &api.Hub{URL: "https://hub.example.com"}
	r = p.examine()
	require.True(t, r.Sound)
	require.Equal(t, Note, r.of("hub").State, "it was not asked yet")
	p.hub.ReadAt, p.hub.RelayError = &read, &api.Error{Code: refusal.Oversized, Detail: "too many"}
	p.hub.ReportError = &api.Error{Code: refusal.NotAllowed, Detail: "the hub answered 401"}
	r = p.examine()
	require.Equal(t, "too many", r.of(whatHubRelays).Detail)
	require.Equal(t, "the hub answered 401", r.of(whatHubReports).Detail)
	require.False(t, r.Sound)
}
