package libvirt

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gated/internal/base/op"
)

// birth is the token of the step that made the guest. A caller who may define domains can write
// it with the UUID that it belongs to, but cannot make the guest's first disk again. The token
// counts only while a destroy would take no other files, because that step did not make files
// that others added.
func (g *guest) birth() string {
	made := false
	for _, k := range g.disks {
		switch {
		case string(k.id) == g.mark.disk && !k.weak:
			made = true
		case k.deletable():
			return ""
		}
	}
	if !made || g.takesNVRAM() {
		return ""
	}
	return g.mark.birth
}

// incarnation identifies the guest. A name, a UUID or copied metadata cannot fake it, because
// each disk is in it, by its identity and not by its path.
func (g *guest) incarnation() op.Incarnation {
	h := sha256.New()
	for _, k := range g.disks {
		if k.medium {
			continue // a CD in the drive does not change the incarnation
		}
		fmt.Fprintf(h, "%s\x00%s\x00", k.target, k.id)
	}
	generation := g.mark.generation
	if generation == "" {
		generation = "-"
	}
	return op.Incarnation("libvirt:" + g.xml.UUID + ":" + generation + ":" + hex.EncodeToString(h.Sum(nil)[:12]))
}

// lingers reports what is left of an incarnation that the look did not find. That is the domain
// with its UUID, under any name and with any disks.
func lingers(all []*domain, wanted, found op.Incarnation) string {
	rest, ours := strings.CutPrefix(string(wanted), "libvirt:")
	uuid, _, _ := strings.Cut(rest, ":")
	if !ours || wanted == found {
		return ""
	}
	for _, dom := range all {
		if strings.EqualFold(uuidOf(dom.UUID), uuid) {
			return fmt.Sprintf("the domain %s is still there, as %s, and not as it was", uuid, op.Shown(dom.Name))
		}
	}
	return ""
}

// named is a path in a domain's XML.
type named struct {
	slot, path string
	follow     bool // QEMU reads it as qcow2, or may
	disk       bool // QEMU's command line gives it to the guest as a disk
}

// unnamed are the parts of a domain's XML that name no other files of the domain. Disks are
// followed elsewhere, metadata belongs to other programs, and a resource is a cgroup.
var unnamed = map[string]bool{"disk": true, "resource": true, "metadata": true, "name": true, "title": true, "description": true}

// namesIn finds every absolute path in a domain's XML: kernel, initrd, loader and nvram, the
// files of NVDIMMs and of serial ports, arguments of QEMU. If such a path is no file of the
// domain, it only prevents that the file there is deleted.
func namesIn(text string) []named {
	var out []named
	var within []string
	var args []argXML // of QEMU
	dec := xml.NewDecoder(strings.NewReader(text))
	take := func(text string) {
		parts := append(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",= \n\t", r) }), strings.TrimSpace(text))
		ofLine := len(within) > 1 && within[1] == "commandline"
		if ofLine {
			parts = append(parts, pathsOf(text)...)
		}
		for _, part := range parts {
			if strings.HasPrefix(part, "/") && len(within) > 0 {
				slot := choose(ofLine, commandLine, within[min(2, len(within)-1)])
				if slot == "console" {
					slot = "serial" // libvirtd writes the first port as both
				}
				out = append(out, named{slot, part, ofLine, false})
			}
		}
	}
	for {
		token, err := dec.Token()
		if err != nil {
			return append(out, namedBy(args)...) // the end, because the whole XML was parsed before
		}
		switch token := token.(type) {
		case xml.StartElement:
			if unnamed[token.Name.Local] && len(within) > 0 && len(within) < 3 {
				if dec.Skip() != nil {
					return out
				}
				continue
			}
			within = append(within, token.Name.Local)
			for _, a := range token.Attr {
				if len(within) == 3 && within[1] == "commandline" && within[2] == "arg" && a.Name.Local == "value" {
					args = append(args, argXML{a.Value})
					continue
				}
				take(a.Value)
			}
		case xml.EndElement:
			within = within[:len(within)-1]
		case xml.CharData:
			take(string(token))
		}
	}
}

// namespace is the XML namespace of gated's element in a domain's metadata.
const namespace = "urn:gated:libvirt:guest:1"

// mark is the content of gated's element in a domain's metadata.
type mark struct {
	uuid       string // of the domain that the mark was written for
	birth      string
	disk       string // the id of the disk that the guest was made with
	generation string
	protected  bool
	labels     map[string]string
}

type markXML struct {
	XMLName    xml.Name   `xml:"guest"`
	UUID       string     `xml:"uuid,attr"`
	Birth      string     `xml:"birth,attr"`
	Disk       string     `xml:"disk,attr"`
	Generation string     `xml:"generation,attr"`
	Protected  string     `xml:"protected,attr"`
	Labels     []labelXML `xml:"label"`
}

type labelXML struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

// mark reads the domain's mark. Metadata can be copied with a domain. So a birth and a
// generation that were written for another UUID do not count, but protection and labels always
// count.
func (x domainXML) mark() (mark, error) {
	m := mark{uuid: x.UUID, labels: map[string]string{}}
	seen := false
	for _, e := range x.Marks {
		if e.XMLName.Space != namespace {
			continue
		}
		if seen {
			return m, fmt.Errorf("the metadata has two elements of gated")
		}
		seen = true
		if e.UUID == x.UUID {
			m.birth, m.disk, m.generation = e.Birth, e.Disk, e.Generation
		}
		// If another program wrote a value that is neither, the driver takes the safe one.
		m.protected = e.Protected != "" && e.Protected != "no"
		for _, l := range e.Labels {
			_, twice := m.labels[l.Name]
			if twice || op.CheckName(l.Name) != nil || op.CheckText("a label", l.Value) != nil {
				return m, fmt.Errorf("the metadata has a label that is none")
			}
			m.labels[l.Name] = l.Value
		}
	}
	if m.birth != "" && op.CheckName(m.birth) != nil || m.generation != "" && op.CheckName(m.generation) != nil {
		return m, fmt.Errorf("the metadata has a birth or a generation that is none")
	}
	return m, nil
}

// is reports if two marks say the same.
func (m mark) is(o mark) bool { return m.text() == o.text() }

// text is the metadata element.
func (m mark) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<gated:guest xmlns:gated="%s" uuid="%s"`, namespace, escape(m.uuid))
	if m.birth != "" {
		fmt.Fprintf(&b, ` birth="%s" disk="%s"`, escape(m.birth), escape(m.disk))
	}
	if m.generation != "" {
		fmt.Fprintf(&b, ` generation="%s"`, escape(m.generation))
	}
	protected := "no"
	if m.protected {
		protected = "yes"
	}
	fmt.Fprintf(&b, ` protected="%s">`, protected)
	for _, name := range slices.Sorted(maps.Keys(m.labels)) {
		fmt.Fprintf(&b, `<gated:label name="%s" value="%s"/>`, escape(name), escape(m.labels[name]))
	}
	b.WriteString(`</gated:guest>`)
	return b.String()
}

// random returns n random bytes in hexadecimal. crypto/rand does not fail.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return hex.EncodeToString(b)
}

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
