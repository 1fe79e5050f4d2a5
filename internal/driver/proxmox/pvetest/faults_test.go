package pvetest

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

func TestWhoHasNoTokenGetsNothing(t *testing.T) {
	c := New(t)
	for auth, reason := range map[string]string{
		"":                                  "No ticket",
		"Bearer " + Secret:                  "No ticket",
		"PVEAPIToken=x@pve!y=" + Secret:     "no such token 'x@pve!y'",
		"PVEAPIToken=" + TokenID + "=wrong": "invalid token value!",
		"PVEAPIToken=" + TokenID:            "invalid token value!",
	} {
		r := send(t, c, auth, "GET", "/version")
		require.Equal(t, http.StatusUnauthorized, r.status)
		require.Equal(t, reason, r.reason)
	}
	require.Empty(t, c.Requests())
	require.Equal(t, "9.1.3", does(t, c, "GET", "/version").(map[string]any)["version"])
}

func TestTheCertificateCanBePinned(t *testing.T) {
	c := New(t)
	seen := ""
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			sum := sha256.Sum256(s.PeerCertificates[0].Raw)
			seen = fmt.Sprintf("%X", sum)
			return nil
		}}}
	defer transport.CloseIdleConnections()
	req := must.Get(http.NewRequestWithContext(t.Context(), "GET", c.URL()+"/version", nil))(t)
	res := must.Get(transport.RoundTrip(req))(t)
	require.NoError(t, res.Body.Close())
	require.Equal(t, seen, strings.ReplaceAll(c.Fingerprint(), ":", ""))
	require.NoError(t, fails(t, c, t.Context(), "GET", "/version"), "it is its own CA")
}

func TestPrivileges(t *testing.T) {
	c := New(t)
	c.Make(Spec{})
	require.Contains(t, does(t, c, "GET", "/access/permissions").(map[string]any)["/vms"], "VM.Allocate")
	c.Revoke("VM.Allocate", "VM.PowerMgmt")
	require.NotContains(t, does(t, c, "GET", "/access/permissions").(map[string]any)["/vms"], "VM.Allocate")
	refuses(t, c, 403, "Permission check failed (/vms/100, VM.Allocate)", "DELETE", vm)
	refuses(t, c, 403, "VM.PowerMgmt", "POST", vm+"/status/start")
	c.Revoke("VM.Config.Memory", "VM.Backup")
	refuses(t, c, 403, "VM.Config.Memory", "PUT", vm+"/config", "cores=2", "memory=1024")
	does(t, c, "PUT", vm+"/config", "cores=2")
	refuses(t, c, 403, "VM.Backup", "POST", "/nodes/pve1/vzdump", "vmid=100", "storage=dir")
	c.Revoke("VM.Audit")
	refuses(t, c, 403, "VM.Audit", "GET", vm+"/config")
	require.Empty(t, does(t, c, "GET", "/cluster/resources", "type=vm"), "what may not be seen is not in a list")
}

// fails sends a request that gets no answer.
func fails(t *testing.T, c *Cluster, ctx context.Context, method, path string) error {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(ctx, method, c.URL()+path, nil))(t)
	req.Header.Set("Authorization", "PVEAPIToken="+TokenID+"="+Secret)
	res, err := trusting(t, c).Do(req)
	if err == nil {
		require.NoError(t, res.Body.Close())
	}
	return err
}

func TestFaults(t *testing.T) {
	for fault, x := range map[Fault]struct {
		done   bool
		status int // 0 means no answer
	}{
		FailBefore: {false, 500}, FailAfter: {true, 500}, DropBefore: {false, 0}, DropAfter: {true, 0},
		Garbage: {true, 200}, Empty: {true, 200}, Twice: {true, 200}, Ignore: {false, 200},
	} {
		c := New(t)
		c.Make(Spec{})
		rule := c.Break(Rule{Method: "DELETE", Path: "/qemu/{vmid}", VMID: "100", Fault: fault, Reason: "storage is away", Times: 1})
		switch {
		case x.status == 0:
			require.Error(t, fails(t, c, t.Context(), "DELETE", vm))
		case fault == Garbage:
			require.NoError(t, fails(t, c, t.Context(), "DELETE", vm))
		default:
			r := ask(t, c, "DELETE", vm)
			require.Equal(t, x.status, r.status)
			require.Equal(t, fault == Twice, r.data != nil)
		}
		require.Equal(t, 1, rule.Met())
		require.Equal(t, x.done, !c.Exists(100), "fault %d", fault)
		require.Equal(t, "9.1.3", does(t, c, "GET", "/version").(map[string]any)["version"], "once alone")
	}
}

