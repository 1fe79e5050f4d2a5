package libvirt

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// argXML is an argument of QEMU that a definition adds by itself (qemu:commandline).
type argXML struct {
	Value string `xml:"value,attr"`
}

// commandLine is the slot of what these arguments name.
const commandLine = "QEMU's command line"

// argument is an option of QEMU with its value.
type argument struct {
	option, value string
	kind          kind
	settings      settings // of a disk, a directory or an object
	paths         []located
	hides         string // why it may name any file of the host; "" if it does not
}

// located is a path in an argument.
type located struct {
	path string
	raw  bool // no other file can be below it
}

// argumentsOf reads arguments as QEMU does. An option takes the next argument as its value, whatever that is. What is neither
// is the file of a disk.
func argumentsOf(args []argXML) []argument {
	var out []argument
	for len(args) > 0 {
		a := argument{option: "hda", kind: asImage, value: args[0].Value}
		name, is := strings.CutPrefix(args[0].Value, "-")
		if args = args[1:]; is {
			a = argument{option: strings.TrimPrefix(name, "-")}
			a.kind = optionKinds()[a.option]
			if len(args) > 0 && a.kind != asNothing && (a.kind != asUnknown || !strings.HasPrefix(args[0].Value, "-")) {
				a.value, args = args[0].Value, args[1:]
			}
		}
		a.split()
		out = append(out, a)
	}
	for i := range out {
		out[i].find(out)
	}
	return out
}

func (a *argument) hide(format string, args ...any) {
	if a.hides == "" {
		a.hides = fmt.Sprintf(format, args...)
	}
}

// split reads the parts of a value that has some.
func (a *argument) split() {
	var err error
	if a.option == "set" && strings.HasPrefix(a.value, "device.") {
		a.kind = asPaths // -set of a part of a device
	}
	if a.kind == asPaths && (strings.Contains(a.value, "smb") || strings.Contains(a.value, "rootdir")) {
		a.kind = asDirectory // a network or a device can share one
	}
	switch a.kind {
	case asImage:
		a.settings = settings{"file": a.value}
	case asDrive:
		a.settings, err = parseSettings(a.value, choose(a.option == "blockdev", "driver", ""))
	case asParts, asDirectory:
		a.settings, err = parseSettings(a.value, "kind")
	}
	if err == nil && a.disk() {
		err = a.unpack(0)
	}
	if err != nil {
		a.settings = nil
		a.hide("it %v", err)
	}
}

func (a *argument) disk() bool { return a.kind == asImage || a.kind == asDrive }

// file returns the node whose file a part names.
func (a *argument) file(key string) (node string, is bool) {
	if key == "file" && a.option != "blockdev" {
		return key, true
	}
	node, name := split(key)
	return node, name == "filename"
}

// maxPacked is how many descriptions in each other are read.
const maxPacked = 4

// unpack reads JSON that stands in the place of a file's name.
func (a *argument) unpack(depth int) error {
	for _, key := range slices.Sorted(maps.Keys(a.settings)) {
		node, is := a.file(key)
		text, packed := strings.CutPrefix(a.settings[key], "json:")
		if !is || !packed {
			continue
		}
		if depth > maxPacked {
			return fmt.Errorf("has JSON in JSON")
		}
		delete(a.settings, key)
		if err := a.settings.object(node, text); err != nil {
			return err
		}
		return a.unpack(depth + 1)
	}
	return nil
}

