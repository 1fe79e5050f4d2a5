package pvetest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRollbackBringsBackWhatTheSnapshotHas(t *testing.T) {
	c := New(t)
	c.Make(Spec{Name: "web1", Data: map[string][]byte{"scsi0": []byte("before")}, Config: map[string]string{"description": "mine"}})
	does(t, c, "POST", vm+"/snapshot", "snapname=first", "description=why")
	does(t, c, "PUT", vm+"/config", "protection=1", "description=later", "scsi1=local-lvm:1")
	c.Write(100, "scsi0", []byte("after"))
	before := config(t, c, vm)

	rows := does(t, c, "GET", vm+"/snapshot").([]any)
	require.Len(t, rows, 2)
	require.Equal(t, "first", rows[0].(map[string]any)["name"])
	require.Equal(t, "current", rows[1].(map[string]any)["name"])
	require.Equal(t, "first", rows[1].(map[string]any)["parent"])

	does(t, c, "POST", vm+"/snapshot/first/rollback")
	after := config(t, c, vm)
	require.NotEqual(t, before["vmgenid"], after["vmgenid"], "another generation")
	require.Equal(t, before["smbios1"], after["smbios1"])
	require.Equal(t, before["meta"], after["meta"])
	require.NotContains(t, after, "protection", "what the snapshot has, it has not")
	require.Equal(t, "later", after["description"], "is no part of a snapshot")
	require.Equal(t, "local-lvm:vm-100-disk-1", after["unused0"], "younger than the snapshot")
	data, _ := c.Data("local-lvm:vm-100-disk-0")
	require.Equal(t, "before", string(data))
}

func TestSnapshotsAreAChain(t *testing.T) {
	c := New(t)
	c.Make(Spec{})
	for _, name := range []string{"aa", "bb", "cc"} {
		does(t, c, "POST", vm+"/snapshot", "snapname="+name)
	}
	ends(t, c, "snapshot name 'bb' already used", "POST", vm+"/snapshot", "snapname=bb")
	does(t, c, "DELETE", vm+"/snapshot/bb")
	require.Equal(t, []string{"aa", "cc"}, c.Guest(100).Snaps)
	require.Equal(t, "aa", does(t, c, "GET", vm+"/snapshot/cc/config").(map[string]any)["parent"])
	ends(t, c, "snapshot 'bb' does not exist", "DELETE", vm+"/snapshot/bb")
	refuses(t, c, 500, "snapshot 'bb' does not exist", "POST", vm+"/snapshot/bb/rollback")
	does(t, c, "PUT", vm+"/config", "delete=scsi0")
	refuses(t, c, 500, "volume is still in use (snapshot?)", "PUT", vm+"/config", "delete=unused0")
}

func TestACloneIsAnotherGuest(t *testing.T) {
	c := New(t)
	c.Make(Spec{Name: "web1", Config: map[string]string{"description": "marker", "protection": "1", "tags": "gated"},
		Data: map[string][]byte{"scsi0": []byte("copied")}})
	does(t, c, "POST", vm+"/clone", "newid=101", "name=web2", "full=1")
	a, b := config(t, c, vm), config(t, c, "/nodes/pve1/qemu/101")
	for _, same := range []string{"meta", "description", "protection", "tags"} {
		require.Equal(t, a[same], b[same], same)
	}
	for _, other := range []string{"smbios1", "vmgenid", "net0", "scsi0", "name"} {
		require.NotEqual(t, a[other], b[other], other)
	}
	data, _ := c.Data("local-lvm:vm-101-disk-0")
	require.Equal(t, "copied", string(data))
	refuses(t, c, 500, "unable to create VM 101: config file already exists", "POST", vm+"/clone", "newid=101")
	refuses(t, c, 500, "Linked clone feature is not supported", "POST", vm+"/clone", "newid=102", "full=0")
}

func TestACloneThatFailsLeavesNothing(t *testing.T) {
	c := New(t)
	c.Make(Spec{})
	h := c.Hold("qmclone")
	r := ask(t, c, "POST", vm+"/clone", "newid=101", "name=web2")
	require.Equal(t, "clone", c.Guest(101).Config["lock"])
	h.Fail("no space left")
	status, exit := outcome(t, c, r.data.(string))
	require.Equal(t, "stopped", status)
	require.Equal(t, "no space left", exit)
	require.False(t, c.Exists(101))
	require.Empty(t, c.Volumes(101))
}
