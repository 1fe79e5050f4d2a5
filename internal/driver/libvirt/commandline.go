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
		if name := optionIn(a.Value); name != "" {
			option = name
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

// optionIn returns the option that an argument names, or "" if it is a value.
func optionIn(arg string) string {
	if !strings.HasPrefix(arg, "-") {
		return ""
	}
	return strings.TrimLeft(arg, "-")
}

// says reports whether an argument has one of some options: auto-read-only=on is not read-only=on, and a path may say anything.
func says(arg string, forms ...string) bool {
	arg = strings.NewReplacer(": ", ":", ",,", "").Replace(arg)
	return slices.ContainsFunc(strings.FieldsFunc(arg, func(r rune) bool { return strings.ContainsRune(",{}", r) }), func(part string) bool {
		return slices.Contains(forms, strings.TrimSpace(part))
	})
}

// asRaw reports whether QEMU reads the file of an argument as raw, so that no other file is below it.
func asRaw(arg string) bool {
	return !strings.Contains(arg, formatQCOW2) && says(arg, "format=raw", "driver=raw", `"driver":"raw"`)
}

// readOnly reports whether the guest only reads what an argument names. JSON may say it of a file below alone.
func readOnly(arg string) bool {
	return says(arg, "readonly=on", "read-only=on") || strings.Count(arg, "{") == 1 && says(arg, `"read-only":true`)
}

// pathsOf finds the absolute paths in an argument: alone, in values of options, where a comma is written twice, and in JSON.
func pathsOf(arg string) []string {
	const comma = "\x00"
	parts := strings.Split(strings.ReplaceAll(arg, ",,", comma), ",")
	if strings.Contains(arg, `"`) {
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
