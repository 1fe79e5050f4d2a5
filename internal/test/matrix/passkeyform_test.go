package matrix_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/mint"
)

// console is the page whose passkeys count in these rows, synced ones too.
var console = op.Passkeys{Origins: []string{mint.Console.Origin}, Synced: true}

// pam is an operator with a passkey.
func pam(w *world) mint.Key { return mint.Passkey(w.t, "pam", mint.Console) }

func pamLine(w *world) string { return pam(w).Line("pam@example.com", lineOptions(operational)) }

// voteIn signs with a key of package mint in a namespace.
func voteIn(k mint.Key, namespace string) vote {
	return func(t testing.TB, payload []byte) string { return mint.Sign(t, k, namespace, payload).Armored() }
}

// browse lists pam and other lines. She approves what is approved for real, so each row ends with a passkey that counts.
func (w *world) browse(lines ...string) {
	w.t.Helper()
	w.rules.Passkeys = console
	w.approver = minted(pam(w))
	w.list(append(lines, pamLine(w))...)
}

// refusedAt asserts a refusal's code and stage, and returns it.
func (w *world) refusedAt(err error, code refusal.Code, stage refusal.Stage) error {
	w.t.Helper()
	require.ErrorIs(w.t, err, code)
	require.Equal(w.t, stage, refusal.As(err).Stage, "%v", err)
	return err
}

// bothWays hands a vote in for a request and as an offline operation. Both end points refuse it alike.
func (w *world) bothWays(v vote, code refusal.Code, stage refusal.Stage) error {
	w.t.Helper()
	r := w.destroyRequest()
	fresh := w.freshPayload(r)
	w.arm()
	_ = w.refusedAt(w.sendOffline(w.by(fresh, v)), code, stage)
	return w.refusedAt(w.send(r.ID, w.by(r.Payload, v)), code, stage)
}

// browsing is a row in which pam's passkey signs the request rightly, in a browser or an authenticator that differs in
// one thing from what counts.
func browsing(id, what string, code refusal.Code, stage refusal.Stage, change func(b *mint.Browser)) attack {
	return attack{id: id, what: what, want: code, run: func(w *world) error {
		w.browse()
		b := mint.Console
		change(&b)
		return w.bothWays(minted(mint.Passkey(w.t, "pam", b)), code, stage)
	}}
}

// writes has the browser write client data with one text in the place of another.
func writes(old, text string) func(b *mint.Browser) {
	return func(b *mint.Browser) {
		b.ClientData = func(c, o string) string { return strings.Replace(mint.ClientData(c, o), old, text, 1) }
	}
}

// challenges has the browser write another challenge for the one that the SSHSIG has.
func challenges(with func(c string) string) func(b *mint.Browser) {
	return func(b *mint.Browser) {
		b.ClientData = func(c, o string) string { return mint.ClientData(with(c), o) }
	}
}

func standardBase64(c string) string {
	raw, _ := base64.RawURLEncoding.DecodeString(c)
	return base64.StdEncoding.EncodeToString(raw)
}

// onPage has a page of another origin ask.
func onPage(id, what, origin string) attack {
	return browsing(id, "a page of "+what+" asks: "+origin, refusal.OriginMismatch, refusal.StageCrypto, func(b *mint.Browser) { b.Origin = origin })
}

// passkeyFormRows are S25: what a browser writes, and for which page.
var passkeyFormRows = []attack{
	browsing("S25a", "the browser made a key and used none", refusal.BadSignature, refusal.StageCrypto, writes("webauthn.get", "webauthn.create")),
	browsing("S25b", "the challenge is of other bytes", refusal.BadSignature, refusal.StageCrypto, challenges(func(c string) string { return c[:len(c)-4] + "AAAA" })),
	browsing("S25c", "the challenge has padding", refusal.BadSignature, refusal.StageCrypto, challenges(func(c string) string { return c + "==" })),
	browsing("S25d", "the challenge is in the other alphabet of base64", refusal.BadSignature, refusal.StageCrypto, challenges(standardBase64)),
	browsing("S25e", "the members are in another order", refusal.BadSignature, refusal.StageCrypto, func(b *mint.Browser) {
		b.ClientData = func(c, o string) string {
			return `{"challenge":"` + c + `","type":"webauthn.get","origin":"` + o + `","crossOrigin":false}`
		}
	}),
	browsing("S25f", "a blank after a colon", refusal.BadSignature, refusal.StageCrypto, writes(`"type":`, `"type": `)),
	browsing("S25g", "a byte-order mark", refusal.BadSignature, refusal.StageCrypto, writes(`{"type`, "\ufeff"+`{"type`)),
	browsing("S25h", "a second challenge after the first one", refusal.Malformed, refusal.StageCrypto, writes(`false}`, `false,"challenge":"AAAA"}`)),
	browsing("S25i", "a second origin, its name with an escape", refusal.Malformed, refusal.StageCrypto, writes(`false}`, `false,"\u006frigin":"https://evil.example"}`)),
	browsing("S25j", "two objects", refusal.Malformed, refusal.StageCrypto, writes(`false}`, `false}{"crossOrigin":false}`)),
	browsing("S25k", "client data of 5 KiB", refusal.Malformed, refusal.StageDecode, writes(`false}`, `false,"x":"`+strings.Repeat("x", 5<<10)+`"}`)),
	browsing("S25l", "the page is in a frame of another site", refusal.OriginMismatch, refusal.StageCrypto, writes(`"crossOrigin":false`, `"crossOrigin":true`)),
	browsing("S25m", "the page says who frames it", refusal.OriginMismatch, refusal.StageCrypto, writes(`false}`, `false,"topOrigin":"https://console.example.com"}`)),
	browsing("S25n", "crossOrigin is neither true nor false", refusal.OriginMismatch, refusal.StageCrypto, writes(`"crossOrigin":false`, `"crossOrigin":null`)),
	browsing("S25o", "the client data has another origin than the signature", refusal.BadSignature, refusal.StageCrypto, writes("https://console", "https://other")),
	onPage("S25p", "another port", "https://console.example.com:8443"),
	onPage("S25q", "the same port, which no browser writes", "https://console.example.com:443"),
	onPage("S25r", "another scheme", "http://console.example.com"),
	onPage("S25s", "another host", "https://evil.example"),
	onPage("S25t", "the parent domain", "https://example.com"),
	onPage("S25u", "a host below", "https://agents.console.example.com"),
	onPage("S25v", "a host whose name ends so", "https://evilconsole.example.com"),
	onPage("S25w", "the host in other letters", "https://Console.example.com"),
	onPage("S25x", "the host with a dot at its end", "https://console.example.com."),
	onPage("S25y", "no site", "null"),
	onPage("S25z", "an app", "android:apk-key-hash:2FM4-bQb6n"),
}
