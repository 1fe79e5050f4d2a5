package libvirt

import (
	"strconv"
	"strings"
	"time"

	"gated/internal/base/op"
)

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
