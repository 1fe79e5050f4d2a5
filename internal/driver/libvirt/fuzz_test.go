package libvirt

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/driver/libvirt/libvirttest"
	"gated/internal/test/must"
)

// FuzzDomain: no XML of a domain causes a panic. An edit keeps everything that it does not
// change, and what it writes reads as the same.
func FuzzDomain(f *testing.F) {
	m := mark{uuid: "u", birth: "b", disk: "d", generation: "g", protected: true, labels: map[string]string{"a": `<&">'`}}
	f.Add(libvirttest.DomainXML("web", "u", m.text(), "/a.qcow2", "/b.qcow2"))
	f.Add(libvirttest.DomainXML("web", "u", ""))
	f.Add("<domain><uuid>u</uuid><memory>1</memory><memory unit='MB'>7</memory><vcpu current='1' cpuset='0-1'>2</vcpu><metadata/></domain>")
	f.Add("<domain><metadata><a><b/></a><x:guest xmlns:x='urn:gated:libvirt:guest:1'/><guest/></metadata></domain>")
	f.Add("<?xml version='1.0' encoding='latin1'?><domain><!-- --><memory unit='TiB'>99999999999</memory></domain>")
	f.Add(`<domain><q:commandline xmlns:q='urn:q'><q:arg value='-drive'/><q:arg value='file=/a,,b'/></q:commandline></domain>`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, at := range pathsOf(text) {
			require.True(t, filepath.IsAbs(at), at)
		}
		x, err := parseXML[domainXML](text)
		same, err2 := edit(text, changes{})
		if err2 == nil {
			require.Equal(t, text, same)
		}
		if err != nil {
			return
		}
		if all, err := heldIn(text); err == nil {
			for _, h := range all {
				same, perhaps := h.same(h)
				require.False(t, same && perhaps)
			}
		}
		if most, current, err := x.memory(); err == nil {
			require.GreaterOrEqual(t, most, int64(0))
			require.GreaterOrEqual(t, current, int64(0))
		}
		if most, current, err := x.cpus(); err == nil {
			require.LessOrEqual(t, current, most)
			require.Positive(t, current)
		}
		if was, err := x.mark(); err == nil {
			require.True(t, was.birth == "" || op.CheckName(was.birth) == nil)
		}
		m := m
		m.uuid = x.UUID
		edited, err := edit(text, changes{memory: 40960, cpus: 3, mark: &m})
		if err != nil {
			return
		}
		now := must.Get(parseXML[domainXML](edited))(t, edited)
		require.Equal(t, x.Name, now.Name)
		require.Equal(t, x.Disks, now.Disks)
		most, _, err := now.memory()
		if err == nil {
			require.Equal(t, int64(40960), most, edited)
		}
		if is, err := now.mark(); err == nil && op.CheckText("a uuid", x.UUID) == nil {
			require.Equal(t, m, is, edited)
		}
	})
}

