package libvirt

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gated/internal/base/op"
)

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
