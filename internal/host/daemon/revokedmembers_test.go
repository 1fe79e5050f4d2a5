package daemon_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// inHealth waits until a check of a member says something.
func (m *groupMember) inHealth(name string, ok bool, says string) {
	m.t.Helper()
	require.Eventually(m.t, func() bool {
		h := m.health(name)
		return h.OK == ok && strings.Contains(h.Detail, says)
	}, patience, 20*time.Millisecond, "%+v\n%s", m.health(name), m.log)
}

// A key that one member revoked does not count again when another one takes over.
func TestAKeyThatTheMemberBeforeRevokedDoesNotCount(t *testing.T) { // S14
	g := newGroup(t)
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	require.True(t, g.second.health("revoked keys").OK)
	request := g.first.waiting("web")
	signed := g.first.envelope(request)
	g.first.revoking(saysOne, g.first.revokes("# stolen\n"+g.first.fingerprint()+"\n"))
	_, err := g.first.client.Approve(t.Context(), request, signed)
	require.ErrorIs(t, err, refusal.SignerRevoked)
	g.second.inHealth("revoked keys", false, "are not those that member node1 revoked")

	g.first.end()
	g.second.becomes(api.RoleActive)
	refused := func() {
		t.Helper()
		_, err := g.second.client.Approve(t.Context(), request, signed)
		require.ErrorIs(t, err, refusal.Unavailable)
		require.ErrorContains(t, err, "copy the file from there")
		require.Equal(t, op.StatePending, must.Get(g.second.client.Request(t.Context(), request))(t).State)
	}
	refused()
	// A file with another key is not in order, and a start of this member changes nothing.
	bob := g.second.person("bob")
	require.NoError(t, os.WriteFile(g.second.revokedFile(), []byte(bob.fingerprint()+"\n"), 0o600))
	refused()
	g.second.end()
	g.second.start(api.RoleActive)
	refused()

	// The file of the member before is.
	require.NoError(t, os.WriteFile(g.second.revokedFile(), must.Get(os.ReadFile(g.first.revokedFile()))(t), 0o600))
	g.second.inHealth("revoked keys", true, "1 in ")
	_, err = g.second.client.Approve(t.Context(), request, signed)
	require.ErrorIs(t, err, refusal.SignerRevoked)
	require.NotZero(t, g.cluster.VMID("web"))
}

// If the file of the member before is lost, an operator says so in the file here.
func TestAnOperatorReplacesALostFileOfRevokedKeys(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	g.second.start(api.RoleStandby)
	request := g.first.waiting("web")
	signed := g.first.envelope(request)
	bob := g.first.person("bob")
	g.first.revoking(saysOne, g.first.revokes(bob.fingerprint()+"\n"))
	g.second.inHealth("revoked keys", false, "are not those")
	g.first.end()
	g.second.becomes(api.RoleActive)
	detail := g.second.health("revoked keys").Detail
	_, line, found := strings.Cut(detail, "# instead of ")
	require.True(t, found, detail)
	line, _, _ = strings.Cut(line, `"`)
	require.NoError(t, os.WriteFile(g.second.revokedFile(), []byte("# instead of "+line+"\n"+g.second.person("carol").fingerprint()+"\n"), 0o600))
	g.second.inHealth("revoked keys", true, "1 in ")
	must.Get(g.second.client.Approve(t.Context(), request, signed))(t)

	// The first member has to follow now.
	g.first.start(api.RoleStandby)
	g.first.inHealth("revoked keys", false, "are not those that member node2 revoked")
}

// A standby says that its policy is another one than the active member's.
func TestAStandbySaysThatItsPolicyDiffers(t *testing.T) {
	t.Parallel()
	g := newGroup(t)
	g.first.start(api.RoleActive)
	g.second.config("policy: {rules: [{op: guest.destroy, threshold: 2}]}\n")
	g.second.start(api.RoleStandby)
	g.second.inHealth("member", false, "is not the one that node1 decides by")
	g.first.config("policy: {rules: [{op: guest.destroy, threshold: 2}]}\n")
	must.Get(g.first.client.Reload(t.Context()))(t)
	g.second.inHealth("member", true, "node2 is a standby")
}
