package doctor

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/refusal"
)

func TestBackEndsAreSaid(t *testing.T) {
	since := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := newPatient(t)
	p.installGit(p.program(judge + "exit 1\n"))
	p.has = []api.Backend{
		{Name: "local", State: api.BackendOK, Findings: []api.Finding{{What: "root", State: "ok", Detail: "/var"}, {What: "limits", State: "note", Detail: "by rlimits", Hint: "name a cgroup"}}},
	}
	r := p.examine()
	require.True(t, r.Sound, "%+v", r.Findings)
	require.Equal(t, Finding{What: "back end local: root", State: OK, Detail: "/var"}, r.of("local: root"))
	require.Equal(t, Finding{What: "back end local: limits", State: Note, Detail: "by rlimits", Hint: "name a cgroup"}, r.of("local: limits"))

	p.has = append(p.has, api.Backend{Name: "proxmox", State: api.BackendAway, Detail: "connection \x1b[2Jrefused", Since: &since,
		Findings: []api.Finding{{What: "reachable", State: "bad", Detail: "refused", Hint: "see whether pveproxy runs"}, {What: "odd", State: "splendid"}}})
	r = p.examine()
	require.False(t, r.Sound)
	require.Equal(t, Bad, r.of("back end proxmox").State)
	require.Contains(t, r.of("back end proxmox").Detail, "2026-03-01T12:00:00Z")
	require.NotContains(t, r.of("back end proxmox").Detail, "\x1b")
	require.Equal(t, "see whether pveproxy runs", r.of("proxmox: reachable").Hint)
	require.Equal(t, Bad, r.of("odd").State, "what is not understood is not taken for good")
}

func TestBackEndsThatAreNotSaid(t *testing.T) {
	p := newPatient(t)
	p.installGit(p.program(judge + "exit 1\n"))
	p.hasErr = refusal.New(refusal.Malformed, "there is no such path")
	r := p.examine()
	require.Equal(t, Note, r.of("back ends").State, "a daemon from before")
	require.True(t, r.Sound)
	p.hasErr = errors.New("broken")
	r = p.examine()
	require.Equal(t, Bad, r.of("back ends").State)

	p.statusErr = errors.New("nobody is there")
	r = p.examine()
	require.Empty(t, r.of("back ends"), "it was said of the daemon")
}
