package libvirt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	golibvirt "github.com/digitalocean/go-libvirt"

	"gated/internal/test/must"
)

// given reads a domain with some devices and some elements in its os.
func given(t *testing.T, name, devices string, os ...string) *domain {
	t.Helper()
	text := "<domain><name>" + name + "</name><os>" + strings.Join(os, "") + "</os><devices>" + devices + "</devices></domain>"
	x := must.Get(parseXML[domainXML](text))(t)
	all := must.Get(heldIn(text))(t)
	return &domain{Domain: golibvirt.Domain{Name: name, UUID: golibvirt.UUID{name[0]}}, xml: x, held: all, names: namesIn(text)}
}

// between lists what a guest shares with another.
func between(t *testing.T, mine, other *domain) []string {
	t.Helper()
	all := []*domain{mine, other}
	used := must.Get(usesOf(t.Context(), &session{}, all))(t)
	g := &guest{domain: mine, used: used}
	for _, x := range mine.xml.Disks {
		if at := x.Source.File + x.Source.Dev; at != "" {
			g.disks = append(g.disks, disk{target: x.Target.Dev, path: at, readonly: x.ReadOnly != nil, shared: x.ReadOnly != nil || x.Shareable != nil, medium: x.medium()})
		}
	}
	return g.sharing()
}

func netDisk(source string, more ...string) string {
	return `<disk type='network' device='disk'><driver name='qemu' type='raw'/><source ` + source + `</source><target dev='vda'/>` + strings.Join(more, "") + `</disk>`
}

func hostdev(kind, source string, more ...string) string {
	return `<hostdev mode='subsystem' type='` + kind + `'><source` + source + `</source>` + strings.Join(more, "") + `</hostdev>`
}

func usb(inner string) string { return hostdev("usb", ">"+inner) }

const (
	byID   = `<vendor id='0x1234'/><product id='0xbeef'/>`
	otherD = `<vendor id='0x1234'/><product id='0xbee0'/>`
	at14   = `<address bus='1' device='4'/>`
	at15   = `<address bus='1' device='5'/>`
	slot1  = ` type='pci'><address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>`
	slot1b = `><address bus='1' slot='0' function='0'/>`
	slot2  = `><address domain='0x0000' bus='0x01' slot='0x00' function='0x1'/>`
)

