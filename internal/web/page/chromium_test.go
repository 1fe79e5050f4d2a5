package page

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/browser"
)

// enrolled makes a passkey in a tab, and has the gate list it.
func (c *console) enrolled(tab *browser.Tab, principal string) *browser.Authenticator {
	c.t.Helper()
	device := tab.Authenticator(browser.Phone)
	tab.Open(c.origin + "/enrol")
	tab.Type("#principal", principal)
	tab.Click("#enrol")
	tab.Wait("#made")
	line, fingerprint := tab.Text("[data-made=line]"), tab.Text("[data-made=fingerprint]")
	require.Contains(c.t, tab.Text("[data-made=command]"), line)
	c.gate.add(line, principal, fingerprint, op.Operational)
	c.caught()
	return device
}

// signedIn enrols and signs in, to the page of a request.
func (c *console) signedIn(tab *browser.Tab, principal, id string) *browser.Authenticator {
	c.t.Helper()
	device := c.enrolled(tab, principal)
	tab.Open(c.origin + "/g/pve1/r/" + id)
	tab.Click("#sign-in")
	tab.Wait("#decide-title")
	require.Equal(c.t, c.origin+"/g/pve1/r/"+id, tab.URL())
	return device
}

// quiet checks that the browser had nothing to say about the page: no error of a script, and
// nothing that its policy forbids.
func quiet(t *testing.T, tab *browser.Tab) {
	t.Helper()
	for _, said := range tab.Said() {
		expected := strings.Contains(said, "favicon.ico") || strings.Contains(said, "pubKeyCredParams")
		require.True(t, expected, "the browser says %s", said)
	}
}

func TestApproveInABrowser(t *testing.T) {
	t.Parallel()
	c, tab := newConsole(t), browser.Start(t).Tab(t)
	c.gate.wait(t, "j1.1", nil)
	c.signedIn(tab, "alice@example.com", "j1.1")
	tab.Click("#approve")
	tab.WaitText("form [role=status]", "type the name of the target first: web-1")
	require.Empty(t, c.gate.arrived())
	tab.Type("#typed", "web-1")
	tab.Click("#approve")
	tab.WaitText(".cannot", "All signatures are there.")
	all := c.gate.arrived()
	require.Len(t, all, 1)
	require.Equal(t, c.gate.payloads["j1.1"], c.keygenTakes(all[0], "alice@example.com"))
	quiet(t, tab)
}

func TestRejectInABrowser(t *testing.T) {
	t.Parallel()
	c, tab := newConsole(t), browser.Start(t).Tab(t)
	c.gate.wait(t, "j1.1", nil)
	c.signedIn(tab, "alice@example.com", "j1.1")
	tab.Click("#reject")
	tab.WaitText("form [role=status]", "Say why you reject it")
	tab.Type("#reason", "still <in> use")
	tab.Click("#reject")
	tab.WaitText(".cannot", "The request is rejected")
	all := c.gate.arrived()
	require.Len(t, all, 1)
	j, err := op.DecodeRejection(c.keygenTakes(all[0], "alice@example.com"))
	require.NoError(t, err)
	require.Equal(t, "still <in> use", j.Reason)
	quiet(t, tab)
}

// Every step with a keyboard alone: the focus goes from one control to the next in order.
func TestApproveWithKeysAlone(t *testing.T) {
	t.Parallel()
	c, tab := newConsole(t), browser.Start(t).Tab(t)
	c.gate.wait(t, "j1.1", nil)
	c.signedIn(tab, "alice@example.com", "j1.1")
	const before = 30 // controls of the page before those of the decision
	for range before {
		if browser.Eval[string](tab, `document.activeElement.id`) == "typed" {
			break
		}
		tab.Press(kb.Tab)
	}
	tab.Press("web-1" + kb.Tab)
	require.Equal(t, "approve", browser.Eval[string](tab, `document.activeElement.id`))
	tab.Press(kb.Enter)
	tab.WaitText(".cannot", "All signatures are there.")
	require.Len(t, c.gate.arrived(), 1)
}

func TestSupersededWhileThePageIsOpen(t *testing.T) {
	t.Parallel()
	c, tab := newConsole(t), browser.Start(t).Tab(t)
	c.gate.wait(t, "j1.1", nil)
	c.signedIn(tab, "alice@example.com", "j1.1")
	tab.Type("#typed", "web-1")
	c.gate.change(func() { c.gate.requests["j1.1"].State = op.StateSuperseded })
	c.caught()
	tab.WaitText("#live", "This page changed. Reload it before you decide.")
	tab.Click("#approve")
	tab.WaitText("form [role=status]", "j1.1 is superseded: there is nothing to sign any more.")
	require.Empty(t, c.gate.arrived())
}

