package page

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// trial makes what the page posts of a new key.
func (p *person) trial() enrolIn {
	c := asked[ceremony](p, "/enrol/challenge", struct{}{})
	return enrolIn{Message: c.Message, Assertion: p.signed(c), Key: text64(p.device.SPKI), Principal: "alice@example.com", Role: op.Operational}
}

func TestEnrolShowsTheLine(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	p := c.person(c.device())
	out := asked[enrolled](p, "/enrol", p.trial())
	require.Equal(t, line(p.device, "alice@example.com", op.Operational), out.Line)
	require.Equal(t, p.device.Key.Fingerprint(), out.Fingerprint)
	require.Equal(t, `gated trust rotate --add '`+out.Line+`' --reason "a passkey of alice@example.com"`, out.Command)
	require.False(t, out.Synced)
	p.device.Flags = 0x1d
	require.True(t, asked[enrolled](p, "/enrol", p.trial()).Synced)
}

func TestEnrolRefuses(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	p, other := c.person(c.device()), c.person(c.device())

	used := p.trial()
	asked[enrolled](p, "/enrol", used)
	require.Equal(t, refusal.Expired, p.refused("/enrol", used).Code)

	in := p.trial()
	in.Key = text64(other.device.SPKI)
	require.Equal(t, refusal.BadSignature, p.refused("/enrol", in).Code)

	for _, name := range []string{"", "a b", "a'b", "a\"b", "*", "!a", "a,b", "-a", "a\n", "$(x)", "ä"} {
		in = p.trial()
		in.Principal = name
		require.Equal(t, refusal.BadParams, p.refused("/enrol", in).Code, "%q", name)
	}
	for _, role := range []op.Role{"", `x" y`, "a b", "'"} {
		in = p.trial()
		in.Role = role
		require.Equal(t, refusal.BadParams, p.refused("/enrol", in).Code, "%q", role)
	}
	in = p.trial()
	in.Key = "AAAA"
	require.Equal(t, refusal.Malformed, p.refused("/enrol", in).Code)

	// As KeePassXC orders them.
	p.device.ClientData = func(challenge string) string {
		return fmt.Sprintf(`{"challenge":%q,"crossOrigin":false,"origin":%q,"type":"webauthn.get"}`, challenge, c.origin)
	}
	problem := p.refused("/enrol", p.trial())
	require.Equal(t, refusal.Malformed, problem.Code)
	require.Contains(t, problem.Detail, "order that OpenSSH refuses")
	require.Contains(t, problem.Hint, "KeePassXC")
}
