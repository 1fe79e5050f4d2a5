package libvirt

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
)

// domainXML is the part of a domain's XML that this driver reads.
type domainXML struct {
	XMLName xml.Name  `xml:"domain"`
	Type    string    `xml:"type,attr"`
	Name    string    `xml:"name"`
	UUID    string    `xml:"uuid"`
	Memory  sizeXML   `xml:"memory"`
	Current *sizeXML  `xml:"currentMemory"`
	VCPU    vcpuXML   `xml:"vcpu"`
	Marks   []markXML `xml:"metadata>guest"`
	OS      struct {
		NVRAM nvramXML `xml:"nvram"`
	} `xml:"os"`
	Disks []diskXML `xml:"devices>disk"`
	TPMs  []tpmXML  `xml:"devices>tpm>backend"`
}

// nvramXML is the file of a guest's firmware settings, in either form.
type nvramXML struct {
	Text   string    `xml:",chardata"`
	Source sourceXML `xml:"source"`
}

func (n nvramXML) path() string {
	return orElse(strings.TrimSpace(n.Text), orElse(n.Source.File, n.Source.Dev))
}

type tpmXML struct {
	Type string `xml:"type,attr"`
}

// emulator is the type of a TPM whose state libvirtd keeps in files.
const emulator = "emulator"

type sizeXML struct {
	Unit  string `xml:"unit,attr"`
	Value string `xml:",chardata"`
}

type vcpuXML struct {
	Current string `xml:"current,attr"`
	Value   string `xml:",chardata"`
}

type diskXML struct {
	Type    string    `xml:"type,attr"`
	Device  string    `xml:"device,attr"`
	Driver  formatXML `xml:"driver"`
	Source  sourceXML `xml:"source"`
	Backing *storeXML `xml:"backingStore"` // as written, or as found when the guest was started
	Mirror  *storeXML `xml:"mirror"`       // the target of a copy of the disk
	Target  struct {
		Dev string `xml:"dev,attr"`
	} `xml:"target"`
	ReadOnly  *struct{} `xml:"readonly"`
	Shareable *struct{} `xml:"shareable"`
	Transient *struct{} `xml:"transient"`
}

type formatXML struct {
	Type string `xml:"type,attr"`
}

type sourceXML struct {
	File     string `xml:"file,attr"`
	Dev      string `xml:"dev,attr"`
	Dir      string `xml:"dir,attr"`
	Pool     string `xml:"pool,attr"`
	Volume   string `xml:"volume,attr"`
	Protocol string `xml:"protocol,attr"`
	Name     string `xml:"name,attr"`
}

// storeXML is one layer below a disk.
type storeXML struct {
	Format  formatXML `xml:"format"`
	Source  sourceXML `xml:"source"`
	Backing *storeXML `xml:"backingStore"`
}

// poolXML is the part of a pool's XML that this driver reads.
type poolXML struct {
	XMLName xml.Name `xml:"pool"`
	Path    string   `xml:"target>path"`
}

// volumeXML is the part of a volume's XML that this driver reads. Sizes are in bytes.
type volumeXML struct {
	XMLName    xml.Name `xml:"volume"`
	Name       string   `xml:"name"`
	Key        string   `xml:"key"`
	Capacity   sizeXML  `xml:"capacity"`
	Allocation sizeXML  `xml:"allocation"`
	Target     struct {
		Path   string `xml:"path"`
		Format struct {
			Type string `xml:"type,attr"`
		} `xml:"format"`
		Modified string `xml:"timestamps>mtime"`
	} `xml:"target"`
	Backing struct {
		Path string `xml:"path"`
	} `xml:"backingStore"`
}

// snapshotXML is the part of a snapshot's XML that this driver reads.
type snapshotXML struct {
	XMLName xml.Name `xml:"domainsnapshot"`
	Name    string   `xml:"name"`
	State   string   `xml:"state"`
	Created string   `xml:"creationTime"`
	Memory  struct {
		Snapshot string `xml:"snapshot,attr"`
	} `xml:"memory"`
	Disks []struct {
		Name     string `xml:"name,attr"`
		Snapshot string `xml:"snapshot,attr"`
	} `xml:"disks>disk"`
	Domain   *definitionXML `xml:"domain"`         // a restore brings it back
	Inactive *definitionXML `xml:"inactiveDomain"` // of a guest that ran: the definition for its next start
}

