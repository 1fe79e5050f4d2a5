package libvirttest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

// Namespace is the XML namespace of gated's element in a domain's metadata.
const Namespace = "urn:gated:libvirt:guest:1"

// Image is the path of the disk that Plant makes.
func (l *Libvirtd) Image(name string) string { return filepath.Join(l.Images, name+".qcow2") }

// Plant makes a guest without the driver: a stopped domain of 32 MiB with a qcow2 disk of 16
// MiB in the pool, with data. If uuid is empty, libvirt chooses one. metadata may be empty.
func (l *Libvirtd) Plant(name, uuid, metadata string) {
	l.t.Helper()
	if _, err := os.Lstat(l.Image(name)); err == nil {
		l.Virsh("vol-delete", name+".qcow2", "default") // an interrupted destroy may have left it
	}
	l.Virsh("vol-create-as", "default", name+".qcow2", "16M", "--format", "qcow2")
	l.Write(l.Image(name), "the only copy of "+name)
	l.Define(DomainXML(name, uuid, metadata, l.Image(name)))
}

// DomainXML is a domain's definition with qcow2 disks, vda and so on.
func DomainXML(name, uuid, metadata string, disks ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<domain type='qemu'><name>%s</name>", name)
	if uuid != "" {
		fmt.Fprintf(&b, "<uuid>%s</uuid>", uuid)
	}
	fmt.Fprintf(&b, "<metadata>%s</metadata><memory unit='MiB'>32</memory><vcpu>1</vcpu><os><type>hvm</type></os><features><acpi/></features><devices>", metadata)
	for i, path := range disks {
		fmt.Fprintf(&b, "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='%s'/><target dev='vd%c' bus='virtio'/></disk>",
			path, 'a'+i)
	}
	b.WriteString("</devices></domain>")
	return b.String()
}

// Write writes data into an unused qcow2 disk: a pattern that depends on the text, at the
// beginning of the disk.
func (l *Libvirtd) Write(path, text string) {
	l.t.Helper()
	sum := sha256.Sum256([]byte(text))
	l.Run("qemu-io", "-f", "qcow2", "-c", fmt.Sprintf("write -P %d 0 64k", sum[0]|1), "-c", fmt.Sprintf("write -P %d 1M 64k", sum[1]|1), path)
}

// sources finds the files of a domain's disks in its XML.
var sources = regexp.MustCompile(`<source file='([^']+)'`)

// Disks are the files of a domain's disks, from libvirtd's definition on disk. It is empty if
// there is no such domain.
func (l *Libvirtd) Disks(name string) []string {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, "etc", "qemu", name+".xml"))
	if os.IsNotExist(err) || strings.ContainsRune(name, 0) {
		return nil
	}
	require.NoError(l.t, err)
	var out []string
	for _, m := range sources.FindAllStringSubmatch(string(text), -1) {
		out = append(out, m[1])
	}
	return out
}

// Digest is a digest of the content of files. It leaves out missing files. If no file exists,
// it is empty.
func (l *Libvirtd) Digest(paths ...string) string {
	l.t.Helper()
	sum, some := sha256.New(), false
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(l.t, err)
		some = true
		fmt.Fprintf(sum, "%s %d\n", path, len(b))
		sum.Write(b)
	}
	if !some {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Clear ends and undefines every domain, and deletes every volume.
func (l *Libvirtd) Clear() {
	l.t.Helper()
	if names := strings.Fields(l.Virsh("list", "--all", "--name")); len(names) > 0 {
		commands := ""
		for _, name := range names {
			commands += "destroy " + name + "; undefine " + name + " --managed-save --snapshots-metadata --nvram; "
		}
		// A stopped domain cannot be destroyed, and a transient one cannot be undefined. The
		// checks below look for what is left.
		_ = exec.Command("virsh", "-q", "-c", l.URI, commands).Run()
		require.Empty(l.t, l.Virsh("list", "--all", "--name"))
	}
	left := must.Get(os.ReadDir(l.Images))(l.t)
	if len(left) == 0 {
		return
	}
	for _, e := range left {
		require.NoError(l.t, os.Remove(filepath.Join(l.Images, e.Name())))
	}
	l.Virsh("pool-refresh", "default")
}
