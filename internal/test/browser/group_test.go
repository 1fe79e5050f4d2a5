package browser_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/test/browser"
	"gated/internal/test/must"
	"gated/internal/web/gates"
)

// together opens the page of the group of some guests that are to be destroyed, from the first page.
func (g *gate) together(tab *browser.Tab, guests ...string) (ids []string) {
	g.t.Helper()
	for _, name := range guests {
		ids = append(ids, g.doomed(name, "the shop moved to another cluster"))
	}
	tab.Open(g.origin + "/")
	tab.Click(`.group a[href^="/group?"]`)
	tab.Wait("#approve")
	return ids
}

const outcomes = `[...document.querySelectorAll("[data-outcome]")].map((e) => e.textContent)`

// A group is confirmed once. Each of its requests has a signature of its own, which ssh-keygen verifies.
func TestAGroupIsApproved(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	ids := g.together(tab, "web-1", "web-2", "web-3")
	tab.Accessible()
	tab.Click("#approve")
	tab.WaitText("form [role=status]", "3 of 3 signed.")
	armors := map[string]bool{}
	for _, id := range ids {
		g.ended(id, op.StateSucceeded)
		g.keygenVerifies(id, "carol@example.com")
		armors[must.Get(g.client.Request(context.Background(), id))(t).Signatures[0].Armor] = true
	}
	require.Len(t, armors, 3)
	for _, text := range browser.Eval[[]string](tab, outcomes) {
		require.Contains(t, text, "Signed. It is ")
	}
	tab.Accessible()
}

// The second of three is cancelled while the page is open. It is not signed, the third is not reached, and the page says both. Loaded again,
// it has what is left.
func TestAGroupOfWhichOneIsCancelled(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, ""), browser.Start(t).Tab(t)
	tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	ids := g.together(tab, "web-1", "web-2", "web-3")
	tab.Type("#reason", "because") // somebody is at work here, so the page is not swapped
	g.run("gated", "cancel", strings.TrimSuffix(ids[1], ".1"))
	tab.WaitText("#live", "This page changed")
	tab.Click("#approve")
	tab.WaitText("form [role=status]", "1 of 3 signed. It ended at guest/web-2 on pve1: ")
	g.ended(ids[0], op.StateSucceeded)
	g.keygenVerifies(ids[0], "carol@example.com")
	said := browser.Eval[[]string](tab, outcomes)
	require.Contains(t, said[0], "Signed. It is ")
	require.Contains(t, said[1], "is cancelled: there is nothing to sign any more")
	require.Equal(t, "Not signed yet.", said[2])
	for i, state := range []op.State{op.StateCancelled, op.StatePending} {
		r := must.Get(g.client.Request(context.Background(), ids[i+1]))(t)
		require.Equal(t, state, r.State)
		require.Empty(t, r.Signatures)
	}
	g.until(func(s gates.Gate) bool {
		_, first := s.Request(ids[0])
		_, second := s.Request(ids[1])
		return !first && !second
	})
	tab.Reload()
	tab.Click("#approve")
	tab.WaitText("form [role=status]", "1 of 1 signed.")
	g.ended(ids[2], op.StateSucceeded)
	g.keygenVerifies(ids[2], "carol@example.com")
}

// Where a rule asks for two people, the first one's signatures are there, and the page says that more are needed.
func TestAGroupThatNeedsMoreSignatures(t *testing.T) {
	t.Parallel()
	g, tab := newGate(t, "policy:\n  rules:\n    - {op: guest.destroy, role: operational, threshold: 2}\n"), browser.Start(t).Tab(t)
	tab.Authenticator(browser.Phone)
	g.enrol(tab, "carol@example.com")
	ids := g.together(tab, "web-1", "web-2")
	tab.Click("#approve")
	tab.WaitText("form [role=status]", "2 of 2 signed.")
	for i, text := range browser.Eval[[]string](tab, outcomes) {
		require.Equal(t, "Signed. It needs more signatures.", text)
		require.Len(t, must.Get(g.client.Request(context.Background(), ids[i]))(t).Signatures, 1)
	}
}
