package libvirt

import (
	"slices"
	"strings"
)

// argXML is an argument of QEMU that a definition adds by itself (qemu:commandline).
type argXML struct {
	Value string `xml:"value,attr"`
}

// commandLine is the slot of what these arguments name.
const commandLine = "QEMU's command line"

// The options of QEMU whose value the guest may write.
var (
	diskOptions = map[string]bool{"drive": true, "blockdev": true, "hda": true, "hdb": true, "hdc": true, "hdd": true, "fda": true, "fdb": true,
		"pflash": true, "sd": true, "mtdblock": true}
	directoryOptions = map[string]bool{"fsdev": true, "virtfs": true}
)

// heldBy finds what arguments give to the guest. No step takes it.
func heldBy(args []argXML) []held {
	var out []held
	option := ""
	for _, a := range args {
		if strings.HasPrefix(a.Value, "-") {
			option = strings.TrimLeft(a.Value, "-")
			continue
		}
		for _, at := range pathsOf(a.Value) {
			h := held{slot: at + " (" + commandLine + ")"}
			if diskOptions[option] || directoryOptions[option] {
				h = directory(h.slot, at, !readOnly(a.Value))
			}
			if diskOptions[option] && h.object == "" {
				h = held{slot: h.slot, file: at, writes: h.writes}
			}
			h.stays = true
			out = append(out, h)
		}
	}
	return out
}

func readOnly(arg string) bool {
	return slices.ContainsFunc([]string{"readonly=on", "read-only=on", `"read-only":true`}, func(form string) bool {
		return strings.Contains(strings.ReplaceAll(arg, " ", ""), form)
	})
}

// pathsOf finds the absolute paths in an argument: alone, in values of options, where a comma is written twice, and in JSON.
func pathsOf(arg string) []string {
	const comma = "\x00"
	parts := strings.Split(strings.ReplaceAll(arg, ",,", comma), ",")
	if strings.Contains(arg, "{") {
		parts = strings.Split(strings.ReplaceAll(arg, `\/`, "/"), `"`)
	}
	var out []string
	for _, part := range parts {
		part = strings.ReplaceAll(part, comma, ",")
		if _, value, is := strings.Cut(part, "="); is && !strings.HasPrefix(part, "/") {
			part = value
		}
		part = strings.TrimPrefix(part, filePrefix)
		if before, after, is := strings.Cut(part, ":/"); is && !strings.HasPrefix(before, "/") && !strings.HasPrefix(after, "/") {
			part = "/" + after // fat:rw:/srv, nbd:unix:/run/s
		}
		if strings.HasPrefix(part, "/") && !slices.Contains(out, part) {
			out = append(out, part)
		}
	}
	return out
}
