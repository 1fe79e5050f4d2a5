package daemon

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/driver/command/catalogue"
	"gated/internal/host/config"
	"gated/internal/reconcile"
)

// Targets that one reason keeps from being looked at are one line of status.
func TestUnknownTargetsOfOneReason(t *testing.T) {
	list := []reconcile.Trouble{{Target: op.Target{Kind: "guest", Name: "odd"}, Why: "two guests have one uuid"}}
	for i := range 1000 {
		list = append(list, reconcile.Trouble{Target: op.Target{Kind: "guest", Name: fmt.Sprintf("g%d", i)}, Why: "x is away"})
	}
	require.Equal(t, []api.Health{{Name: "guest/odd", Detail: "cannot be looked at: two guests have one uuid"},
		{Name: "guest/g0 and 999 more", Detail: "cannot be looked at: x is away"}}, unknowns(list))
	for i := range list {
		list[i].Why = fmt.Sprint("reason ", i)
	}
	require.Len(t, unknowns(list), maxTroubles)
}

// Every back end that a configuration can have is one that can be opened.
func TestEveryBackEndHasAnOpener(t *testing.T) {
	c := config.Config{HasLocal: true, Libvirt: &config.Libvirt{}, Proxmox: &config.Proxmox{}}
	names := c.GuestBackends()
	require.Len(t, guestOpeners, len(names))
	for _, name := range names {
		require.NotNil(t, guestOpeners[name], name)
	}
}

func TestCommandsOfTheDaemonsOwnUserAreSaid(t *testing.T) {
	require.Equal(t, remedies, remediesFor(nil))
	all := remediesFor(map[string]catalogue.Entry{"a": {User: "postgres"}, "b": {}})
	require.Len(t, all, len(remedies)+1)
	require.Contains(t, all[len(remedies)], "command/b")
}
