package page

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/web/access"
	"gated/internal/web/gates"
	"gated/internal/web/passkey/passkeytest"
)

func TestWhyAKeyCannotDecide(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	before, after := noon.Add(-time.Hour), noon.Add(time.Hour)
	alice := access.Session{Key: "SHA256:alice", Principal: "alice@example.com"}
	for name, c := range map[string]struct {
		session access.Session
		change  func(*gates.Gate, *api.Request)
		cannot  string
		roles   []op.Role
		reject  op.Role
	}{
		"may": {alice, nil, "", []op.Role{op.Operational}, op.Operational},
		"local": {access.Session{Local: true}, func(_ *gates.Gate, r *api.Request) {
			r.Roles = []op.Role{op.Operational, op.Recovery}
			r.Demands[0].Roles = r.Roles
		}, "", []op.Role{op.Operational, op.Recovery}, op.Operational},
		"decided": {alice, func(_ *gates.Gate, r *api.Request) { r.State = op.StateCancelled },
			"The request is cancelled: there is nothing to sign any more.", nil, ""},
		"cools off": {alice, func(_ *gates.Gate, r *api.Request) { r.State = op.StateAuthorized },
			"All signatures are there. Until it runs, it can be rejected.", nil, op.Operational},
		"runs": {alice, func(_ *gates.Gate, r *api.Request) { r.State = op.StateDispatched },
			"The request is dispatched: there is nothing to sign any more.", nil, ""},
		"away": {alice, func(g *gates.Gate, _ *api.Request) { g.Err = refusal.New(refusal.Unavailable, "away") },
			"The gate does not answer as it should, so nothing can be signed now.", nil, ""},
		"blocked": {alice, func(g *gates.Gate, _ *api.Request) { g.Trust.Blocked = true },
			"The gate cannot read its list of revoked keys, so it refuses each signature.", nil, ""},
		"revoked": {alice, func(g *gates.Gate, _ *api.Request) { g.Trust.Revoked = []string{"SHA256:alice"} },
			"Your passkey is revoked at this gate.", nil, ""},
		"not listed": {access.Session{Key: "SHA256:eve"}, nil, "Your passkey is not listed at this gate.", nil, ""},
		"a session of nobody": {access.Session{}, func(g *gates.Gate, _ *api.Request) { g.Trust.Signers[0].Fingerprint = "" },
			"Your passkey is not listed at this gate.", nil, ""},
		"another role": {alice, func(g *gates.Gate, _ *api.Request) { g.Trust.Signers[0].Roles = []op.Role{"manager"} },
			"This needs a signature as operational, and your passkey signs as manager.", nil, ""},
		"no role": {alice, func(g *gates.Gate, _ *api.Request) { g.Trust.Signers[0].Roles = nil },
			"This needs a signature as operational, and your passkey signs as no role.", nil, ""},
		"an authority's key": {alice, func(g *gates.Gate, _ *api.Request) { g.Trust.Signers[0].CA = true },
			"Your passkey is not listed at this gate.", nil, ""},
		"too early": {alice, func(g *gates.Gate, _ *api.Request) { g.Trust.Signers[0].ValidAfter = &after },
			"Your passkey is not listed at this gate.", nil, ""},
		"too late": {alice, func(g *gates.Gate, _ *api.Request) { g.Trust.Signers[0].ValidBefore = &before },
			"Your passkey is not listed at this gate.", nil, ""},
		"just in time": {alice, func(g *gates.Gate, _ *api.Request) {
			g.Trust.Signers[0].ValidAfter, g.Trust.Signers[0].ValidBefore = &noon, &noon
		}, "", []op.Role{op.Operational}, op.Operational},
		"signed": {alice, func(_ *gates.Gate, r *api.Request) {
			r.Signatures = []api.Signature{{Principal: alice.Principal, Role: op.Operational}}
		}, "You have signed this already. Another person has to sign now.", nil, op.Operational},
		"signed, and another gate has the key under another name": {access.Session{Key: alice.Key, Principal: "a.smith@example.com"},
			func(_ *gates.Gate, r *api.Request) {
				r.Signatures = []api.Signature{{Principal: alice.Principal, Role: op.Operational}}
			}, "You have signed this already. Another person has to sign now.", nil, op.Operational},
		"another gate says that the key is of who signed": {access.Session{Key: alice.Key, Principal: "bob@example.com"},
			func(_ *gates.Gate, r *api.Request) {
				r.Signatures = []api.Signature{{Principal: "bob@example.com", Role: op.Operational}}
			}, "", []op.Role{op.Operational}, op.Operational},
		"no passkey": {alice, func(_ *gates.Gate, r *api.Request) { r.Demands[0].NoPasskey = true },
			"A rule asks for a key that is no passkey: sign in a terminal, with opsign approve j1.1.", nil, op.Operational},
		"asked": {alice, func(_ *gates.Gate, r *api.Request) { r.Demands[0].NotRequester = true },
			"A rule takes no signature of the person who asked, and this gate does not know you as another one. Another person has to sign.",
			nil, op.Operational},
		"did not ask": {alice, func(_ *gates.Gate, r *api.Request) {
			r.Demands[0].NotRequester, r.Demands[0].Could = true, []string{alice.Principal}
		}, "", []op.Role{op.Operational}, op.Operational},
		"did not ask, and has another name at this gate": {alice, func(g *gates.Gate, r *api.Request) {
			g.Trust.Signers[0].Principal = "alice@pve1"
			r.Demands[0].NotRequester, r.Demands[0].Could = true, []string{"alice@pve1"}
		}, "", []op.Role{op.Operational}, op.Operational},
		"asked, and another person of this gate has the session's name": {alice, func(g *gates.Gate, r *api.Request) {
			g.Trust.Signers[0].Principal = "alice@pve1"
			r.Demands[0].NotRequester, r.Demands[0].Could = true, []string{alice.Principal}
		}, "A rule takes no signature of the person who asked, and this gate does not know you as another one. Another person has to sign.",
			nil, op.Operational},
		"asked for a rotation, and proves a role of the same key": {alice, func(_ *gates.Gate, r *api.Request) {
			r.Demands[0].NotRequester, r.Owed = true, []string{alice.Key + " coordination"}
		}, "", []op.Role{op.Coordination, op.Operational}, op.Operational},
		"no passkey on this machine": {access.Session{Local: true}, func(_ *gates.Gate, r *api.Request) { r.Demands[0].NoPasskey = true },
			"A rule asks for a key that is no passkey: sign in a terminal, with opsign approve j1.1.", nil, op.Operational},
		"owed": {access.Session{Key: "SHA256:new", Principal: alice.Principal}, func(_ *gates.Gate, r *api.Request) {
			r.Owed = []string{"SHA256:new recovery", "SHA256:other operational"}
			r.Signatures = []api.Signature{{Principal: alice.Principal, Role: op.Operational}}
		}, "", []op.Role{op.Recovery}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := gates.Gate{Known: gates.Known{Name: "pve1"}, Trust: api.Trust{Signers: []api.Signer{
				{Principal: alice.Principal, Fingerprint: alice.Key, Roles: []op.Role{op.Operational}}}}}
			r := api.Request{ID: "j1.1", State: op.StatePending, Class: op.Destructive, Target: "guest/web-1", Roles: []op.Role{op.Operational},
				Demands: []api.Demand{{Roles: []op.Role{op.Operational}, Threshold: 2}}}
			if c.change != nil {
				c.change(&g, &r)
			}
			d := Config{Now: func() time.Time { return noon }}.decision(c.session, g, r)
			require.Equal(t, c.cannot, d.Cannot)
			require.Equal(t, c.roles, d.Roles)
			require.Equal(t, c.reject, d.RejectRole)
			require.Equal(t, "web-1", d.Typed)
			require.False(t, d.Terminal)
		})
	}
}

