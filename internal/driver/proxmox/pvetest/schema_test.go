package pvetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequestsThatTheSchemaRefuses(t *testing.T) {
	for name, x := range map[string]struct {
		status       int
		wrong        string
		method, path string
		params       []string
	}{
		"path":       {501, "", "GET", "/nodes/pve1/vms", nil},
		"method":     {501, "", "POST", "/version", nil},
		"parameter":  {400, "colour", "PUT", vm + "/config", []string{"colour=red"}},
		"type":       {400, "cores", "PUT", vm + "/config", []string{"cores=two"}},
		"fraction":   {400, "cores", "PUT", vm + "/config", []string{"cores=1.5"}},
		"minimum":    {400, "vmid", "GET", "/nodes/pve1/qemu/99/config", nil},
		"maximum":    {400, "vmid", "GET", "/nodes/pve1/qemu/1000000000/config", nil},
		"enum":       {400, "type", "GET", "/cluster/resources", []string{"type=guests"}},
		"missing":    {400, "newid", "POST", vm + "/clone", nil},
		"boolean":    {400, "protection", "PUT", vm + "/config", []string{"protection=maybe"}},
		"length":     {400, "digest", "PUT", vm + "/config", []string{"digest=00000000000000000000000000000000000000000"}},
		"pattern":    {400, "size", "PUT", vm + "/resize", []string{"disk=scsi0", "size=-1G"}},
		"requires":   {400, "force", "POST", "/nodes/pve1/qemu", []string{"vmid=101", "force=1"}},
		"part":       {400, "scsi0", "PUT", vm + "/config", []string{"scsi0=local-lvm:4,colour=red"}},
		"part enum":  {400, "scsi0", "PUT", vm + "/config", []string{"scsi0=local-lvm:4,cache=warm"}},
		"count":      {400, "scsi31", "PUT", vm + "/config", []string{"scsi31=local-lvm:4"}},
		"name":       {400, "name", "PUT", vm + "/config", []string{"name=a_b"}},
		"memory":     {400, "memory", "PUT", vm + "/config", []string{"memory=8"}},
		"snap name":  {400, "snapname", "POST", vm + "/snapshot", []string{"snapname=1st"}},
		"not a kind": {400, "delete", "PUT", vm + "/config", []string{"delete=colour"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := New(t)
			c.Make(Spec{Name: "web1"})
			before := c.Guest(100)
			c.Expect(1)
			r := ask(t, c, x.method, x.path, x.params...)
			require.Equal(t, x.status, r.status)
			if x.wrong != "" {
				require.Contains(t, r.errors, x.wrong)
				require.Equal(t, "Parameter verification failed.", r.reason)
			}
			require.Len(t, c.Violations(), 1)
			require.Equal(t, before, c.Guest(100))
		})
	}
}
