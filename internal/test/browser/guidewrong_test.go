package browser_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/test/browser"
	"gated/internal/test/must"
)

// looksElsewhere is the independent look, and the rule that asks for more.
func (r *reader) looksElsewhere(tab *browser.Tab) {
	rule := strings.TrimRight(r.guide.block("policy:\n"), "\n") + "\n      " + r.guide.inline("touch: verification") + "\n"
	r.settle(rule)
	r.sh(0, r.guide.inline("gated reload"))
	id := r.doom("shop", "-p", "labels.tier=prod")
	tab.Open(r.link(id))
	tab.WaitText(".cannot", "A rule asks for a key that is no passkey: sign in a terminal, with opsign approve "+id)
	look := strings.Replace(r.guide.inline("opsign show "), "j12.1", id, 1)
	require.Contains(r.t, r.sh(0, look), strings.ToUpper(tab.Text("main h1 b"))+" guest/shop on vm1")
	r.run("gated", "cancel", strings.TrimSuffix(id, ".1"))
	r.resettle(rule, "")
}

// resettle changes a text of gated.yaml, which has to be there.
func (r *reader) resettle(text, other string) {
	r.t.Helper()
	path := r.path("state/gated.yaml")
	was := string(must.Get(os.ReadFile(path))(r.t))
	require.Equal(r.t, 1, strings.Count(was, text), "%q in %s", text, was)
	require.NoError(r.t, os.WriteFile(path, []byte(strings.Replace(was, text, other, 1)), 0o600))
	r.sh(0, r.guide.inline("gated reload"))
}

// anotherOrder makes the tab's page one of a vault that writes the members of the client data in
// another order than browsers, and signs that with the passkey.
func (r *reader) anotherOrder(tab *browser.Tab) {
	r.t.Helper()
	require.True(r.t, browser.Eval[bool](tab, `(async () => {
	const secret = Uint8Array.from(atob("`+base64.StdEncoding.EncodeToString(r.device.Passkeys()[0].PrivateKey)+`"), (c) => c.charCodeAt(0));
	const key = await crypto.subtle.importKey("pkcs8", secret, {name: "ECDSA", namedCurve: "P-256"}, false, ["sign"]);
	const number = (bytes) => { // of a signature, as DER has it
		let n = [...bytes];
		while (n[0] === 0) n.shift();
		if (n[0] & 0x80) n.unshift(0);
		return [2, n.length, ...n];
	};
	const get = navigator.credentials.get.bind(navigator.credentials);
	navigator.credentials.get = async (options) => {
		const made = await get(options), r = made.response;
		const {type, ...rest} = JSON.parse(new TextDecoder().decode(r.clientDataJSON));
		const clientDataJSON = new TextEncoder().encode(JSON.stringify({...rest, type}));
		const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", clientDataJSON));
		const signed = Uint8Array.from([...new Uint8Array(r.authenticatorData), ...hash]);
		const pair = new Uint8Array(await crypto.subtle.sign({name: "ECDSA", hash: "SHA-256"}, key, signed));
		const both = [...number(pair.slice(0, 32)), ...number(pair.slice(32))];
		return {rawId: made.rawId, response: {clientDataJSON, authenticatorData: r.authenticatorData,
			signature: Uint8Array.from([0x30, both.length, ...both]), userHandle: r.userHandle}};
	};
	return true;
})()`))
}

