package service

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/agents/reserve"
	"gated/internal/base/op"
)

// A caller's path is its member's, unless it lies in a shared scope there.
func TestPlacesOfCallers(t *testing.T) {
	m := Members{Self: "node1", Scopes: map[string]map[string]string{"web": {"node1": "/srv/web", "node2": "/mnt/web"}}}
	one, two := op.Requester{Source: op.SourceAPI, Set: "node1"}, op.Requester{Source: op.SourceAPI, Set: "node2"}
	for _, c := range []struct {
		by     op.Requester
		path   string
		fold   bool
		want   string
		shared []string
	}{
		{one, "/srv/web", false, "web:/", nil},
		{one, "/srv/web/a/b", false, "web:/a/b", nil},
		{two, "/mnt/web/a/b", false, "web:/a/b", nil},
		{two, "/srv/web", false, "node2:/srv/web", nil},
		{one, "/srv/website", false, "node1:/srv/website", nil},
		{one, "/srv", false, "node1:/srv", []string{"web"}},
		{one, "/", false, "node1:/", []string{"srv/web"}},
		{one, "/srv/WEB", false, "node1:/srv/WEB", nil},
		{one, "/srv/WEB/a", true, "web:/a", nil},
		{one, "/SRV", true, "node1:/SRV", []string{"web"}},
		{op.Requester{Source: op.SourceAPI}, "/srv/web", false, "/srv/web", nil},
	} {
		p := m.place(c.by, reserve.Place{Path: c.path, Device: 1, Inode: 2, Fold: c.fold})
		require.Equal(t, c.want, p.String(), c)
		if c.by.Set == "" {
			require.Nil(t, p.Names)
			continue
		}
		require.Equal(t, &reserve.Names{Path: c.path, Shared: c.shared}, p.Names, c)
		require.Equal(t, p.In == "web", p.Inode == 0, c)
		if !c.fold {
			require.Equal(t, c.path, m.shown(c.by, p), "its own path")
		}
	}
	require.Equal(t, "/mnt/web/a", m.shown(two, reserve.Place{In: "web", Path: "/a"}))
	require.Equal(t, "node1:/a", m.shown(two, reserve.Place{In: "node1", Path: "/a"}))
	require.Equal(t, "web:/a", m.shown(op.Requester{Source: op.SourceAPI, Set: "node3"}, reserve.Place{In: "web", Path: "/a"}))
	require.Equal(t, "/a", m.shown(one, reserve.Place{Path: "/a"}), "from before the gate had members")
}
