package libvirt

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

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