// goesWrong reads the sentences of the table, each of the program that it is about.
func (r *reader) goesWrong(tab *browser.Tab) {
	r.run("gated", "submit", "guest.create", "db", "--wait")
	r.run("gated", "submit", "guest.snapshot", "db", "-p", "snapshot=monday", "--wait")
	id := r.asks("guest.destroy", "db", "--reason", "no longer needed")
	tries := func() {
		r.t.Helper()
		tab.Open(r.link(id))
		r.gate.approve(tab)
		r.guide.reads(r.saidNo(tab))
	}
	section := r.guide.block("passkeys:\n")
	for _, c := range []struct{ text, other string }{
		{section, "# without the section\n"},
		{r.origin, r.origin + ":8443"},
		{"synced: allow", "synced: refuse"},
	} {
		r.resettle(section, strings.Replace(section, c.text, c.other, 1))
		tries()
		r.resettle(strings.Replace(section, c.text, c.other, 1), section)
	}

	tab.Open(r.link(id))
	r.begin(tab)
	r.anotherOrder(tab)
	r.gate.approve(tab)
	r.guide.reads(r.saidNo(tab))

	tab.Open(strings.Replace(r.origin, "console.", "other.", 1) + "/")
	r.guide.reads(tab.Text("main"))

	tab.Open(r.link(id))
	r.begin(tab)
	r.run("opsign", "approve", r.asks("guest.snapshot-delete", "db", "-p", "snapshot=monday"), "--yes")
	tab.WaitText("#live", "This page changed")
	r.gate.approve(tab)
	r.guide.reads(r.saidNo(tab))
	require.Empty(r.t, must.Get(r.client.Request(context.Background(), id))(r.t).Signatures)
	tab.Reload()
	r.gate.approve(tab)
	r.done(id)
}

// behindAProxy has the console listen at a unix socket, and a proxy of this host speak TLS. A second
// phone has the passkey of the first one, as an account copies it.
func (r *reader) behindAProxy() {
	path := r.path("etc/console.env")
	was := string(must.Get(os.ReadFile(path))(r.t))
	first, _, _ := strings.Cut(was, "\n")
	require.NoError(r.t, os.WriteFile(path, []byte(first+"\n"+r.guide.inline("ARGS=")+"\n"), 0o600))
	r.console.stop()
	at := r.console.start()
	info := must.Get(os.Stat(at))(r.t)
	require.Equal(r.t, os.FileMode(0o660), info.Mode().Perm(), "the proxy's user is in the console's group")
	require.Contains(r.t, r.guide.text, "The proxy has to pass the header `Host` on.")
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{
		FlushInterval: -1, // what is live comes at once
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host = "http", "console"
			p.Out.Host = p.In.Host
			p.SetXForwarded()
		},
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", at)
		}},
	})
	pair := must.Get(tls.LoadX509KeyPair(r.path("console.crt"), r.path("console.key")))(r.t)
	proxy.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	proxy.StartTLS()
	r.t.Cleanup(proxy.Close)
	tab := browser.StartAt(r.t, proxy.Listener.Addr().String(), r.cert).Tab(r.t)
	tab.Authenticator(browser.Phone).Add(r.device.Passkeys()[0])
	id := r.doom("web-4")
	r.signsIn(tab, r.link(id))
	r.gate.approve(tab)
	r.done(id)
}

// onTheOwnMachine is the section about opsign web: its terminal asks.
func (r *reader) onTheOwnMachine(tab *browser.Tab) {
	s := r.types(strings.TrimSpace(r.guide.block("opsign web\n")))
	address := strings.TrimSpace(s.shows("\n"))
	tab.Open(address)
	_, known, _ := strings.Cut(r.sh(0, r.guide.inline("opsign known")), "\n") // below its heading
	require.NotEmpty(r.t, known)
	for gate := range strings.Lines(known) {
		tab.WaitText("body", strings.Fields(gate)[1]) // its host
	}
	id := r.doom("web-5")
	origin, _, _ := strings.Cut(address, "/launch")
	tab.Open(strings.Replace(r.link(id), r.origin, origin, 1))
	tab.Click("#terminal-approve")
	require.Contains(r.t, s.agrees(), "guest/web-5")
	r.run("gated", "wait", strings.TrimSuffix(id, ".1"))
	require.Empty(r.t, must.Get(r.client.Request(context.Background(), id))(r.t).Signatures[0].Origin, "a usual key signed")
}
