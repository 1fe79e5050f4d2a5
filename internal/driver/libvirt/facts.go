package libvirt

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/driver"
)

// facts says what operators should see before they sign.
func (g *guest) facts() []op.Fact {
	var facts []op.Fact
	add := func(name, format string, args ...any) {
		facts = append(facts, op.Fact{Name: name, Text: op.Shown(fmt.Sprintf(format, args...))})
	}
	for _, k := range g.disks {
		facts = append(facts, op.Fact{Name: choose(g.leaves(k) == "", "disk ", "other disk ") + op.Shown(k.target), Text: op.Shown(g.diskText(k))})
	}
	for _, k := range g.disks {
		if k.weak && k.deletable() {
			add("not sure", "whether %s is the disk that it was: its file system keeps no birth times, or may not be looked at", k.target)
		}
	}
	if len(g.disks) == 0 {
		add("disks", "none")
	}
	add("snapshots", "%s", g.snapshotsText())
	add("saved state", "%s", choose(g.saved, "an image of its memory, from which the next start goes on", "none"))
	if path := g.xml.OS.NVRAM.path(); path != "" {
		add(choose(g.takesNVRAM(), "firmware settings", "other firmware settings"), "%s%s", path, choose(g.takesNVRAM(), "", " (something else uses that file, or may)"))
	}
	if g.keepsTPM() {
		add("TPM", "emulated, with its secrets")
	}
	add("backups", "none known; gated makes none here")
	for _, s := range g.shares {
		add("would write", "%s", s)
	}
	add("depends on it", "%s", g.dependentsText())
	for _, line := range g.strange {
		add("only while it runs", "%s: not in its configuration, and gone from it when it stops", line)
	}
	if g.paused {
		add("state", "paused")
	}
	if g.active && !g.persistent {
		add("definition", "transient: it was undefined while it runs, or never defined; left to others, it is gone when it stops")
	}
	for _, d := range g.used.doubts {
		add("not known", "which files %s uses: %s; until it is, nothing is wiped or restored, and only that guest can be destroyed", d.dom.Name, d.why)
	}
	add("remains", "%s", g.remainsText())
	if waits := g.waitingText(); waits != "" {
		add(op.FactNextStart, "%s", waits)
	}
	add("undo", "what destroy, wipe, restore and the deletions take cannot be brought back: libvirt has no trash")
	return facts
}

func choose(ok bool, yes, no string) string {
	if ok {
		return yes
	}
	return no
}

func (g *guest) diskText(k disk) string {
	var parts []string
	if k.capacity > 0 {
		parts = append(parts, fmt.Sprintf("%s (%s allocated)", driver.Size(k.capacity), driver.Size(k.allocated)))
	} else {
		parts = append(parts, "size not known")
	}
	parts = append(parts, orElse(k.format, "format not known"))
	if k.path != "" {
		parts = append(parts, k.path)
	} else {
		parts = append(parts, strings.TrimPrefix(string(k.id), "libvirt:"))
	}
	if k.volume != nil {
		parts = append(parts, "in the pool "+k.volume.Pool)
	}
	if seconds, err := strconv.ParseFloat(k.modified, 64); err == nil {
		parts = append(parts, "last write "+time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339))
	}
	for _, other := range g.users[k.target] {
		parts = append(parts, "used by "+other.Name)
	}
	return strings.Join(parts, ", ")
}

func (g *guest) snapshotsText() string {
	if len(g.snapshots) == 0 {
		return "none"
	}
	var names []string
	for _, x := range g.snapshots {
		names = append(names, x.Name+choose(x.external(), " (in files of its own, which gated leaves alone)", " (in the disks)"))
	}
	return strings.Join(names, ", ")
}

func (g *guest) dependentsText() string {
	var names []string
	for _, t := range g.dependents() {
		names = append(names, t.String())
	}
	if len(names) == 0 {
		return "no other guest of this libvirtd"
	}
	return strings.Join(names, ", ") + ": shares a disk, has one on top of one, or may"
}

