package pvetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnotherGuestUnderTheSameNameAndID(t *testing.T) {
	c := New(t)
	c.Make(Spec{Name: "web1", Data: map[string][]byte{"scsi0": []byte("old")}})
	before := c.Guest(100)
	c.Remake(100, Spec{})
	after := c.Guest(100)
	require.Equal(t, before.Name, after.Name)
	require.Equal(t, before.Config["scsi0"], after.Config["scsi0"], "even the volume's id")
	for _, other := range []string{"smbios1", "vmgenid", "meta", "net0"} {
		require.NotEqual(t, before.Config[other], after.Config[other])
	}
	data, there := c.Data("local-lvm:vm-100-disk-0")
	require.True(t, there)
	require.Empty(t, data)
	c.MoveDisk(100, "scsi0", "dir")
	require.Contains(t, c.Guest(100).Config["scsi0"], "dir:")
	c.Remove(100)
	require.Empty(t, c.Volumes(100))
	require.Equal(t, 100, c.Make(Spec{Kind: "lxc", Name: "web1"}), "the other kind, under the same id")
	require.Equal(t, 100, c.VMID("web1"))
	require.Zero(t, c.VMID("web2"))
}

func TestRequestsAreCounted(t *testing.T) {
	c := New(t)
	for i := range 5 {
		c.Make(Spec{Name: fmt.Sprintf("web%d", i)})
	}
	does(t, c, "GET", "/cluster/resources", "type=vm")
	does(t, c, "GET", "/nodes/pve1/qemu")
	config(t, c, vm)
	does(t, c, "GET", "/version")
	does(t, c, "POST", vm+"/status/start")
	require.Equal(t, Counts{List: 2, Detail: 1, Task: 1, Change: 1, Other: 1}, c.Counts())
	require.Equal(t, "100", c.Requests()[2].Values["vmid"])
	c.ResetCounts()
	require.Zero(t, c.Counts())
}

func TestJSONIsTakenAsAForm(t *testing.T) {
	c := New(t)
	c.Make(Spec{})
	req := `{"memory":"1024","cores":2,"onboot":true,"digest":"` + c.Guest(100).Digest + `"}`
	r := sendBody(t, c, "PUT", vm+"/config", "application/json", strings.NewReader(req))
	require.Equal(t, 200, r.status, r.errors)
	require.Equal(t, "1", c.Guest(100).Config["onboot"])
	require.Equal(t, "2", c.Guest(100).Config["cores"])
}

func TestManyAtOnce(t *testing.T) {
	c := New(t)
	bystander := c.Make(Spec{Name: "bystander", Data: map[string][]byte{"scsi0": []byte("untouched")}})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			id := 200 + i
			path := fmt.Sprintf("/nodes/pve1/qemu/%d", id)
			for range 3 {
				does(t, c, "POST", "/nodes/pve1/qemu", fmt.Sprintf("vmid=%d", id), "scsi0=local-lvm:1")
				does(t, c, "POST", path+"/status/start")
				does(t, c, "GET", "/cluster/resources", "type=vm")
				does(t, c, "POST", path+"/status/stop")
				does(t, c, "DELETE", path)
			}
		})
	}
	all.Wait()
	require.Len(t, c.Volumes(0), 2, "the template and the bystander's disk")
	data, _ := c.Data(volumeID(c.Guest(bystander).Config["scsi0"]))
	require.Equal(t, "untouched", string(data))
}

func TestAThousandGuestsAreOneList(t *testing.T) {
	c := New(t)
	for i := range 1000 {
		c.Make(Spec{Name: fmt.Sprintf("web%d", i)})
	}
	require.Len(t, does(t, c, "GET", "/cluster/resources", "type=vm"), 1000)
	require.Equal(t, Counts{List: 1}, c.Counts())
}
