package daemon_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/driver/proxmox/pvetest"
)

// TestAStartPutsProtectionBack: a guest of Proxmox VE that a killed daemon left
// without its protection flag gets it from the next one, with no step on it.
func TestAStartPutsProtectionBack(t *testing.T) {
	c := pvetest.New(t)
	vmid := c.Make(pvetest.Spec{Name: "web", Config: map[string]string{
		"description": `gated: {"labels":{},"protected":true,"vmid":100}`}})
	byHand := c.Make(pvetest.Spec{Name: "by-hand"})
	require.Equal(t, 100, vmid)
	w := newInitialised(t)
	token := w.file("token", pvetest.TokenID+"="+pvetest.Secret+"\n")
	w.config(fmt.Sprintf("proxmox: {url: %q, token_file: %q, fingerprint: %q, node: %s, storage: local-lvm}\n",
		strings.TrimSuffix(c.URL(), "/api2/json"), token, c.Fingerprint(), pvetest.Node))
	w.serve()
	require.Eventually(t, func() bool { return c.Guest(vmid).Config["protection"] == "1" }, time.Minute, 10*time.Millisecond)
	require.Empty(t, c.Guest(byHand).Config["protection"])
	w.halt()
}