// leaves says why a destroy does not take a disk; "" if it takes it.
func (g *guest) leaves(k disk) string {
	switch {
	case k.medium:
		return "the medium " + orElse(k.path, string(k.id))
	case k.shared:
		return "read only, or shared"
	case k.volume == nil:
		return "in no active pool of this libvirtd"
	case len(g.users[k.target]) > 0:
		return "used by others"
	case g.used.doubtful(g.domain):
		return "what is not known of its guest may lie on it"
	}
	return ""
}

// remainsText says what stays after a destroy.
func (g *guest) remainsText() string {
	var stay []string
	for _, k := range g.disks {
		if why := g.leaves(k); why != "" {
			stay = append(stay, k.target+" ("+why+")")
		}
	}
	for _, x := range g.snapshots {
		if x.external() {
			stay = append(stay, "the files from before the snapshot "+x.Name)
		}
	}
	text := "nothing after a destroy"
	if len(stay) > 0 {
		text = "after a destroy: " + strings.Join(stay, ", ")
	}
	if all := g.staying(); len(all) > 0 {
		text += "; after any step: " + strings.Join(all, ", ")
	}
	return text
}

// waitingText says which part of the running guest differs from its configuration.
func (g *guest) waitingText() string {
	if !g.active || !g.persistent {
		return ""
	}
	var out []string
	have, _, err1 := g.live.memory()
	want, _, err2 := g.xml.memory()
	if err1 == nil && err2 == nil && have != want {
		out = append(out, fmt.Sprintf("memory %d MiB, %d MiB now", (want+1023)>>10, (have+1023)>>10))
	}
	_, now, err1 := g.live.cpus()
	_, then, err2 := g.xml.cpus()
	if err1 == nil && err2 == nil && now != then {
		out = append(out, fmt.Sprintf("cpus %d, %d now", then, now))
	}
	return strings.Join(out, "; ")
}

// aboutCopy adds facts for people to a look for a step that restores or deletes a snapshot.
func (g *guest) aboutCopy(l op.Look, o *op.Observed) {
	spec, err := op.Lookup(l.Op)
	if err != nil || spec.Copy != "snapshot" {
		return
	}
	for _, x := range g.snapshots {
		if x.Name != l.Params.Str("snapshot") {
			continue
		}
		o.Copy = &op.Copy{Kind: "snapshot", Name: x.Name, Made: seconds(x.Created)}
		over := ""
		if l.Op == "guest.restore" {
			over = g.overwrittenText()
		}
		o.Facts = append(o.Copy.Facts(x.holdsText(), over), o.Facts...)
		return
	}
}

// seconds reads a time as libvirt writes it, in seconds since 1970. It returns the zero time
// for any other text.
func seconds(text string) time.Time {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}
	}
	return time.Unix(n, 0)
}

// holdsText says what libvirt reports of a snapshot's content. libvirt does not report its
// size.
func (s snapshotXML) holdsText() string {
	var disks []string
	for _, d := range s.Disks {
		if d.Snapshot != "no" {
			disks = append(disks, d.Name)
		}
	}
	text := "the disks as they were then: " + orElse(strings.Join(disks, ", "), "libvirt does not say which")
	if s.State == running || s.State == "paused" {
		text += "; and the memory of the running guest"
	}
	return op.Shown(text + "; libvirt does not say how large it is, nor how many files are in it")
}

// overwrittenText says what a restore would undo.
func (g *guest) overwrittenText() string {
	var writes []string
	for _, k := range g.disks {
		if s, err := strconv.ParseFloat(k.modified, 64); err == nil && !k.medium {
			writes = append(writes, k.target+" was written last "+time.Unix(int64(s), 0).UTC().Format(time.RFC3339))
		}
	}
	text := "all that was written to its disks since then, and its limits on memory and CPUs; how much was written, libvirt does not say"
	if len(writes) > 0 {
		text += "; " + strings.Join(writes, ", ")
	}
	return op.Shown(text)
}
