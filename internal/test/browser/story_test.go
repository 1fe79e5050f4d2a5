package browser_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/browser"
	"gated/internal/test/must"
	"gated/internal/web/gates"
)

// ended waits until a request of the gate is in a state.
func (g *gate) ended(id string, state op.State) {
	g.t.Helper()
	g.until(func(gates.Gate) bool {
		r, err := g.client.Request(context.Background(), id)
		return err == nil && r.State == state
	})
}

func TestFromEnrolmentToAnApproval(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	id := g.doomed("web-1", "no longer needed")
	tab.Open(g.address(id))
	g.approve(tab)
	g.ended(id, op.StateSucceeded)
	g.keygenVerifies(id, "carol@example.com")
	tab.WaitText("main", "The request is succeeded")
	r := must.Get(g.client.Request(context.Background(), id))(t)
	require.Equal(t, g.origin, r.Signatures[0].Origin)
}

func TestARejectionWithItsReason(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	tab.Authenticator(browser.SecurityKey)
	g.enrol(tab, "carol@example.com")
	id := g.doomed("web-1", `<img src=x onerror="document.title='injected'">`)
	tab.Open(g.address(id))
	tab.Type("#reason", "still <b>in</b> use")
	tab.Click("#reject")
	tab.WaitText("main", "The request is rejected")
	g.ended(id, op.StateRejected)
	require.NotEqual(t, "injected", tab.Title())
	entries := must.Get(g.client.Audit(context.Background(), 0, 1000))(t)
	require.True(t, slices.ContainsFunc(entries, func(e api.Entry) bool { return strings.Contains(e.Detail, "still <b>in</b> use") }))
}

func TestTwoPeopleInTwoBrowsers(t *testing.T) {
	t.Parallel()
	g := newGate(t, "policy:\n  rules:\n    - op: guest.destroy\n      role: operational\n      threshold: 2\n")
	b := browser.Start(t)
	carol, dave := b.Person(t), b.Person(t)
	carol.Authenticator(browser.Phone)
	dave.Authenticator(browser.SecurityKey)
	g.enrol(carol, "carol@example.com")
	g.enrol(dave, "dave@example.com")
	id := g.doomed("web-1", "no longer needed")
	carol.Open(g.address(id))
	dave.Open(g.address(id))
	dave.Wait("#approve")
	g.approve(carol)
	carol.WaitText("main", "You have signed this already. Another person has to sign now.")
	g.approve(dave)
	g.ended(id, op.StateSucceeded)
	g.keygenVerifies(id, "carol@example.com", "dave@example.com")
}

func TestPagesAreAccessible(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	tab.Open(g.origin + "/sign-in")
	tab.Wait("#sign-in")
	tab.Accessible()
	tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	id := g.doomed("web-1", "no longer needed")
	tab.Open(g.address(id))
	tab.Wait("#approve")
	tab.Accessible()
	tab.Open(g.origin + "/enrol")
	tab.Wait("#enrol")
	tab.Accessible()
	tab.Type("#principal", "dave@example.com")
	tab.Click("#enrol")
	tab.Wait("#made")
	tab.Accessible()
}