// TestWhatTwoGuestsHave: two forms of one object are the same object. Two objects that only
// look alike are not.
func TestWhatTwoGuestsHave(t *testing.T) {
	const uses, mayUse = "which guest b uses as well", "which guest b may use as well"
	for name, c := range map[string]struct{ a, b, says string }{
		"one RBD image": {netDisk(`protocol='rbd' name='pool/img'>`), netDisk(`protocol='rbd' name='pool/img'>`), "vda, " + uses},
		"of other hosts": {netDisk(`protocol='rbd' name='pool/img'><host name='mon1'/>`),
			netDisk(`protocol='rbd' name='pool/img'><host name='10.0.0.7' port='6789'/>`), "vda, " + uses},
		"a snapshot of it":   {netDisk(`protocol='rbd' name='pool/img'>`), netDisk(`protocol='rbd' name='pool/img@s'>`), "vda, " + uses},
		"another image":      {netDisk(`protocol='rbd' name='pool/img'>`), netDisk(`protocol='rbd' name='pool/img2'>`), ""},
		"another protocol":   {netDisk(`protocol='rbd' name='pool/img'>`), netDisk(`protocol='gluster' name='pool/img'>`), ""},
		"NBD":                {netDisk(`protocol='nbd' name='x'><host name='a'/>`), netDisk(`protocol='nbd' name='/x'><host name='b'/>`), "vda, " + uses},
		"NBD without a name": {netDisk(`protocol='nbd'><host name='a'/>`), netDisk(`protocol='nbd'><host name='b'/>`), "vda, " + uses},
		"iSCSI, by its first unit": {netDisk(`protocol='iscsi' name='iqn.2013-07.com.Example:x'>`),
			netDisk(`protocol='iscsi' name='iqn.2013-07.com.example:x/0'>`), "vda, " + uses},
		"iSCSI, another unit":     {netDisk(`protocol='iscsi' name='iqn.2013-07.com.example:x/1'>`), netDisk(`protocol='iscsi' name='iqn.2013-07.com.example:x/2'>`), ""},
		"iSCSI, as a host device": {netDisk(`protocol='iscsi' name='iqn.x/1'>`), hostdev("scsi", ` protocol='iscsi' name='iqn.x/1'>`), "vda, " + uses},
		"below another's disk": {netDisk(`protocol='rbd' name='p/i'>`), `<disk type='network'><source protocol='rbd' name='p/top'/><backingStore type='network'>` +
			`<format type='raw'/><source protocol='rbd' name='p/i'/></backingStore><target dev='vdb'/></disk>`, "vda, " + uses},
		"below its own disk": {`<disk type='network'><source protocol='rbd' name='p/top'/><backingStore type='network'><source protocol='rbd' name='p/i'/>` +
			`</backingStore><target dev='vdb'/></disk>`, netDisk(`protocol='rbd' name='p/i'>`, "<readonly/>"), ""},
		"read only here":    {netDisk(`protocol='rbd' name='p/i'>`, "<readonly/>"), netDisk(`protocol='rbd' name='p/i'>`), ""},
		"read only there":   {netDisk(`protocol='rbd' name='p/i'>`), netDisk(`protocol='rbd' name='p/i'>`, "<readonly/>"), "vda, " + uses},
		"made to be shared": {netDisk(`protocol='rbd' name='p/i'>`, "<shareable/>"), netDisk(`protocol='rbd' name='p/i'>`, "<shareable/>"), ""},
		"an NVMe disk, and its controller": {`<disk type='nvme'><source type='pci' namespace='1'><address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/></source>` +
			`<target dev='vda'/></disk>`, hostdev("pci", slot1b), "vda, " + uses},
		"one socket": {`<disk type='vhostuser'><source type='unix' path='/run/no/x.sock'/><target dev='vda'/></disk>`,
			`<disk type='vhostuser'><source type='unix' path='/run/no/../no/x.sock'/><target dev='vdb'/></disk>`, "vda, " + uses},
		"another socket": {`<disk type='vhostuser'><source type='unix' path='/run/no/x.sock'/><target dev='vda'/></disk>`,
			`<disk type='vhostuser'><source type='unix' path='/run/no/y.sock'/><target dev='vdb'/></disk>`, ""},
		"a type of which nothing is known": {`<disk type='new'><source thing='x' name='x'/><target dev='vda'/></disk>`,
			`<disk type='new'><source thing='y' name='y'/><target dev='vdb'/></disk>`, "vda, " + mayUse},
		"a PCI device":     {hostdev("pci", slot1), hostdev("pci", slot1b), "the host device pci 0000:01:00.0, " + uses},
		"another function": {hostdev("pci", slot1), hostdev("pci", slot2), ""},
		"a USB device":     {usb(byID), usb(byID), "the host device usb 1234:beef, " + uses},
		"by its place":     {usb(at14), usb(byID + at14), "the host device usb 1.4, " + uses},
		"two of one make":  {usb(byID + at14), usb(byID + at15), ""},
		"another make":     {usb(byID), usb(otherD), ""},
		"in another form":  {usb(byID), usb(at14), "the host device usb 1234:beef, " + mayUse},
		"a SCSI device": {hostdev("scsi", `><adapter name='scsi_host0'/><address bus='0' target='0' unit='3'/>`),
			hostdev("scsi", `><adapter name='scsi_host0'/><address type='scsi' bus='0' target='0' unit='3'/>`), "the host device scsi scsi_host0:0:0:3, " + uses},
		"a SCSI device that is shared": {hostdev("scsi", `><adapter name='scsi_host0'/><address bus='0' target='0' unit='3'/>`, "<shareable/>"),
			hostdev("scsi", `><adapter name='scsi_host0'/><address bus='0' target='0' unit='3'/>`, "<shareable/>"), ""},
		"a vhost target": {hostdev("scsi_host", ` protocol='vhost' wwpn='naa.50014056'>`), hostdev("scsi_host", ` protocol='vhost' wwpn='naa.50014056'>`),
			"the host device scsi_host naa.50014056, " + uses},
		"an mdev": {hostdev("mdev", `><address uuid='C2177883-f1bb-47f0-914d-32a22e3a8804'/>`), hostdev("mdev", `><address uuid='c2177883-f1bb-47f0-914d-32a22e3a8804'/>`),
			"the host device mdev c2177883-f1bb-47f0-914d-32a22e3a8804, " + uses},
		"a USB and a PCI device": {usb(at14), hostdev("pci", slot1), ""},
		"nothing":                {`<disk type='file' device='cdrom'><target dev='sda'/></disk>`, `<disk type='file' device='cdrom'><target dev='sda'/></disk>`, ""},
	} {
		var want []string
		if c.says != "" {
			want = []string{c.says}
		}
		require.Equal(t, want, between(t, given(t, "a", c.a), given(t, "b", c.b)), name)
		require.Empty(t, between(t, given(t, "a", c.a+c.b), given(t, "c", "")), "%s: nobody shares with itself", name)
	}
}

func fileSystem(dir string, more ...string) string {
	return `<filesystem type='mount'><source dir='` + dir + `'/><target dir='/mnt'/>` + strings.Join(more, "") + `</filesystem>`
}