// FuzzCommandLine: of each option that gives the guest a disk, the file is known, or the option is a doubt. What is written in
// QEMU's form reads as the same.
func FuzzCommandLine(f *testing.F) {
	for _, text := range []string{
		"-drive\nfile=/srv/a,,b,format=raw,if=none", "-hda\n/srv/a", "-snapshot\n/srv/a", "-append\n-drive", "-drive", "-cdrom\nfat:rw:/srv",
		"-blockdev\n" + `{"driver":"qcow2","file":{"driver":"file","filename":"/srv/a"},"x":[1,null,true,{"y":"z"}]}`,
		"-blockdev\n{'driver':'file','filename':'/srv/a'}", "-drive\n" + `file=json:{"file":{"filename":"json:{}"}}`,
		"-blockdev\nfile,node-name=a,filename=/a\n-blockdev\nraw,node-name=b,file=a\n-blockdev\nqcow2,file=b,node-name=a",
		"-drive\nfile=nbd:unix:/run/s,format=raw", "-drive\nfile=a.vmdk,format=vmdk", "-set\ndrive.a.file=/a", "-readconfig\n/a",
		"-object\nmemory-backend-file,mem-path=a", "-fsdev\nlocal,path=a", "-serial\nfile:a", "-kernel\na", "--new\n-x\ny", "-",
		"-netdev\nuser,id=n,smb=/srv", "-netdev\n{'type':'user','smb':'/srv'}", "-semihosting\n/srv/a", "-gdb\nfile:/srv/a",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ReplaceAll(text, "\x00", "") // XML has none
		var args []argXML
		for part := range strings.SplitSeq(text, "\n") {
			args = append(args, argXML{part})
		}
		for _, a := range argumentsOf(args) {
			for _, at := range a.paths {
				require.True(t, filepath.IsAbs(at.path), at)
			}
			if a.kind == asImage && a.value != "" && !strings.HasPrefix(a.value, "json:") {
				require.True(t, a.hides != "" || len(a.paths) == 1, a.value)
			}
			require.False(t, a.kind == asUnknown && a.hides == "", a.option)
			for key, value := range a.settings {
				one, err := parseSettings(key+"="+strings.ReplaceAll(value, ",", ",,"), "")
				if err == nil && !strings.ContainsAny(key, ",={") {
					require.Equal(t, settings{key: value}, one)
				}
			}
		}
		for _, h := range heldBy(args) {
			require.True(t, h.stays)
		}
	})
}

// FuzzSmallXML: volumes and snapshots.
func FuzzSmallXML(f *testing.F) {
	f.Add("<volume><name>v</name><key>/v</key><capacity unit='bytes'>1</capacity><target><path>/v</path></target></volume>")
	f.Add("<domainsnapshot><name>s</name><memory snapshot='external'/><disks><disk name='vda' snapshot='internal'/></disks></domainsnapshot>")
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := parseXML[volumeXML](text); err == nil {
			if n, err := v.Capacity.bytes(); err == nil {
				require.GreaterOrEqual(t, n, int64(0))
			}
		}
		if s, err := parseXML[snapshotXML](text); err == nil && s.Memory.Snapshot == "external" {
			require.True(t, s.external())
		}
	})
}

// FuzzGuard: the library gets only whole replies, each once and in order.
func FuzzGuard(f *testing.F) {
	packet := make([]byte, headerSize+4)
	binary.BigEndian.PutUint32(packet, headerSize+4)
	binary.BigEndian.PutUint32(packet[programAt:], program)
	packet[typeAt+3], packet[serialAt+3] = typeOfReply, 1
	f.Add(packet)
	f.Add(append(bytes.Clone(packet), packet...))
	f.Add([]byte{0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, said []byte) {
		got, _ := io.ReadAll(&guard{Conn: replay{r: bytes.NewReader(said)}})
		last := uint32(0)
		for len(got) > 0 {
			require.GreaterOrEqual(t, len(got), headerSize)
			n := binary.BigEndian.Uint32(got)
			require.GreaterOrEqual(t, n, uint32(headerSize))
			require.LessOrEqual(t, int(n), len(got))
			serial := binary.BigEndian.Uint32(got[serialAt:])
			require.Greater(t, serial, last)
			require.Contains(t, string(said), string(got[:n]))
			last, got = serial, got[n:]
		}
	})
}

// replay is a connection with a recorded answer.
type replay struct {
	net.Conn
	r io.Reader
}

func (r replay) Read(p []byte) (int, error) { return r.r.Read(p) }

// FuzzBacking: the head of a file names an absolute path or nothing.
func FuzzBacking(f *testing.F) {
	head := append([]byte(qcowMagic), 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 4, 'b', 'a', 's', 'e')
	f.Add(head)
	f.Add(head[:18])
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := parseHead(bytes.NewReader(file), "/dir")
		for _, name := range []string{h.backing, h.data} {
			require.True(t, name == "" || filepath.IsAbs(name) && filepath.Clean(name) == name, name)
		}
		if bytes.Equal(file, head) {
			require.NoError(t, err)
			require.Equal(t, "/dir/base", h.backing)
		}
	})
}