// definitionXML is the part of a snapshot's definition that this driver reads.
type definitionXML struct {
	UUID  string    `xml:"uuid"`
	Marks []markXML `xml:"metadata>guest"`
	Disks []diskXML `xml:"devices>disk"`
	Args  []argXML  `xml:"commandline>arg"`
	Inner string    `xml:",innerxml"`
}

// is reports if both are the same snapshot. A later snapshot of the same name is another one.
func (s snapshotXML) is(o snapshotXML) bool { return s.Name == o.Name && s.Created == o.Created }

// sameDisks reports if two definitions have the same disks, and use them in the same way. Media that are only read may differ.
func sameDisks(a, b []diskXML) bool {
	disks := func(all []diskXML) map[string]string {
		out := map[string]string{}
		for _, x := range all {
			if !x.medium() || x.ReadOnly == nil {
				out[x.Target.Dev] = fmt.Sprintf("%v %v %t %t %t", x.Source, x.Driver, x.ReadOnly != nil, x.Shareable != nil, x.Transient != nil)
			}
		}
		return out
	}
	return maps.Equal(disks(a), disks(b))
}

// medium reports if a person can take the drive's medium out.
func (x diskXML) medium() bool { return x.Device != "" && x.Device != "disk" && x.Device != "lun" }

func (s snapshotXML) external() bool {
	for _, d := range s.Disks {
		if d.Snapshot == "external" {
			return true
		}
	}
	return s.Memory.Snapshot == "external"
}

func parseXML[T any](text string) (T, error) {
	var v T
	if err := xml.Unmarshal([]byte(text), &v); err != nil {
		return v, fmt.Errorf("the XML of libvirtd cannot be read: %w", err)
	}
	return v, nil
}

// units are those of libvirt's sizes, in bytes (formatdomain, memory).
var units = map[string]uint64{"b": 1, "bytes": 1, "": 1 << 10, "KB": 1e3, "k": 1 << 10, "KiB": 1 << 10, "MB": 1e6, "M": 1 << 20, "MiB": 1 << 20,
	"GB": 1e9, "G": 1 << 30, "GiB": 1 << 30, "TB": 1e12, "T": 1 << 40, "TiB": 1 << 40}

// bytes returns the size in bytes. Without a unit, the size is in KiB, as libvirt's memory
// sizes are. libvirtd itself always writes a unit.
func (s sizeXML) bytes() (int64, error) {
	unit, ok := units[s.Unit]
	n, err := strconv.ParseUint(strings.TrimSpace(s.Value), 10, 64)
	if !ok || err != nil || n > (1<<62)/unit {
		return 0, fmt.Errorf("the size %q %q cannot be read", s.Value, s.Unit)
	}
	return int64(n * unit), nil
}

// memory returns the most memory that the guest can get at its start, and its current memory,
// in KiB.
func (x domainXML) memory() (most, current int64, err error) {
	if most, err = x.Memory.bytes(); err != nil {
		return 0, 0, err
	}
	current = most
	if x.Current != nil {
		if current, err = x.Current.bytes(); err != nil {
			return 0, 0, err
		}
	}
	return most >> 10, current >> 10, nil
}

// cpus returns how many CPUs the guest can have, and how many it starts with.
func (x domainXML) cpus() (most, current int64, err error) {
	if most, err = strconv.ParseInt(strings.TrimSpace(x.VCPU.Value), 10, 32); err != nil || most < 1 {
		return 0, 0, fmt.Errorf("the number of CPUs %q cannot be read", x.VCPU.Value)
	}
	current = most
	if x.VCPU.Current != "" {
		if current, err = strconv.ParseInt(x.VCPU.Current, 10, 32); err != nil || current < 1 || current > most {
			return 0, 0, fmt.Errorf("the number of CPUs %q cannot be read", x.VCPU.Current)
		}
	}
	return most, current, nil
}

