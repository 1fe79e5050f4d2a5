package browser_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/browser"
	"gated/internal/test/must"
)

// refused presses Approve in a page that is out of date, and returns what the page says about it.
func (g *gate) refused(tab *browser.Tab) string {
	g.t.Helper()
	tab.WaitText("#live", "This page changed")
	g.approve(tab)
	tab.Wait("form [role=status][data-kind=refused]")
	return tab.Text("form [role=status]")
}

// unsigned checks that a request has no signature, and that the passkey made none since.
func (g *gate) unsigned(id string, device *browser.Authenticator, before float64) {
	g.t.Helper()
	require.Empty(g.t, must.Get(g.client.Request(context.Background(), id))(g.t).Signatures)
	require.Equal(g.t, before, device.Passkeys()[0].SignCount, "the passkey signed")
}

// onMonday makes a guest with a snapshot.
func (g *gate) onMonday() {
	g.t.Helper()
	g.run("gated", "submit", "guest.create", "web-1", "--wait")
	g.run("gated", "submit", "guest.snapshot", "web-1", "-p", "snapshot=monday", "--wait")
}

// meanwhile has another request made, which alice approves in her terminal.
func (g *gate) meanwhile(args ...string) {
	g.t.Helper()
	g.run("opsign", "approve", g.asked(args...), "--key", g.path("alice"), "--yes")
}

// The guest is gone while the page of a request about it is open: another request destroyed
// it. The gate supersedes the first one, and what was shown is not signed. Its page leads to
// the request that was made in its place.
func TestSupersededWhileItIsOpen(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	device := tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	back := []string{"guest.restore", "web-1", "-p", "snapshot=monday", "--reason", "back to monday"}
	g.onMonday()
	id := g.asked(back...)
	tab.Open(g.address(id))
	g.begin(tab)
	signed := device.Passkeys()[0].SignCount
	g.meanwhile("guest.destroy", "web-1", "--reason", "no longer needed")
	g.ended(id, op.StateSuperseded)
	require.Contains(t, g.refused(tab), id+" is superseded: there is nothing to sign any more. Reload the page")
	g.unsigned(id, device, signed)

	g.onMonday()
	next := g.asked(back...)
	require.NotEqual(t, id, next)
	tab.Reload()
	tab.WaitText("main", "The request is superseded: there is nothing to sign any more.")
	tab.WaitGone("#approve")
	tab.Click(".instead a")
	tab.Wait("#approve")
	require.True(t, strings.HasSuffix(tab.URL(), "/r/"+next), tab.URL())
	g.approve(tab)
	g.ended(next, op.StateSucceeded)
	g.keygenVerifies(next, "carol@example.com")
}

// The guest changes while the page of a request about it is open: another request deleted its snapshot. The gate issues the request anew, with another
// payload, and the one that was shown is not signed. The same page, read again, has the new one.
func TestIssuedAnewWhileItIsOpen(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	device := tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	g.onMonday()
	id := g.asked("guest.destroy", "web-1", "--reason", "no longer needed")
	shown := must.Get(g.client.Payload(context.Background(), id))(t)
	tab.Open(g.address(id))
	g.begin(tab)
	signed := device.Passkeys()[0].SignCount
	g.meanwhile("guest.snapshot-delete", "web-1", "-p", "snapshot=monday", "--reason", "not needed either")
	require.Contains(t, g.refused(tab), id+" changed after it was shown, and was not signed. Reload the page and read it again.")
	g.unsigned(id, device, signed)
	require.NotEqual(t, shown, must.Get(g.client.Payload(context.Background(), id))(t))

	tab.Reload()
	g.approve(tab)
	g.ended(id, op.StateSucceeded)
	g.keygenVerifies(id, "carol@example.com")
}

// The requester takes a request back while its page is open.
func TestCancelledWhileItIsOpen(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	device := tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	id := g.doomed("web-1", "no longer needed")
	tab.Open(g.address(id))
	g.begin(tab)
	signed := device.Passkeys()[0].SignCount
	g.run("gated", "cancel", strings.TrimSuffix(id, ".1"))
	require.Contains(t, g.refused(tab), id+" is cancelled: there is nothing to sign any more")
	g.unsigned(id, device, signed)
}