// find finds the files that a value names.
func (a *argument) find(all []argument) {
	if wholeHost[a.option] {
		a.hide("it gives the guest the files of this host")
	}
	switch a.kind {
	case asUnknown:
		a.hide("the driver does not know this option")
	case asMore:
		if a.option != "usbdevice" || strings.Contains(a.value, ":") {
			a.hide("it adds to other options what the driver does not read: %s", a.value)
		}
	case asPort, asPaths:
		if strings.Contains(a.value, "guestfwd") {
			a.hide("the guest may have another program started")
		}
		if strings.HasPrefix(a.value, "{") && strings.Contains(a.value, `\`) {
			a.hide("it has JSON with a backslash, which the driver does not read here")
		}
		value := "," + strings.ReplaceAll(a.value, ",,", "") + ","
		if a.option == "spice" {
			value = strings.NewReplacer(",unix=on,", ",unix,", ",unix=off,", ",").Replace(value)
			if strings.Contains(value, ",unix,") { // its address is a socket's path then
				value = strings.ReplaceAll(value, ",addr=", ",path=")
			}
		}
		for _, m := range fileIn().FindAllStringSubmatch(value, -1) {
			if m[1] != "" && relative(m[1]) {
				a.hide(notAbsolute, m[1])
			}
		}
	case asFile:
		if relative(a.value) || strings.Contains(a.value, "%") { // -D puts its pid there
			a.hide(notAbsolute, a.value)
		}
	case asParts, asDirectory:
		if a.settings["kind"] == "proxy" || a.settings["fsdriver"] == "proxy" {
			a.hide("another program chooses its directory")
		}
		for _, key := range slices.Sorted(maps.Keys(a.settings)) {
			value := a.settings[key]
			if _, name := split(key); namesFile[name] && value != "" && relative(value) && !(name == "path" && a.connects()) {
				a.hide(notAbsolute, value)
			}
		}
	case asImage, asDrive:
		a.findDisk(all)
	}
	if a.kind != asWords && a.settings == nil {
		for _, at := range pathsOf(a.value) {
			a.add(at, false)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(a.settings)) {
		if _, is := a.file(key); filepath.IsAbs(a.settings[key]) && !(is && a.disk()) {
			a.add(a.settings[key], false)
		}
	}
}

// connects reports whether a port only connects to its socket. One that listens removes what is in that place.
func (a *argument) connects() bool {
	_, server := a.settings["server"]
	return a.settings["kind"] == "socket" && !server
}

const notAbsolute = "%q is no absolute path of a file, and is not followed"

func (a *argument) add(path string, raw bool) {
	for i := range a.paths {
		if a.paths[i].path == path {
			a.paths[i].raw = a.paths[i].raw && raw
			return
		}
	}
	a.paths = append(a.paths, located{path, raw})
}

// findDisk finds the files of a disk, and whether QEMU may find others below them.
func (a *argument) findDisk(all []argument) {
	for _, key := range slices.Sorted(maps.Keys(a.settings)) {
		value := a.settings[key]
		node, name := split(key)
		at, is := a.file(key)
		switch {
		case is && value != "":
			a.open(all, at, value)
		case name == "dir" && relative(value):
			a.hide(notAbsolute, value)
		case link[name] && value != "" && !defined(all, value) && !a.raw(all, key, map[*argument]bool{}):
			a.hide("it reads as a disk's format what the node %q has, which is not on this command line", value)
		case name != "driver" && key != "format", knownFormats[value], knownPlaces[value]:
		case !servers[value]:
			a.hide("the driver does not follow a disk that is %s", value)
		case !a.raw(all, node, map[*argument]bool{}):
			a.hide(onServer, value)
		}
	}
}

// link are the parts of a disk that name a node by which it reads.
var link = map[string]bool{"file": true, "backing": true, "data-file": true}

// defined reports whether an argument makes a node of that name.
func defined(all []argument, node string) bool {
	return slices.ContainsFunc(all, func(a argument) bool {
		for key, value := range a.settings {
			if _, name := split(key); value == node && a.disk() && (name == "node-name" || key == "id") {
				return true
			}
		}
		return false
	})
}

const onServer = "a disk on a server (%s) may name files here, because its format is not said to be raw"

// open finds what QEMU opens under the name of a node's file. Without a driver for it, a word before a colon chooses one.
func (a *argument) open(all []argument, node, name string) {
	driver := a.settings[join(node, "driver")]
	before, after, has := strings.Cut(name, ":")
	scheme, _, _ := strings.Cut(before, "+")
	switch {
	case servers[driver]:
		return
	case knownPlaces[driver], !has, strings.Contains(before, "/"):
	case before+":" == filePrefix:
		name = after
	case before == "fat":
		name = name[strings.LastIndexByte(name, ':')+1:]
	case servers[scheme]:
		if !a.raw(all, node, map[*argument]bool{}) {
			a.hide(onServer, scheme)
		}
		for _, at := range pathsOf(name) {
			a.add(at, true)
		}
		return
	}
	if relative(name) {
		a.hide(notAbsolute, name)
		return
	}
	a.add(name, a.raw(all, node, map[*argument]bool{}))
}

// raw reports whether QEMU takes what is in a node as the guest's own bytes: each node above it says so, also those of other
// arguments, of which seen are known. If none says anything, something else may be put on top.
func (a *argument) raw(all []argument, node string, seen map[*argument]bool) bool {
	if driver := a.settings[join(node, "driver")]; knownFormats[driver] && driver != formatRaw {
		return false
	}
	said := node != "" || a.settings.reads("")
	for node != "" {
		if node, _ = split(node); !a.settings.reads(node) {
			return false
		}
	}
	if seen[a] {
		return said
	}
	seen[a] = true
	for i := range all {
		for _, key := range a.above(&all[i]) {
			if !all[i].raw(all, key, seen) {
				return false
			}
			said = true
		}
	}
	return said
}

// above returns the parts of an argument that name a node of this one.
func (a *argument) above(other *argument) []string {
	var out []string
	for key, value := range other.settings {
		if _, name := split(key); value == "" || name == "node-name" || name == "id" {
			continue
		}
		if other.disk() && a.disk() && defined([]argument{*a}, value) {
			out = append(out, key)
		}
	}
	return out
}

// heldBy finds what arguments give to the guest. No step takes it.
func heldBy(args []argXML) []held {
	var out []held
	all := argumentsOf(args)
	for _, a := range all {
		gives := a.disk() || a.kind == asDirectory
		for _, at := range a.paths {
			h := held{slot: at.path + " (" + commandLine + ")"}
			if gives {
				h = directory(h.slot, at.path, a.option != "cdrom" && !a.settings.readOnly())
			}
			if a.disk() && h.object == "" {
				h = held{slot: h.slot, file: at.path, writes: h.writes}
			}
			h.stays, h.loses = true, a.loses(all)
			out = append(out, h)
		}
		if a.hides != "" {
			out = append(out, held{slot: "-" + a.option + " (" + commandLine + ")", kind: "hidden", by: map[string]string{"value": a.value}, hides: a.hides,
				writes: !a.settings.readOnly(), stays: true})
		}
	}
	return out
}

// loses reports whether QEMU writes elsewhere than into a disk, and drops that at the end. -snapshot is for all disks but a -blockdev.
func (a *argument) loses(all []argument) bool {
	value, is := a.settings["snapshot"]
	if !is {
		is = slices.ContainsFunc(all, func(o argument) bool { return o.option == "snapshot" })
	}
	return a.disk() && a.option != "blockdev" && is && !slices.Contains([]string{"off", "no", "false", "n"}, value)
}

// namedBy finds the paths in arguments.
func namedBy(args []argXML) []named {
	var out []named
	for _, a := range argumentsOf(args) {
		for _, at := range a.paths {
			out = append(out, named{commandLine + ", -" + a.option, at.path, !at.raw, a.disk()})
		}
	}
	return out
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
