package page

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/web/gates"
	"gated/internal/web/passkey/passkeytest"
)

func TestAListedPasskeySignsIn(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	p := c.person(c.device())
	status, _ := p.get("/events")
	require.Equal(t, http.StatusOK, status, "sent to /sign-in, which is open")
	c.gate.list(p.device, "alice@example.com", op.Operational)
	c.caught()
	p.signIn()
	_, b := p.get("/")
	require.Contains(t, string(b), "Nothing waits at 1 gate.")
}

func TestSignInRefuses(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	p, stranger := c.person(c.device()), c.person(c.device())
	c.gate.list(p.device, "alice@example.com", op.Operational)
	c.caught()

	used := p.begin()
	asked[next](p, "/sign-in", used)
	require.Equal(t, refusal.Expired, p.refused("/sign-in", used).Code, "used twice")

	late := p.begin()
	c.clock.move(challengeLasts)
	require.Equal(t, refusal.Expired, p.refused("/sign-in", late).Code, "two minutes later")

	require.Equal(t, refusal.UnknownSigner, stranger.refused("/sign-in", stranger.begin()).Code)

	trial := p.trial()
	require.Equal(t, refusal.Expired, p.refused("/sign-in", signInIn{Message: trial.Message, Assertion: trial.Assertion}).Code, "a trial of a new key")

	made := p.begin()
	made.Message = text64([]byte("gated: sign-in\n"))
	require.Equal(t, refusal.Expired, p.refused("/sign-in", made).Code, "a message of its own")

	swapped := p.begin()
	swapped.Assertion = p.begin().Assertion
	require.Equal(t, refusal.NamespaceMismatch, p.refused("/sign-in", swapped).Code, "of another challenge")

	broken := p.begin()
	broken.Assertion = []byte(`{"id":"AAAA"}`)
	require.Equal(t, refusal.Malformed, p.refused("/sign-in", broken).Code)
	require.Equal(t, refusal.Expired, p.refused("/sign-in", map[string]string{"message": "AAAA"}).Code)
	require.Equal(t, refusal.Malformed, p.refused("/sign-in", map[string]string{"messages": "AAAA"}).Code)
	require.Equal(t, refusal.Malformed, p.refused("/sign-in", []string{}).Code)

	other := c.person(passkeytest.New(t, "localhost", "http://localhost:1"))
	c.gate.list(other.device, "bob@example.com", op.Operational)
	c.caught()
	other.refused("/sign-in", other.begin())

	c.gate.change(func() { c.gate.revoked = []string{p.device.Key.Fingerprint()} })
	c.caught()
	require.Equal(t, refusal.SignerRevoked, p.refused("/sign-in", p.begin()).Code)
	c.gate.change(func() { c.gate.revoked, c.gate.blocked = nil, true })
	c.caught()
	require.Equal(t, refusal.UnknownSigner, p.refused("/sign-in", p.begin()).Code)
}

func TestSignInGoesToPathsOfItsOwnAlone(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	p := c.person(c.device())
	c.gate.list(p.device, "alice@example.com", op.Operational)
	c.caught()
	for _, to := range []string{"https://evil.example.com/", "//evil.example.com/", "javascript:alert(1)", `/\evil.example.com`, ""} {
		in := p.begin()
		in.To = to
		require.Equal(t, "/", asked[next](p, "/sign-in", in).To, to)
	}
	_, b := p.get(`/sign-in?to=%22%3E%3Cscript%3E`)
	require.NotContains(t, string(b), "<script>\"")
	require.Contains(t, string(b), `data-to="/"`)
}

// rotation makes a request a rotation that adds the passkey of a device.
func rotation(d *passkeytest.Device, principal string) func(*op.Payload, *api.Request) {
	return func(p *op.Payload, r *api.Request) {
		p.Op, p.Target = op.Rotate, op.Signers
		p.Params = op.Params{"epoch": int64(2), "add": []any{line(d, principal, op.Operational)}}
		r.Owed = []string{d.Key.Fingerprint() + " operational"}
	}
}