// escape returns s as text for an element or an attribute.
func escape(s string) string {
	var b strings.Builder
	// A strings.Builder never fails.
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

// changes are the changes that set-config makes in a domain's XML. All other bytes stay as they
// are, also elements that this driver does not know.
type changes struct {
	memory int64 // KiB; 0 changes nothing
	cpus   int64 // 0 changes nothing
	mark   *mark // nil changes nothing
}

// cut is a part of the XML that is replaced.
type cut struct {
	from, to int64
	with     string
}

// edit returns the domain's XML with the changes made.
func edit(text string, c changes) (string, error) {
	e := editor{changes: c, text: text, found: map[string]bool{}, dec: xml.NewDecoder(strings.NewReader(text))}
	if err := e.walk(); err != nil {
		return "", fmt.Errorf("the XML of libvirtd cannot be read: %w", err)
	}
	if c.memory > 0 && !e.found["memory"] || c.cpus > 0 && !e.found["vcpu"] {
		return "", errors.New("the XML of libvirtd has no memory or no vcpu")
	}
	var b strings.Builder
	at := int64(0)
	for _, cut := range e.cuts {
		b.WriteString(text[at:cut.from])
		b.WriteString(cut.with)
		at = cut.to
	}
	b.WriteString(text[at:])
	return b.String(), nil
}

type editor struct {
	changes
	text   string
	dec    *xml.Decoder
	cuts   []cut
	marked bool // the new mark is in its place
	found  map[string]bool
}

func (e *editor) walk() error {
	depth := 0
	for {
		from := e.dec.InputOffset()
		token, err := e.dec.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if depth++; depth != 2 {
				continue
			}
			if err := e.child(token, from); err != nil {
				return err
			}
			depth--
		case xml.EndElement:
			if depth--; depth == 0 && e.mark != nil && !e.marked {
				e.cuts = append(e.cuts, cut{from, from, "<metadata>" + e.mark.text() + "</metadata>"})
			}
		}
	}
}

// child reads one element right below the domain, to its end.
func (e *editor) child(start xml.StartElement, from int64) error {
	if start.Name.Local == "metadata" && e.mark != nil && !e.marked {
		return e.metadata(from)
	}
	if err := e.dec.Skip(); err != nil {
		return err
	}
	with := ""
	switch name := start.Name.Local; {
	case e.memory > 0 && (name == "memory" || name == "currentMemory"):
		with = fmt.Sprintf("<%s unit='KiB'>%d</%s>", name, e.memory, name)
	case e.cpus > 0 && name == "vcpu":
		with = "<vcpu"
		for _, a := range start.Attr {
			if a.Name.Local != "current" {
				with += fmt.Sprintf(" %s='%s'", a.Name.Local, escape(a.Value))
			}
		}
		with += fmt.Sprintf(">%d</vcpu>", e.cpus)
	default:
		return nil
	}
	e.found[start.Name.Local] = true
	e.cuts = append(e.cuts, cut{from, e.dec.InputOffset(), with})
	return nil
}

// metadata removes gated's elements from the metadata and adds the new one.
func (e *editor) metadata(from int64) error {
	e.marked = true
	if opened := e.dec.InputOffset(); strings.HasSuffix(e.text[from:opened], "/>") {
		e.cuts = append(e.cuts, cut{from, opened, "<metadata>" + e.mark.text() + "</metadata>"})
		return e.dec.Skip()
	}
	for {
		at := e.dec.InputOffset()
		token, err := e.dec.Token()
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if err := e.dec.Skip(); err != nil {
				return err
			}
			if token.Name.Space == namespace && token.Name.Local == "guest" {
				e.cuts = append(e.cuts, cut{at, e.dec.InputOffset(), ""})
			}
		case xml.EndElement:
			e.cuts = append(e.cuts, cut{at, at, e.mark.text()})
			return nil
		}
	}
}
