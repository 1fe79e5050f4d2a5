package proxmox

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
)

func (d *Driver) prepareBackup(ctx context.Context, step op.Step, g *guest) (action, error) {
	if err := d.backsUp(); err != nil {
		return action{}, err
	}
	v := values{"vmid": fmt.Sprint(g.vmid), "storage": d.cfg.BackupStorage, "mode": "snapshot"}
	own, others, err := d.backups(ctx, g)
	if err != nil {
		return action{}, err
	}
	if step.Params.Bool("rotate") {
		if err := g.prunable(others); err != nil {
			return action{}, err
		}
		v["remove"] = "1"
		return d.asTask("back up", http.MethodPost, path("nodes", g.node, "vzdump"), v), nil
	}
	// Without remove=0, vzdump prunes by the storage's retention. A later backup by another
	// program would count this backup, and prune one of its own for it. The retention neither
	// counts nor prunes a protected backup.
	v["remove"], v["protected"], v["notes-template"] = "0", "1", keptNotes
	kept := 0
	for _, b := range slices.Concat(own, others) { // Proxmox VE counts by the number
		if b.protected {
			kept++
		}
	}
	if kept >= maxKept {
		return action{}, refusal.New(refusal.OverLimit,
			"the number of %s has %d protected backups, which no retention deletes, and may have %d", step.Target, kept, maxKept).
			WithHint("have an operator sign guest.backup-delete of one, or guest.backup with rotate=true")
	}
	return d.asTask("back up", http.MethodPost, path("nodes", g.node, "vzdump"), v), nil
}

// keptNotes are the notes of a backup that the gate protects from the retention.
const keptNotes = "gated: kept out of the retention"

// maxKept is the most protected backups that a guest may have before one more. It is Proxmox
// VE's own default for a user who may not allocate the storage. Above it, Proxmox VE would make
// a backup and then not protect it.
const maxKept = 5

func (d *Driver) backsUp() error {
	if d.cfg.BackupStorage == "" {
		return refusal.New(refusal.UnknownOp, "the configuration names no storage for backups").
			WithHint("set proxmox.backup_storage in gated.yaml")
	}
	return nil
}

// archiveOf finds the backup that a step names.
func (d *Driver) archiveOf(ctx context.Context, step op.Step, g *guest) (backup, error) {
	if err := d.backsUp(); err != nil {
		return backup{}, err
	}
	own, _, err := d.backups(ctx, g)
	if err != nil {
		return backup{}, err
	}
	b, ok := backupOf(own, step.Params.Str("backup"))
	if !ok {
		return backup{}, refusal.New(refusal.UnknownTarget, "%s has no backup %s", step.Target, step.Params.Str("backup"))
	}
	return b, nil
}

// prepareBackupRestore overwrites the guest: force with an archive first deletes the guest's
// disks. The guest then has the backup's configuration.
func (d *Driver) prepareBackupRestore(ctx context.Context, step op.Step, g *guest) (action, error) {
	b, err := d.archiveOf(ctx, step, g)
	if err != nil {
		return action{}, err
	}
	switch {
	case b.kind != "" && b.kind != g.kind:
		return action{}, refusal.New(refusal.BadParams, "%s is a backup of another kind of guest", b.name)
	case g.status != Stopped:
		return action{}, refusal.New(refusal.Conflict, "%s runs", step.Target).WithHint("stop it first")
	}
	v := values{"vmid": fmt.Sprint(g.vmid), "force": "1", "protection": "1"}
	if g.kind == lxc {
		// A machine's archive says where its disks were. A container's disks go to the storage
		// "local" if the request names none.
		v["ostemplate"], v["restore"] = b.volume, "1"
		disk, _ := g.drive("rootfs")
		v["storage"], _, _ = strings.Cut(disk.volume, ":")
	} else {
		v["archive"] = b.volume
	}
	return does(func(ctx context.Context) (driver.Result, error) {
		now, err := d.unguard(ctx, g)
		if err != nil {
			return driver.Result{}, err
		}
		task, err := d.api.start(ctx, http.MethodPost, path("nodes", now.node, now.kind), v)
		if err != nil {
			d.guard(ctx, g)
		}
		d.owe(task, owed{vmid: g.vmid, before: g})
		return driver.Result{Task: task}, worked("restore the backup", err)
	}), nil
}

