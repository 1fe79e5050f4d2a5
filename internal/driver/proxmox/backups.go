package proxmox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
)

// backup is one archive of a guest.
type backup struct {
	name      string // as steps name it
	volume    string
	kind      string // "qemu" or "lxc"; empty where it is not said
	size      int64
	made      int64 // seconds since 1970
	protected bool
	notes     string // the first line of its notes
}

func (b backup) ident() string { return fmt.Sprintf("%s %d %d", b.volume, b.size, b.made) }

// backups lists a guest's backups on the configured storage, the newest first. If two would
// have the same name, it lists neither, because a step could mean either.
func (d *Driver) backups(ctx context.Context, g *guest) ([]backup, error) {
	list, err := d.api.list(ctx, path("nodes", g.node, "storage", d.cfg.BackupStorage, "content"),
		values{"content": "backup", "vmid": fmt.Sprint(g.vmid)})
	if err != nil {
		return nil, unreachable(err)
	}
	var all []backup
	seen := map[string]string{}
	for _, o := range list {
		b := backup{name: backupName(o["volid"]), volume: o["volid"], kind: o["subtype"], protected: isTrue(o["protected"])}
		b.notes, _, _ = strings.Cut(o["notes"], "\n")
		var bad [3]error
		var vmid int64
		vmid, bad[0] = o.integer("vmid")
		b.size, bad[1] = o.integer("size")
		b.made, bad[2] = o.integer("ctime")
		if slices.ContainsFunc(bad[:], func(err error) bool { return err != nil }) || vmid != g.vmid || b.name == "" {
			continue
		}
		if first, twice := seen[b.name]; twice {
			if first != b.volume {
				all = slices.DeleteFunc(all, func(x backup) bool { return x.name == b.name })
			}
			continue
		}
		seen[b.name] = b.volume
		all = append(all, b)
	}
	slices.SortFunc(all, func(a, b backup) int {
		return strings.Compare(fmt.Sprintf("%020d%s", b.made, b.name), fmt.Sprintf("%020d%s", a.made, a.name))
	})
	return all, nil
}

// backupName makes a name from a volume id, or "" if it cannot.
// "local:backup/vzdump-qemu-100-….vma.zst" becomes the file's name.
// "pbs:backup/vm/100/2026-11-22T04:00:00Z" becomes "vm-100-2026-11-22T04-00-00Z".
func backupName(volume string) string {
	_, rest, ok := strings.Cut(volume, ":")
	if !ok {
		return ""
	}
	name := strings.NewReplacer("/", "-", ":", "-").Replace(strings.TrimPrefix(rest, "backup/"))
	if op.CheckName(name) != nil {
		return ""
	}
	return name
}

func (b backup) when() string { return time.Unix(b.made, 0).UTC().Format(time.RFC3339) }