// A page that nobody is at work in is replaced, in every tab, over one stream.
func TestNewsReachEachTab(t *testing.T) {
	t.Parallel()
	c, b := newConsole(t), browser.Start(t)
	c.gate.wait(t, "j1.1", nil)
	first, second := b.Tab(t), b.Tab(t)
	c.signedIn(first, "alice@example.com", "j1.1")
	second.Open(c.origin + "/g/pve1/r/j1.1")
	second.Wait("#approve")
	c.gate.wait(t, "j1.1", func(_ *op.Payload, r *api.Request) { r.State = op.StateRejected })
	first.WaitText(".cannot", "The request is rejected")
	second.WaitText(".cannot", "The request is rejected")
	first.WaitGone("#approve")
	quiet(t, first)
	quiet(t, second)
}

func TestAnotherPortCannotSignIn(t *testing.T) {
	t.Parallel()
	ours, other, tab := newConsole(t), newConsole(t), browser.Start(t).Tab(t)
	ours.enrolled(tab, "alice@example.com")
	other.gate.mu.Lock()
	other.gate.trust, other.gate.signers = ours.gate.trust, ours.gate.signers
	other.gate.mu.Unlock()
	// The other port is a page of an attacker, which asks ours for a challenge of its own, and
	// has its visitor sign that.
	p := ours.person(nil)
	challenge := asked[ceremony](p, "/sign-in/challenge", struct{}{})
	tab.Open(other.origin + "/enrol")
	assertion := browser.Eval[string](tab, `(async () => {
		const bytes = (t) => Uint8Array.from(atob(t.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
		const text = (b) => btoa(String.fromCharCode(...new Uint8Array(b))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
		const made = await navigator.credentials.get({publicKey: {challenge: bytes("`+challenge.Challenge+`"), rpId: "localhost"}});
		const r = made.response;
		return JSON.stringify({id: text(made.rawId), clientDataJSON: text(r.clientDataJSON),
			authenticatorData: text(r.authenticatorData), signature: text(r.signature)});
	})()`)
	problem := p.refused("/sign-in", signInIn{Message: challenge.Message, Assertion: []byte(assertion)})
	require.Equal(t, refusal.OriginMismatch, problem.Code)
	require.Contains(t, problem.Detail, "a page of "+other.origin+" asked for the signature")
}

func TestEnrolWithKeysAndARefusal(t *testing.T) {
	t.Parallel()
	c, tab := newConsole(t), browser.Start(t).Tab(t)
	tab.Authenticator(browser.SecurityKey)
	tab.Open(c.origin + "/enrol")
	tab.Wait("#principal")
	tab.Click("#principal")
	tab.Press("a'b" + kb.Enter)
	tab.WaitText("form [role=status]", "The name has to be like alice@example.com")
	require.Equal(t, "false", browser.Eval[string](tab, `String(document.getElementById("made").checkVisibility())`))
}

// weight is how much a page loaded, in bytes, and when something of it was first seen, in
// milliseconds.
type weight struct {
	Bytes int     `json:"bytes"`
	Paint float64 `json:"paint"`
}

const weighed = `new Promise((done) => new PerformanceObserver((seen) => {
	const paint = seen.getEntriesByName("first-contentful-paint")[0];
	if (!paint) return;
	const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
	done({bytes: all.reduce((sum, e) => sum + e.transferSize, 0), paint: paint.startTime});
}).observe({type: "paint", buffered: true}))`

// A thousand requests wait, and a page that has none of this in its cache is light and quick.
func TestAThousandRequestsInABrowser(t *testing.T) {
	t.Parallel()
	c, tab := newConsole(t), browser.Start(t).Tab(t)
	for i := range 1000 {
		c.gate.wait(t, op.StepID{Job: op.JobID(i + 1), Index: 1}.String(), nil)
	}
	c.caught()
	c.signedIn(tab, "alice@example.com", "j1000.1")
	tab.Open(c.origin + "/")
	w := browser.Eval[weight](tab, weighed)
	t.Logf("1000 requests: %d KB, first paint after %.0f ms", w.Bytes>>10, w.Paint)
	require.LessOrEqual(t, w.Bytes, 200<<10)
	require.LessOrEqual(t, w.Paint, 1000.0)
	quiet(t, tab)
}

// groupOf3 opens the page of a group of three, which cannot be undone.
func (c *console) groupOf3(tab *browser.Tab) {
	c.t.Helper()
	for i, name := range []string{"web-1", "web-2", "web-3"} {
		c.gate.waits(c.t, op.StepID{Job: op.JobID(i + 1), Index: 1}.String(), name)
	}
	c.caught()
	c.signedIn(tab, "alice@example.com", "j1.1")
	tab.Open(c.origin + doomed.link())
	tab.Wait("#approve")
}

