package libvirt

import (
	"encoding/xml"
	"strings"
)

// named is a path in a domain's XML.
type named struct{ slot, path string }

// unnamed are the parts of a domain's XML that name no other files of the domain. Disks are
// followed elsewhere, and metadata belongs to other programs.
var unnamed = map[string]bool{"disk": true, "emulator": true, "metadata": true, "name": true, "title": true, "description": true}

// namesIn finds every absolute path in a domain's XML: kernel, initrd, loader and nvram, the
// files of NVDIMMs and of serial ports, arguments of QEMU. If such a path is no file of the
// domain, it only prevents that the file there is deleted.
func namesIn(text string) []named {
	var out []named
	var within []string
	dec := xml.NewDecoder(strings.NewReader(text))
	take := func(text string) {
		for _, part := range append(strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(",= \n\t", r) }), strings.TrimSpace(text)) {
			if strings.HasPrefix(part, "/") && len(within) > 0 {
				out = append(out, named{within[min(2, len(within)-1)], part})
			}
		}
	}
	for {
		token, err := dec.Token()
		if err != nil {
			return out // the end, because the whole XML was parsed before
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
				take(a.Value)
			}
		case xml.EndElement:
			within = within[:len(within)-1]
		case xml.CharData:
			take(string(token))
		}
	}
}
