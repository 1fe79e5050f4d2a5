package pvetest

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATaskThatIsHeldKeepsItsLock(t *testing.T) {
	for _, x := range []struct {
		worker, lock string
		method, path string
		params       []string
	}{
		{"vzdump", "backup", "POST", "/nodes/pve1/vzdump", []string{"vmid=100", "storage=dir"}},
		{"qmsnapshot", "snapshot", "POST", vm + "/snapshot", []string{"snapname=second"}},
		{"qmdelsnapshot", "snapshot-delete", "DELETE", vm + "/snapshot/first", nil},
		{"qmrollback", "rollback", "POST", vm + "/snapshot/first/rollback", nil},
	} {
		t.Run(x.worker, func(t *testing.T) {
			c := New(t)
			c.Make(Spec{Name: "web1"})
			does(t, c, "POST", vm+"/snapshot", "snapname=first")
			h := c.Hold(x.worker)
			upid := ask(t, c, x.method, x.path, x.params...).data.(string)
			<-h.Came()
			require.Equal(t, []string{upid}, h.UPIDs())
			status, _ := outcome(t, c, upid)
			require.Equal(t, "running", status)
			row := does(t, c, "GET", "/cluster/resources", "type=vm").([]any)[0].(map[string]any)
			require.Equal(t, x.lock, row["lock"])

			locked := "VM is locked (" + x.lock + ")"
			refuses(t, c, 500, locked, "PUT", vm+"/config", "memory=1024")
			refuses(t, c, 500, locked, "PUT", vm+"/resize", "disk=scsi0", "size=+1G")
			refuses(t, c, 500, locked, "POST", vm+"/clone", "newid=101")
			ends(t, c, locked, "POST", vm+"/status/start")
			ends(t, c, locked, "DELETE", vm)
			require.True(t, c.Exists(100))

			h.Release()
			status, exit := outcome(t, c, upid)
			require.Equal(t, "stopped", status)
			require.Equal(t, "OK", exit)
			require.NotContains(t, c.Guest(100).Config, "lock")
		})
	}
}

func TestATaskIsFoundByItsUPID(t *testing.T) {
	c := New(t, "pve1", "pve2")
	c.Make(Spec{})
	upid := does(t, c, "POST", vm+"/status/start").(string)
	require.Len(t, strings.Split(upid, ":"), 9)
	rows := does(t, c, "GET", "/nodes/pve1/tasks", "vmid=100").([]any)
	require.Equal(t, upid, rows[0].(map[string]any)["upid"])
	require.Equal(t, "OK", rows[0].(map[string]any)["status"])
	require.Empty(t, does(t, c, "GET", "/nodes/pve2/tasks"))
	lines := does(t, c, "GET", "/nodes/pve1/tasks/"+url.PathEscape(upid)+"/log").([]any)
	require.Equal(t, "TASK OK", lines[0].(map[string]any)["t"])
	refuses(t, c, 500, "no such task", "GET", "/nodes/pve2/tasks/"+url.PathEscape(upid)+"/status")
	refuses(t, c, 400, "Parameter verification failed.", "GET", "/nodes/pve1/tasks/4711/status")
}

func TestATaskThatIsStoppedDoesNothing(t *testing.T) {
	c := New(t)
	c.Make(Spec{})
	h := c.Hold("qmdestroy")
	upid := ask(t, c, "DELETE", vm).data.(string)
	<-h.Came()
	does(t, c, "DELETE", "/nodes/pve1/tasks/"+url.PathEscape(upid))
	_, exit := outcome(t, c, upid)
	require.Contains(t, exit, "interrupted")
	require.True(t, c.Exists(100))
}

func TestADeafGuestIgnoresAShutdown(t *testing.T) {
	c := New(t)
	c.Make(Spec{Running: true, Deaf: true})
	ends(t, c, "VM quit/powerdown failed - got timeout", "POST", vm+"/status/shutdown", "timeout=1")
	require.True(t, c.Guest(100).Running)
	does(t, c, "POST", vm+"/status/shutdown", "forceStop=1")
	require.False(t, c.Guest(100).Running)
}

func TestAWorkerFindsItsGuestByItsNumberAlone(t *testing.T) {
	c := New(t)
	c.Make(Spec{Name: "web1"})
	h := c.Hold("qmdestroy")
	ask(t, c, "DELETE", vm)
	<-h.Came()
	c.Remake(100, Spec{Name: "bystander"})
	h.Release()
	require.False(t, c.Exists(100), "another guest, and it is gone")
}

func TestAProtectionThatIsSetInTimeSavesAGuest(t *testing.T) {
	c := New(t)
	c.Make(Spec{Name: "web1"})
	h := c.Hold("qmdestroy")
	upid := ask(t, c, "DELETE", vm).data.(string)
	<-h.Came()
	c.SetProtection(100, true)
	h.Release()
	_, exit := outcome(t, c, upid)
	require.Contains(t, exit, "protection mode enabled")
	require.True(t, c.Exists(100))
}