// A key that is not listed yet has to prove itself. Until then it opens the one request
// that would list it.
func TestAnAddedPasskeySeesItsRotationAlone(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	p := c.person(c.device())
	c.gate.wait(t, "j1.1", nil)
	c.gate.wait(t, "j2.1", rotation(p.device, "carol@example.com"))
	c.caught()
	p.signIn()
	status, _ := p.get("/g/pve1/r/j1.1")
	require.Equal(t, http.StatusNotFound, status)
	status, b := p.get("/g/pve1/r/j2.1")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, string(b), "You sign as operational.")
	require.Contains(t, string(b), "<span>not listed yet</span>", "the name is the word of whoever asked for the rotation")
	require.NotContains(t, string(b), `id="reject"`)
	p.refused("/g/pve1/r/j1.1/challenge", decisionIn{Decision: "approve", Role: op.Operational, Payload: c.payloadOf("j1.1"), Seen: c.seenOf("j1.1")})

	asked[next](p, "/g/pve1/r/j2.1/approve", p.decided("j2.1", "approve", ""))
	c.until(func(g gates.Gate) bool { _, ok := g.Request("j2.1"); return !ok || len(c.gate.arrived()) == 1 })
	c.caught()
	status, _ = p.get("/g/pve1/r/j1.1")
	require.Equal(t, http.StatusNotFound, status)

	c.gate.list(p.device, "carol@example.com", op.Operational)
	c.caught()
	status, b = p.get("/g/pve1/r/j1.1")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, string(b), "<span>carol@example.com</span>", "the session is of before the rotation")
}

func TestSessionsEndWithTheLine(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	c.gate.wait(t, "j1.1", nil)
	p := c.listed("alice@example.com", op.Operational)
	status, _ := p.get("/g/pve1/r/j1.1")
	require.Equal(t, http.StatusOK, status)
	c.gate.change(func() { c.gate.trust, c.gate.signers = "", nil })
	c.caught()
	status, _ = p.get("/g/pve1/r/j1.1")
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, refusal.UnknownTarget, p.refused("/g/pve1/r/j1.1/challenge",
		decisionIn{Decision: "approve", Role: op.Operational, Payload: c.payloadOf("j1.1"), Seen: c.seenOf("j1.1")}).Code)
}

func TestChallengesAreBounded(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := Config{Origin: "https://console.example.com", Now: func() time.Time { return at }}.challenges()
	first, err := s.add("sign-in")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(first),
		"gated: sign-in\norigin: https://console.example.com\ntime: 2026-01-02T03:04:05Z\nrandom: "), "%s", first)
	for range maxChallenges - 1 {
		_, err := s.add("sign-in")
		require.NoError(t, err)
	}
	_, err = s.add("sign-in")
	require.ErrorIs(t, err, refusal.OverLimit)
	require.NoError(t, s.take(toSignIn, first))
	_, err = s.add("sign-in")
	require.NoError(t, err)
	at = at.Add(challengeLasts)
	_, err = s.add("sign-in")
	require.NoError(t, err)
	require.Len(t, s.wait, 1, "those that are over are forgotten")
}

// Whoever has a listed passkey and reaches the port of an operator's own page gets no session
// there.
func TestNobodySignsInOnAnOperatorsOwnMachine(t *testing.T) {
	t.Parallel()
	c := newConsole(t, func(c *Config) { c.Local = true })
	p := c.person(c.device())
	c.gate.list(p.device, "alice@example.com", op.Operational)
	c.caught()
	for _, path := range []string{"/sign-in", "/sign-in/challenge", "/enrol", "/enrol/challenge"} {
		status, _ := p.post(path, struct{}{})
		require.Equal(t, http.StatusUnauthorized, status, path)
	}
}

// No gate makes a sign-in at another one slow by a list without end.
func TestKeysThatAreTriedAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", authz.MaxTrust/4-1)
	g := gates.Gate{}
	for range 10 {
		g.Requests = append(g.Requests, api.Request{Op: op.Rotate, State: op.StatePending, Params: op.Params{"add": []any{long}}})
	}
	require.Len(t, addedAt(g), 4)
	g.Requests[0].Params = op.Params{"add": []any{long + "x"}}
	require.Len(t, addedAt(g), 3)
}
