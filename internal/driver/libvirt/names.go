package libvirt

import (
	"encoding/xml"
	"strings"
)

// named is a path that a domain's XML has somewhere.
type named struct{ slot, path string }

// unnamed are the parts of a domain's XML that are no files of its own: disks are
// followed, and metadata is what others think of it.
var unnamed = map[string]bool{"disk": true, "emulator": true, "metadata": true, "name": true, "title": true, "description": true}

// namesIn finds every absolute path in a domain's XML: kernel, initrd, loader and
// nvram, the files of NVDIMMs and of serial ports, arguments of QEMU. A path that
// means something else holds up a deletion of the file there, and does no more.
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
			return out // the end, as the whole could be parsed before
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