// TestDirectoriesOfTwoGuests: they share if the directories are the same under any name, or if
// one lies in the other. They also share if a file of a guest lies in one.
func TestDirectoriesOfTwoGuests(t *testing.T) {
	top := t.TempDir()
	for _, dir := range []string{"srv/in/deep", "srv2"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o700))
	}
	require.NoError(t, os.Symlink("srv/in", filepath.Join(top, "link")))
	require.NoError(t, os.Symlink(top, filepath.Join(top, "srv2/up")))
	require.NoError(t, os.WriteFile(filepath.Join(top, "srv/in/disk.img"), nil, 0o600))
	at := func(name string) string { return filepath.Join(top, name) }
	dir := func(name string) string { return fileSystem(at(name)) }
	file := func(name string, more ...string) string { return on(at(name), "vda", "raw", more...) }
	for name, c := range map[string]struct{ a, b, says string }{
		"the same":                   {dir("srv"), dir("srv"), "the directory " + at("srv") + ", which guest b uses as well"},
		"one in it":                  {dir("srv"), dir("srv/in"), "the directory " + at("srv") + ", which guest b uses as well"},
		"one around it":              {dir("srv/in"), dir("srv"), "the directory " + at("srv/in") + ", which guest b uses as well"},
		"by a link":                  {dir("link/deep"), dir("srv"), "the directory " + at("link/deep") + ", which guest b uses as well"},
		"by a link in the middle":    {dir("srv2/up/srv"), dir("srv/in"), "the directory " + at("srv2/up/srv") + ", which guest b uses as well"},
		"that will be made":          {dir("link/new"), dir("srv"), "the directory " + at("link/new") + ", which guest b uses as well"},
		"all there is":               {fileSystem("/"), dir("srv"), "the directory /, which guest b uses as well"},
		"a name that only begins so": {dir("srv"), dir("srv2"), ""},
		"read only here":             {fileSystem(at("srv"), "<readonly/>"), dir("srv"), ""},
		"read only there":            {dir("srv"), fileSystem(at("srv"), "<readonly/>"), "the directory " + at("srv") + ", which guest b uses as well"},
		"another's disk":             {dir("srv"), file("srv/in/disk.img"), "the directory " + at("srv") + ", where guest b has vda"},
		"another's disk, by a link":  {dir("srv"), file("link/disk.img"), "the directory " + at("srv") + ", where guest b has vda"},
		"a disk in another's":        {file("link/disk.img"), dir("srv"), "vda, which lies in a directory that guest b has"},
		"a disk that is read only":   {file("link/disk.img", "<readonly/>"), dir("srv"), ""},
		"a disk beside it":           {file("srv/in/disk.img"), dir("srv2"), ""},
		"a file that is a file system": {`<filesystem type='file'><source file='` + at("srv/in/disk.img") + `'/><target dir='/mnt'/></filesystem>`, file("link/disk.img"),
			"the file system on " + at("srv/in/disk.img") + ", which guest b uses as well"},
		"a device of a container": {hostdev("storage", "><block>"+at("srv/in/disk.img")+"</block>"), file("link/disk.img"),
			"the host device storage " + at("srv/in/disk.img") + ", which guest b uses as well"},
		"a socket": {`<filesystem type='mount'><driver type='virtiofs'/><source socket='/run/no/s'/></filesystem>`,
			`<filesystem type='mount'><driver type='virtiofs'/><source socket='/run/no/s'/></filesystem>`, "the directory behind /run/no/s, which guest b uses as well"},
		"memory": {`<filesystem type='ram'><source usage='1'/></filesystem>`, `<filesystem type='ram'><source usage='1'/></filesystem>`, ""},
	} {
		var want []string
		if c.says != "" {
			want = []string{c.says}
		}
		require.Equal(t, want, between(t, given(t, "a", c.a), given(t, "b", c.b)), name)
	}
	other := filepath.Join(t.TempDir(), "hard.img")
	require.NoError(t, os.Link(at("srv/in/disk.img"), other))
	nvram := func(path string) string { return "<nvram template='/usr/share/VARS.fd'>" + path + "</nvram>" }
	require.Equal(t, []string{"nvram, which guest b uses as well"}, between(t, given(t, "a", "", nvram(at("srv/in/disk.img"))), given(t, "b", "", nvram(other))))
	require.Empty(t, between(t, given(t, "a", "", nvram("/no/a.fd")), given(t, "b", "", nvram("/no/b.fd"))), "the template is nobody's")
	require.Equal(t, []string{"nvram, which lies in a directory that guest b has"}, between(t, given(t, "a", "", nvram(at("srv/a.fd"))), given(t, "b", dir("srv"))))
	stored := "<nvram type='network'><source protocol='nbd' name='v'/></nvram>"
	require.Equal(t, []string{"nvram, which guest b uses as well"}, between(t, given(t, "a", "", stored), given(t, "b", "", stored)))
}
