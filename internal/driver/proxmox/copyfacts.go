package proxmox

import (
	"fmt"
	"strconv"
	"time"

	"gated/internal/base/op"
)

// aboutSnapshot adds facts for people on the snapshot that a step restores or deletes.
func (g *guest) aboutSnapshot(name, snapshot string, o *op.Observed) {
	for _, s := range g.snapshots {
		if s.name != snapshot {
			continue
		}
		o.Copy = &op.Copy{Kind: "snapshot", Name: snapshot}
		if n, err := strconv.ParseInt(s.time, 10, 64); err == nil && n > 0 {
			o.Copy.Made = time.Unix(n, 0)
		}
		over := ""
		if name == "guest.restore" {
			over = g.overwrittenText("disks and settings")
		}
		holds := "disks and settings as they were then; Proxmox VE does not say how large it is, nor how many files are in it"
		o.Facts = append(o.Copy.Facts(holds, over), o.Facts...)
		return
	}
}

// aboutBackup adds facts for people on the backup that a step restores or deletes.
func (g *guest) aboutBackup(name string, b backup, o *op.Observed) {
	o.Copy = &op.Copy{Kind: "backup", Name: b.name, Made: time.Unix(b.made, 0)}
	over := ""
	if name == "guest.backup-restore" {
		over = g.overwrittenText("the whole guest with its disks and settings")
	}
	holds := fmt.Sprintf("%s in %s; Proxmox VE does not say how many files are in it", amount(b.size), op.Shown(b.volume))
	o.Facts = append(o.Copy.Facts(holds, over), o.Facts...)
}

// overwrittenText says what a restore would undo.
func (g *guest) overwrittenText(what string) string {
	var total int64
	n := 0
	for _, d := range g.drives {
		if d.owned() {
			total += d.size
			n++
		}
	}
	disks := fmt.Sprintf("%d disks", n)
	if n == 1 {
		disks = "its disk"
	}
	return fmt.Sprintf("%s: all that was written to %s (%s) since then; how much that is, Proxmox VE does not say", what, disks, amount(total))
}
