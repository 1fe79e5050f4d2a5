package browser_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/browser"
	"gated/internal/test/must"
	"gated/internal/web/gates"
	"gated/internal/web/passkey"
)

// A rule asks for verification. The authenticator that only asks for a touch signs nothing
// that counts; the page asks the browser to insist on it, and the gate looks at the flag.
func TestARuleAsksForVerification(t *testing.T) {
	t.Parallel()
	g := newGate(t, "policy:\n  rules:\n    - {op: guest.destroy, role: operational, touch: verification, threshold: 1}\n")
	tab := browser.Start(t).Tab(t)
	device := tab.Authenticator(browser.SecurityKey)
	g.enrol(tab, "carol@example.com")
	id := g.doomed("web-1", "no longer needed")
	tab.Open(g.address(id))
	tab.WaitText("form", "A rule asks that your authenticator recognises you")
	device.Unverified(true)
	g.approve(tab)
	tab.WaitText("form [role=status]", "this needs a security key with a touch and a PIN or fingerprint")
	g.ended(id, op.StatePending)
	g.run("gated", "submit", "guest.create", "web-2", "--wait")
	tab.WaitText("#live", "This page changed") // and what a person reads stays
	require.Contains(t, tab.Text("form [role=status]"), "this needs a security key")
	device.Unverified(false)
	tab.Click("#approve")
	g.ended(id, op.StateSucceeded)
	g.keygenVerifies(id, "carol@example.com")
}

func TestACoolOffIsStopped(t *testing.T) {
	t.Parallel()
	g := newGate(t, "policy:\n  rules:\n    - {op: guest.destroy, role: operational, threshold: 1, cool_off: 1h}\n")
	tab := browser.Start(t).Tab(t)
	tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	id := g.doomed("web-1", "no longer needed")
	tab.Open(g.address(id))
	g.approve(tab)
	tab.WaitText("main", "All signatures are there. Until it runs, it can be rejected.")
	g.ended(id, op.StateAuthorized)
	g.keygenVerifies(id, "carol@example.com")
	tab.Type("#reason", "it is in use after all")
	tab.Click("#reject")
	g.ended(id, op.StateRejected)
	tab.WaitText("main", "The request is rejected")
}

func TestTheGateIsStartedAnew(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	id := g.doomed("web-1", "no longer needed")
	tab.Open(g.address(id))
	tab.Wait("#approve")
	g.halt(g.daemon)
	tab.WaitText("main", "The gate does not answer as it should") // what is known of the request stays
	tab.WaitGone("#approve")
	g.serve()
	g.until(func(s gates.Gate) bool { return s.Err == nil })
	g.approve(tab)
	g.ended(id, op.StateSucceeded)
	g.keygenVerifies(id, "carol@example.com")
}

// An agent serves a page on another port of localhost, and gets the payload of a request. Its
// visitor's passkey signs that, because it is one of localhost. The gate refuses the origin,
// although ssh-keygen takes the signature.
func TestAPageOfAnotherPort(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	id := g.doomed("web-1", "no longer needed")
	payload := must.Get(g.client.Payload(context.Background(), id))(t)
	challenge := passkey.Challenge(namespace, payload)

	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<title>game</title>") }))
	t.Cleanup(other.Close)
	tab.Open(strings.Replace(other.URL, "127.0.0.1", "localhost", 1))
	text := browser.Eval[string](tab, `(async () => {
		const bytes = (t) => Uint8Array.from(atob(t), (c) => c.charCodeAt(0));
		const text = (b) => btoa(String.fromCharCode(...new Uint8Array(b))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
		const made = await navigator.credentials.get({publicKey: {
			challenge: bytes("`+base64.StdEncoding.EncodeToString(challenge)+`"), rpId: "localhost"}});
		const r = made.response;
		return JSON.stringify({id: text(made.rawId), clientDataJSON: text(r.clientDataJSON),
			authenticatorData: text(r.authenticatorData), signature: text(r.signature)});
	})()`)
	a := must.Get(passkey.DecodeAssertion([]byte(text)))(t)
	key, ok := a.Made(passkey.Listed(g.set.All()[0].Trust.Text)...)
	require.True(t, ok)
	armored := must.Get(a.Armor(key, namespace, challenge))(t)
	_, err := g.client.Approve(context.Background(), id, api.EnvelopeOf(payload, armored))
	require.ErrorIs(t, err, refusal.OriginMismatch)
	g.ended(id, op.StatePending)
}

// A page of another name whose address is changed to this host's reaches the console's port,
// and is told nothing.
func TestAReboundHost(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(g.origin, "http://"))
	require.NoError(t, err)
	tab.Open("http://rebound.test:" + port + "/sign-in")
	tab.WaitText("body", "pages are not at")
	require.NotContains(t, tab.Text("body"), "passkey is listed")
}

// A key that signs for one gate is told nothing of another.
func TestAStrangerSeesNothing(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	tab.Authenticator(browser.Phone)
	id := g.doomed("web-1", "a secret plan")
	tab.Open(g.origin + "/enrol")
	tab.Type("#principal", "mallory@example.com")
	tab.Click("#enrol")
	tab.Wait("#made")
	tab.Open(g.address(id))
	tab.Click("#sign-in")
	tab.WaitText("form [role=status]", "not listed")
	require.NotContains(t, tab.Text("body"), "secret")
	g.until(func(s gates.Gate) bool { return s.Err == nil && len(s.Requests) == 1 })
}