func (d *Driver) prepareBackupDelete(ctx context.Context, step op.Step, g *guest) (action, error) {
	b, err := d.archiveOf(ctx, step, g)
	if err != nil {
		return action{}, err
	}
	if b.protected && b.notes != keptNotes {
		return action{}, refusal.New(refusal.Conflict, "%s is protected in Proxmox VE", b.name).
			WithHint("take the protection off there")
	}
	at := path("nodes", g.node, "storage", d.cfg.BackupStorage, "content", b.volume)
	if !b.protected {
		return d.asTask("delete the backup", http.MethodDelete, at, nil), nil
	}
	return does(func(ctx context.Context) (driver.Result, error) {
		if _, err := d.api.send(ctx, http.MethodPut, at, values{"protected": "0"}); err != nil {
			return driver.Result{}, worked("take the protection off the backup", err)
		}
		task, err := d.api.start(ctx, http.MethodDelete, at, nil)
		if err == nil {
			err = d.wait(ctx, task)
		}
		if err != nil {
			// The backup stays, so the retention must not count it. If this request fails, the
			// look shows it.
			_, _ = d.api.send(context.WithoutCancel(ctx), http.MethodPut, at, values{"protected": "1"})
		}
		return driver.Result{}, worked("delete the backup", err)
	}), nil
}

// backup is one archive of a guest.
type backup struct {
	name      string // as steps name it
	volume    string
	kind      string // "qemu" or "lxc"; empty where it is not said
	size      int64
	made      int64 // seconds since 1970
	protected bool
	notes     string // the first line of its notes
	untold    bool   // nobody can tell whose it is

	disks []string // the keys of the disks in it, if it is the guest's own
}

func (b backup) ident() string { return fmt.Sprintf("%s %d %d", b.volume, b.size, b.made) }

