package libvirt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
)

// TestWhatIsShownOfASnapshot: the facts have what libvirt reports of a snapshot, and name what
// it does not report.
func TestWhatIsShownOfASnapshot(t *testing.T) {
	x, err := parseXML[snapshotXML](`<domainsnapshot><name>s</name><state>running</state><creationTime>1700000000</creationTime>
		<disks><disk name="vda" snapshot="internal"/><disk name="vdb" snapshot="no"/></disks></domainsnapshot>`)
	require.NoError(t, err)
	odd, err := parseXML[snapshotXML](`<domainsnapshot><name>odd</name><state>shutoff</state><creationTime>soon</creationTime></domainsnapshot>`)
	require.NoError(t, err)
	g := &guest{snapshots: []snapshotXML{x, odd}, disks: []disk{{target: "vda", modified: "1700000100.5"}, {target: "vdb"}, {target: "sda", modified: "1", medium: true}}}
	look := func(name, snapshot string) op.Observed {
		o := op.Observed{Facts: []op.Fact{{Name: "disks", Text: "none"}}}
		g.aboutCopy(op.Look{Op: name, Params: op.Params{"snapshot": snapshot}}, &o)
		return o
	}
	o := look("guest.restore", "s")
	require.Equal(t, &op.Copy{Kind: "snapshot", Name: "s", Made: time.Unix(1700000000, 0)}, o.Copy)
	require.Equal(t, []op.Fact{
		{Name: "snapshot", Text: "s, taken 2023-11-14T22:13:20Z"},
		{Name: "snapshot holds", Text: "the disks as they were then: vda; and the memory of the running guest; libvirt does not say how large it is, nor how many files are in it"},
		{Name: "overwritten", Text: "all that was written to its disks since then, and its limits on memory and CPUs; how much was written, libvirt does not say; vda was written last 2023-11-14T22:15:00Z"},
		{Name: "disks", Text: "none"},
	}, o.Facts)
	o = look("guest.snapshot-delete", "odd")
	require.True(t, o.Copy.Made.IsZero())
	require.Equal(t, []op.Fact{
		{Name: "snapshot", Text: "odd, taken when, the back end does not say"},
		{Name: "snapshot holds", Text: "the disks as they were then: libvirt does not say which; libvirt does not say how large it is, nor how many files are in it"},
		{Name: "disks", Text: "none"},
	}, o.Facts)
	for _, o := range []op.Observed{look("guest.restore", "none"), look("guest.destroy", "s"), look("", "s"), look("guest.backup-delete", "s")} {
		require.Nil(t, o.Copy)
		require.Len(t, o.Facts, 1)
	}
}