func TestARequestThatHangs(t *testing.T) {
	c := New(t)
	c.Make(Spec{})
	ctx, cancel := context.WithCancel(t.Context())
	rule := c.Break(Rule{Path: "/status/start", Fault: HangAfter})
	ended := make(chan error)
	go func() { ended <- fails(t, c, ctx, "POST", vm+"/status/start") }()
	<-rule.Came()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)

	rule.Release()
	held := c.Break(Rule{Path: "/status/stop", Fault: HangBefore})
	go func() { ended <- fails(t, c, t.Context(), "POST", vm+"/status/stop") }()
	<-held.Came()
	require.True(t, c.Guest(100).Running)
	held.Release()
	require.NoError(t, <-ended)
	require.False(t, c.Guest(100).Running)
}

func TestATaskThatLies(t *testing.T) {
	c := New(t)
	c.Make(Spec{})
	c.Break(Rule{Path: "qmdestroy", Fault: Lie, Times: 1})
	does(t, c, "DELETE", vm)
	require.True(t, c.Exists(100))
	does(t, c, "DELETE", vm)
	require.False(t, c.Exists(100))
}

func TestRowsThatAreAnsweredTwice(t *testing.T) {
	c := New(t)
	c.Make(Spec{Name: "web1"})
	c.Break(Rule{Path: "/cluster/resources", Fault: Twice, Times: 1})
	require.Len(t, does(t, c, "GET", "/cluster/resources", "type=vm"), 2)
	require.Len(t, does(t, c, "GET", "/cluster/resources", "type=vm"), 1)
}

func TestANodeThatIsAway(t *testing.T) {
	c := New(t, "pve1", "pve2")
	c.Make(Spec{Name: "web1"})
	c.Make(Spec{Name: "web2", Node: "pve2"})
	c.SetOffline("pve2", true)
	refuses(t, c, 595, "No route to host", "GET", "/nodes/pve2/qemu/101/config")
	rows := does(t, c, "GET", "/cluster/resources", "type=vm").([]any)
	require.Equal(t, "stopped", rows[0].(map[string]any)["status"])
	require.Equal(t, map[string]any{"id": "qemu/101", "type": "qemu", "vmid": float64(101), "node": "pve2",
		"status": "unknown"}, rows[1], "listed, and nobody knows how it is, nor its name")
	c.SetOffline("pve2", false)
	require.NotEmpty(t, config(t, c, "/nodes/pve2/qemu/101"))
	refuses(t, c, 500, "does not exist", "GET", "/nodes/pve1/qemu/101/config")
}

func TestTheListIsAsOldAsWhatNodesTold(t *testing.T) {
	c := New(t)
	c.Make(Spec{Name: "web1", Running: true})
	c.Freeze()
	does(t, c, "POST", vm+"/status/stop")
	does(t, c, "POST", "/nodes/pve1/qemu", "vmid=101", "name=web2")
	c.SetLock(100, "migrate")
	rows := does(t, c, "GET", "/cluster/resources", "type=vm").([]any)
	require.Equal(t, "running", rows[0].(map[string]any)["status"], "it is not any more")
	require.Equal(t, "migrate", rows[0].(map[string]any)["lock"])
	require.Equal(t, "unknown", rows[1].(map[string]any)["status"])
	require.NotContains(t, rows[1], "name")
	require.Equal(t, "stopped", does(t, c, "GET", vm+"/status/current").(map[string]any)["status"])
	c.Thaw()
	rows = does(t, c, "GET", "/cluster/resources", "type=vm").([]any)
	require.Equal(t, "stopped", rows[0].(map[string]any)["status"])
	require.Equal(t, "web2", rows[1].(map[string]any)["name"])
}