// archives lists the backups under a guest's number on the configured storage, the newest first. One that a step cannot name, or that
// has the name of another one, is untold.
func (d *Driver) archives(ctx context.Context, g *guest) ([]backup, error) {
	list, err := d.api.list(ctx, path("nodes", g.node, "storage", d.cfg.BackupStorage, "content"),
		values{"content": "backup", "vmid": fmt.Sprint(g.vmid)})
	if err != nil {
		return nil, unreachable(err)
	}
	var all []backup
	seen, names := map[string]bool{}, map[string]int{}
	for _, o := range list {
		b := backup{name: backupName(o["volid"]), volume: o["volid"], kind: o["subtype"], protected: isTrue(o["protected"])}
		b.notes, _, _ = strings.Cut(o["notes"], "\n")
		var bad [3]error
		var vmid int64
		vmid, bad[0] = o.integer("vmid")
		b.size, bad[1] = o.integer("size")
		b.made, bad[2] = o.integer("ctime")
		if seen[b.volume] || vmid != g.vmid && vmid != 0 {
			continue
		}
		seen[b.volume] = true
		b.untold = slices.ContainsFunc(bad[:], func(err error) bool { return err != nil }) || vmid == 0 || b.name == ""
		if b.name == "" {
			b.name = op.Shown(b.volume)
		}
		names[b.name]++
		all = append(all, b)
	}
	for i := range all {
		all[i].untold = all[i].untold || names[all[i].name] > 1
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

// aboutSnapshot adds facts for people on the snapshot that a step restores or deletes.
func (g *guest) aboutSnapshot(name, snapshot string, o *op.Observed) {
	for _, s := range g.snapshots {
		if s.name != snapshot {
			continue
		}
		o.Copy = &op.Copy{Kind: "snapshot", Name: snapshot}
		if n := s.taken(); n > 0 {
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
		if text := g.outside(b); text != "" {
			o.Facts = append([]op.Fact{{Name: "not in the backup", Text: op.Shown(text)}}, o.Facts...)
		}
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

// snapshotName is the form of a snapshot's name that Proxmox VE accepts.
var snapshotName = pattern(`^[A-Za-z][A-Za-z0-9_-]{1,39}$`)

func (d *Driver) prepareSnapshot(_ context.Context, step op.Step, g *guest) (action, error) {
	name := step.Params.Str("snapshot")
	switch {
	case !snapshotName().MatchString(name) || name == "current":
		return action{}, refusal.New(refusal.BadParams,
			"%q is no name of a snapshot in Proxmox VE ([A-Za-z][A-Za-z0-9_-]{1,39}, not current)", name)
	case slices.ContainsFunc(g.snapshots, func(s snapshot) bool { return s.name == name }):
		return action{}, refusal.New(refusal.Conflict, "%s has a snapshot %s already", step.Target, name)
	}
	return d.asTask("snapshot", http.MethodPost, g.path("snapshot"), values{"snapname": name}), nil
}

func (d *Driver) prepareSnapshotDelete(_ context.Context, step op.Step, g *guest) (action, error) {
	act := d.asTask("delete the snapshot", http.MethodDelete, g.path("snapshot", step.Params.Str("snapshot")), nil)
	return does(func(ctx context.Context) (driver.Result, error) {
		if _, err := d.stillItself(ctx, g); err != nil {
			return driver.Result{}, err
		}
		return act.do(ctx)
	}), nil
}

// prepareRestore rolls back. Disks, settings, tags and Proxmox VE's flag become as they were
// when the snapshot was taken. By Proxmox VE's source, the description stays. If it does not
// stay, the driver restores the mark.
func (d *Driver) prepareRestore(ctx context.Context, step op.Step, g *guest) (action, error) {
	if err := d.goesBack(ctx, g, step.Params.Str("snapshot")); err != nil {
		return action{}, err
	}
	return does(func(ctx context.Context) (driver.Result, error) {
		if _, err := d.stillItself(ctx, g); err != nil {
			return driver.Result{}, err
		}
		task, err := d.api.start(ctx, http.MethodPost, g.path("snapshot", step.Params.Str("snapshot"), "rollback"), nil)
		if g.marker.there {
			d.owe(task, owed{vmid: g.vmid, before: g})
		}
		return driver.Result{Task: task}, worked("roll back", err)
	}), nil
}

// goesBack refuses a rollback past a newer snapshot if a disk is on ZFS. Proxmox VE does none there, because ZFS would delete the
// newer ones (volume_rollback_is_possible in PVE/Storage/ZFSPoolPlugin.pm).
func (d *Driver) goesBack(ctx context.Context, g *guest, name string) error {
	at := slices.IndexFunc(g.snapshots, func(s snapshot) bool { return s.name == name })
	if at < 0 {
		return nil // the look says so
	}
	newest := slices.MaxFunc(g.snapshots, func(a, b snapshot) int { return cmp.Compare(a.taken(), b.taken()) })
	if newest.taken() <= g.snapshots[at].taken() {
		return nil
	}
	zfs, err := d.on(ctx, g, "zfspool", "zfs")
	if i := slices.IndexFunc(g.drives, func(x drive) bool { return x.owned() && zfs(x.volume) != "" }); err == nil && i >= 0 {
		err = refusal.New(refusal.Conflict, "%s is on ZFS (%s), which goes back to the newest snapshot alone: %s is newer than %s",
			g.name, op.Shown(zfs(g.drives[i].volume)), newest.name, name).
			WithHint("delete what is newer first: gated submit guest.snapshot-delete %s -p snapshot=%s", g.name, newest.name)
	}
	return err
}
