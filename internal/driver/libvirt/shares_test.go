package libvirt

import (
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"
)

func init() {
	beds["what no file shows that two guests have"] = sharedOtherwise
	beds["a disk in a directory of another guest"] = sharedDirectory
	beds["a volume of a pool that is not there"] = sharedVolume
}

// sharedOtherwise: libvirtd accepts these definitions, and shows them in words that the driver
// reads.
func sharedOtherwise(b *bed) {
	network := func(source string) string {
		return `<disk type='network' device='disk'><driver name='qemu' type='raw'/><source ` + source + `</source><target dev='vda' bus='virtio'/></disk>`
	}
	vhost := `<disk type='vhostuser' device='disk'><driver name='qemu' type='raw'/><source type='unix' path='/run/no/s'/><target dev='vda' bus='virtio'/></disk>`
	nvme := `<disk type='nvme' device='disk'><driver name='qemu' type='raw'/><source type='pci' managed='yes' namespace='1'>` +
		`<address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></source><target dev='vda' bus='virtio'/></disk>`
	device := func(kind, source string) string {
		return `<hostdev mode='subsystem' type='` + kind + `'><source>` + source + `</source></hostdev>`
	}
	for name, c := range map[string]struct{ mine, theirs, says string }{
		"RBD": {network(`protocol='rbd' name='pool/img'><host name='mon1' port='6789'/>`),
			network(`protocol='rbd' name='pool/img'><host name='mon2' port='6789'/><snapshot name='s'/>`), "vda, which guest other uses as well"},
		"NBD": {network(`protocol='nbd' name='x'><host name='a'/>`), network(`protocol='nbd' name='x'><host name='b'/>`), "vda, which guest other uses as well"},
		"iSCSI": {network(`protocol='iscsi' name='iqn.2013-07.com.example:x'><host name='a'/>`),
			network(`protocol='iscsi' name='iqn.2013-07.com.example:x/0'><host name='a'/>`), "vda, which guest other uses as well"},
		"NVMe":      {nvme, nvme, "vda, which guest other uses as well"},
		"vhostuser": {vhost, vhost, "vda, which guest other uses as well"},
		"PCI": {device("pci", `<address domain='0' bus='1' slot='0' function='0'/>`), device("pci", `<address bus='0x1' slot='0x0' function='0'/>`),
			"the host device pci 0000:01:00.0, which guest other uses as well"},
		"USB": {device("usb", `<vendor id='0x1234'/><product id='0xbeef'/>`), device("usb", `<address bus='1' device='4'/>`),
			"the host device usb 1234:beef, which guest other may use as well"},
		"SCSI": {device("scsi", `<adapter name='scsi_host0'/><address bus='0' target='0' unit='3'/>`), device("scsi", `<adapter name='scsi_host0'/><address bus='0' target='0' unit='3'/>`),
			"the host device scsi scsi_host0:0:0:3, which guest other uses as well"},
	} {
		b.memoryShared("web", c.mine)
		alone := b.look("web")
		require.Empty(b.t, alone.Shares, name)
		b.memoryShared("other", c.theirs)
		now := b.look("web")
		require.Equal(b.t, []string{c.says}, now.Shares, name)
		require.Equal(b.t, c.says, b.fact("web", "would write"), name)
		require.NotEqual(b.t, alone.Fingerprint, now.Fingerprint, "%s: a signature covers it", name)
		require.Equal(b.t, alone.Incarnation, now.Incarnation, name)
		require.NotEmpty(b.t, b.look("other").Shares, "%s: whichever of the two is asked for", name)
		b.Virsh("undefine", "web")
		b.Virsh("undefine", "other")
	}
}

// memoryShared defines a domain as vhostuser wants it.
func (b *bed) memoryShared(name, devices string) {
	b.t.Helper()
	b.Define(`<domain type='qemu'><name>` + name + `</name><memory unit='MiB'>32</memory><vcpu>1</vcpu><memoryBacking><access mode='shared'/></memoryBacking>` +
		`<os><type>hvm</type></os><features><acpi/></features><devices>` + devices + `</devices></domain>`)
}

func sharedDirectory(b *bed) {
	b.must("create", "web")
	require.Empty(b.t, b.look("web").Shares)
	dir := `<filesystem type='mount' accessmode='mapped'><source dir='` + b.Images + `'/><target dir='tag'/></filesystem>`
	b.domain("other", dir)
	require.Equal(b.t, []string{"vda, which lies in a directory that guest other has"}, b.look("web").Shares)
	require.Equal(b.t, []string{"the directory " + b.Images + ", where guest web has vda"}, b.look("other").Shares)
	b.domain("third", strings.Replace(dir, b.Images, filepath.Join(b.Images, "in"), 1))
	require.Contains(b.t, b.look("third").Shares, "the directory "+filepath.Join(b.Images, "in")+", which guest other uses as well")
	b.Virsh("undefine", "other")
	b.domain("other", strings.Replace(dir, "</filesystem>", "<readonly/></filesystem>", 1))
	require.Empty(b.t, b.look("other").Shares, "it reads")
	require.NotEmpty(b.t, b.look("web").Shares)
}

func sharedVolume(b *bed) {
	disk := `<disk type='volume' device='disk'><driver name='qemu' type='raw'/><source pool='p2' volume='v'/><target dev='vda' bus='virtio'/></disk>`
	b.domain("web", disk)
	b.domain("other", disk)
	require.Equal(b.t, []string{"vda, which guest other uses as well"}, b.look("web").Shares)
	b.Virsh("undefine", "other")
	b.domain("other", strings.Replace(disk, "'v'", "'w'", 1))
	require.Empty(b.t, b.look("web").Shares)
}