func TestAddedLinesOfAnyForm(t *testing.T) {
	t.Parallel()
	r := api.Request{Op: op.Rotate, State: op.StatePending, Params: op.Params{"add": []any{"a line", int64(1)}}}
	require.Equal(t, []string{"a line"}, addedLines(r))
	r.Params = op.Params{"add": "a line"}
	require.Empty(t, addedLines(r))
	r.Params = op.Params{"add": []any{"a line"}}
	r.State = op.StateRejected
	require.Empty(t, addedLines(r), "it is not open")
	r.State, r.Op = op.StatePending, "guest.destroy"
	require.Empty(t, addedLines(r))
}

// A gate keeps a proof of possession apart from signatures: it says only that none is owed
// any more.
func TestAKeyThatProvedItself(t *testing.T) {
	t.Parallel()
	d := passkeytest.New(t, "localhost", "http://localhost:1")
	r := api.Request{ID: "j1.1", Op: op.Rotate, State: op.StatePending, Roles: []op.Role{op.Operational},
		Params: op.Params{"add": []any{line(d, "carol@example.com", op.Operational)}}, Owed: []string{d.Key.Fingerprint() + " operational"}}
	session := access.Session{Key: d.Key.Fingerprint(), Principal: "carol@example.com"}
	require.Equal(t, []op.Role{op.Operational}, Config{Now: time.Now}.decision(session, gates.Gate{}, r).Roles)
	r.Owed = nil
	require.Equal(t, "Your passkey has proved itself. Those who are listed have to sign now.",
		Config{Now: time.Now}.decision(session, gates.Gate{}, r).Cannot)
}

func TestNoPasskeyOfThesePages(t *testing.T) {
	t.Parallel()
	c := Config{RPID: "localhost", Now: time.Now}
	d, other := passkeytest.New(t, "localhost", "http://localhost:1"), passkeytest.New(t, "example.com", "https://example.com")
	gate := func(lines ...string) gates.Gate { return gates.Gate{Trust: api.Trust{Text: strings.Join(lines, "\n")}} }
	require.True(t, c.anyPasskey(gate(line(other, "bob@example.com", op.Operational), line(d, "carol@example.com", op.Operational)), api.Request{}))
	require.False(t, c.anyPasskey(gate(line(other, "bob@example.com", op.Operational)), api.Request{}))
	is := decision{ID: "j1.1", Roles: []op.Role{op.Operational}, RejectRole: op.Operational}
	require.Equal(t, decision{ID: "j1.1", Cannot: "No passkey of this page is listed at this gate. In a terminal: opsign approve j1.1."}, is.withoutPasskeys())
	is.Terminal = true
	require.Equal(t, decision{ID: "j1.1", Terminal: true}, is.withoutPasskeys())
}
