package gates

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/client"
)

func TestNames(t *testing.T) {
	var known []client.KnownGate
	for _, host := range []string{"pve1", "pve1", "pve1-2", "PVE1", "host of/mine", "..", "漢", strings.Repeat("h", 80), "-a.example.com."} {
		known = append(known, client.KnownGate{Address: client.UnixAddress("/s"), Host: host})
	}
	known = append(known, client.KnownGate{Address: "ssh://alice@pve7:22"}, client.KnownGate{Address: client.UnixAddress("/t")})
	require.Equal(t, []string{"pve1", "pve1-2", "pve1-2-2", "pve1-3", "host-of-mine", "gate", "gate-2", strings.Repeat("h", 63),
		"a.example.com", "pve7", "gate-3"}, names(known))
}