// One confirmation, and three signatures, each over one request. What became of each stays on the page.
func TestAGroupInABrowser(t *testing.T) {
	t.Parallel()
	c, tab := newConsole(t), browser.Start(t).Tab(t)
	c.groupOf3(tab)
	tab.Click("#approve")
	tab.WaitText("form [role=status]", "type how many of what first: 3 guest.destroy")
	require.Empty(t, c.gate.arrived())
	tab.Type("#typed", "3 guest.destroy"+kb.Enter)
	tab.WaitText("form [role=status]", "3 of 3 signed.")
	all := c.gate.arrived()
	require.Len(t, all, 3)
	for i, one := range all {
		require.Equal(t, op.StepID{Job: op.JobID(i + 1), Index: 1}.String(), one.id)
		require.Equal(t, c.gate.payloads[one.id], c.keygenTakes(one, "alice@example.com"))
	}
	c.caught()
	require.Equal(t, 3, browser.Eval[int](tab, `[...document.querySelectorAll("[data-outcome]")].filter((e) => e.textContent === "Signed. It is authorized.").length`))
	tab.Accessible()
	quiet(t, tab)
}

// A page of a group that nobody is at work in has what waits now, and one that somebody fills in stays.
func TestNewsReachAGroup(t *testing.T) {
	t.Parallel()
	c, tab := newConsole(t), browser.Start(t).Tab(t)
	c.groupOf3(tab)
	c.gate.waits(t, "j4.1", "web-4")
	tab.WaitText("#approve", "Approve 4 requests with a passkey")
	c.gate.change(func() { c.gate.requests["j2.1"].State = op.StateCancelled })
	tab.WaitText("#approve", "Approve 3 requests with a passkey")
	tab.WaitGone(`tr[data-path="/g/pve1/r/j2.1"]`)
	tab.Type("#typed", "3 guest")
	c.gate.change(func() { c.gate.requests["j3.1"].State = op.StateCancelled })
	tab.WaitText("#live", "This page changed. Reload it before you decide.")
	require.Equal(t, 3, browser.Eval[int](tab, `document.querySelectorAll("tr[data-path]").length`))
	quiet(t, tab)
}

// The person lets go of the second question. The first signature counts, and pressing again goes on with what is left.
func TestAGroupGoesOn(t *testing.T) {
	t.Parallel()
	c, tab := newConsole(t), browser.Start(t).Tab(t)
	c.groupOf3(tab)
	browser.Eval[bool](tab, `(() => {
		const get = navigator.credentials.get.bind(navigator.credentials);
		let times = 0;
		navigator.credentials.get = (o) => ++times === 2 ? Promise.reject(new DOMException("", "NotAllowedError")) : get(o);
		return true;
	})()`)
	tab.Type("#reason", "still in use")
	tab.Click("#reject")
	tab.WaitText("form [role=status]", "1 of 3 signed. It ended at guest/web-2 on pve1: Nothing was signed")
	outcomes := browser.Eval[[]string](tab, `[...document.querySelectorAll("[data-outcome]")].map((e) => e.textContent)`)
	require.Equal(t, "Signed. It is rejected.", outcomes[0])
	require.Contains(t, outcomes[1], "Nothing was signed")
	require.Equal(t, "Not signed yet.", outcomes[2])
	require.Len(t, c.gate.arrived(), 1)
	tab.Click("#reject")
	tab.WaitText("form [role=status]", "3 of 3 signed.")
	all := c.gate.arrived()
	require.Len(t, all, 3)
	for i, one := range all {
		require.Equal(t, "reject", one.what)
		j, err := op.DecodeRejection(c.keygenTakes(one, "alice@example.com"))
		require.NoError(t, err)
		require.Equal(t, op.StepID{Job: op.JobID(i + 1), Index: 1}, j.Request)
		require.Equal(t, "still in use", j.Reason)
	}
	quiet(t, tab)
}

// Each page fits on a phone without scrolling sideways, in both colour schemes.
func TestPagesFitAPhone(t *testing.T) {
	t.Parallel()
	c, tab := newConsole(t), browser.Start(t).Tab(t)
	c.gate.wait(t, "j1.1", func(p *op.Payload, r *api.Request) {
		p.Reason = strings.Repeat("averylongwordthatnobodycanbreak", 10)
		p.Target.Name = strings.Repeat("w", 60)
	})
	c.signedIn(tab, "alice@example.com", "j1.1")
	tab.Size(360, 640)
	for _, path := range []string{"/", "/g/pve1/r/j1.1", "/enrol", "/sign-in"} {
		tab.Open(c.origin + path)
		tab.Wait("main")
		require.LessOrEqual(t, browser.Eval[int](tab, `document.documentElement.scrollWidth`), 360, path)
		tab.Accessible()
		tab.Dark(true)
		tab.Accessible()
		tab.Dark(false)
	}
}
