package op

import "slices"

// guestDataRows are the operations on what a guest holds: its data, disks,
// snapshots and backups.
func guestDataRows() []Spec {
	return append(append(snapshotRows(), diskRows()...), backupRows()...)
}

func snapshotRows() []Spec {
	take := guest("snapshot", "copy a guest's data under a name", snapshotParam)
	take.Done = "took a snapshot of"
	take.Shows = func(s Step, o Observed) Evidence { return shows(hasSnapshot(s, o)) }
	take.Rules = []Rule{{Name: "snapshot", Class: Benign, Why: say("it only adds a copy")}}

	del := guest("snapshot-delete", "delete a snapshot", snapshotParam)
	del.Copy, del.Takes, del.Done = "snapshot", "a copy of a guest's data", "deleted a snapshot of"
	del.Shows = func(s Step, o Observed) Evidence { return shows(!hasSnapshot(s, o)) }
	del.Rules = takingRules(Rule{Name: "snapshot-delete", Class: Destructive, Why: say("it deletes a copy of data")})

	restore := guest("restore", "put a snapshot in the place of a guest's data", snapshotParam)
	restore.Takes, restore.Identity, restore.Done = "all that was written since the snapshot", Renews, "restored"
	restore.Promotes, restore.Copy = "a step restored something into it", "snapshot"
	restore.Rules = takingRules(scratchRule(), Rule{Name: "restore-over", Class: Destructive, Why: say("it overwrites the guest's data")})

	wipe := guest("wipe", "empty a guest's data")
	wipe.Takes, wipe.Identity, wipe.Done = "all of a guest's data", Renews, "wiped"
	wipe.Rules = takingRules(scratchRule(), Rule{Name: "wipe", Class: Destructive, Why: say("it empties the guest's data")})
	return []Spec{take, del, restore, wipe}
}

func scratchRule() Rule {
	return Rule{Name: "live-scratch", Class: Benign, When: LiveScratch, Why: say("this gate made it as scratch, and its creator asks")}
}

const disksChanged = "a step changed its disks"

func hasDisk(s Step, o Observed) bool { _, ok := o.Disk(s.Params.Str("disk")); return ok }

func diskRows() []Spec {
	create := guest("disk-create", "add a new, empty disk", diskParam, sizeParam)
	create.Identity, create.Promotes, create.Done = Renews, disksChanged, "added a disk to"
	create.Shows = func(s Step, o Observed) Evidence { return shows(hasDisk(s, o)) }
	create.Rules = []Rule{{Name: "disk-new", Class: Benign, Why: say("the disk is new, and empty")}}

	resize := guest("disk-resize", "make a disk larger, or cut its end off", diskParam, sizeParam)
	resize.Takes, resize.Done = "what lies beyond a disk's new end", "resized a disk of"
	resize.Changes = resizeChanges
	resize.Shows = func(s Step, o Observed) Evidence {
		d, ok := o.Disk(s.Params.Str("disk"))
		return shows(ok && d.Size == s.Params.Int("size")<<20)
	}
	resize.Rules = []Rule{
		{Name: "disk-grow", Class: Benign, When: grows, Why: say("what is on the disk stays")},
		{Name: "disk-shrink", Class: Destructive, Why: say("it cuts off the end of the disk, or the size of the disk is not known")},
	}

	wipe := guest("disk-wipe", "empty a disk", diskParam)
	wipe.Takes, wipe.Identity, wipe.Done = "all that is on a disk", Renews, "wiped a disk of"
	wipe.Rules = takingRules(Rule{Name: "disk-wipe", Class: Destructive, Why: say("it empties the disk")})

	detach := guest("disk-detach", "take a disk off a guest and keep it", diskParam)
	detach.Takes, detach.Identity, detach.Promotes = "a disk from its guest", Renews, disksChanged
	detach.Done = "took a disk off"
	detach.Shows = func(s Step, o Observed) Evidence { return shows(!hasDisk(s, o)) }
	detach.Rules = takingRules(Rule{Name: "disk-detach", Class: Destructive,
		Why: say("it takes the disk off the guest, and then no guest keeps the disk")})

	del := guest("disk-delete", "delete a disk", diskParam)
	del.Takes, del.Identity, del.Promotes, del.Done = "a disk and what is on it", Renews, disksChanged, "deleted a disk of"
	del.Shows = detach.Shows
	del.Rules = takingRules(Rule{Name: "disk-delete", Class: Destructive, Why: say("it deletes the disk and what is on it")})
	return []Spec{create, resize, wipe, detach, del}
}

// grows holds if the size of the disk is known and not larger than the wished size.
func grows(c Case) bool {
	d, ok := c.Observed.Disk(c.Step.Params.Str("disk"))
	return ok && d.Size > 0 && c.Step.Params.Int("size") >= (d.Size+mebibyte-1)/mebibyte
}

const mebibyte = 1 << 20

func backupRows() []Spec {
	take := guest("backup", "copy a guest to where its backups are",
		Param{Name: "rotate", Type: TBool, Doc: "let the backups' retention delete older ones"})
	take.Takes, take.Done = "with rotate, older backups of the guest", "backed up"
	take.Before, take.Shows = func(o Observed) []string { return o.Backups }, oneMoreBackup
	take.Unproven = true // a back end lists a backup before it is complete
	take.Rules = []Rule{
		{Name: "backup", Class: Benign, When: func(c Case) bool { return !c.Step.Params.Bool("rotate") }, Why: say("it only adds a copy")},
		{Name: "backup-prunes", Class: Destructive, Why: say("it lets the backups' retention delete older copies")},
	}

	restore := guest("backup-restore", "put a backup in the place of a guest and its disks", backupParam)
	restore.Takes, restore.Identity = "the guest as it is and all that was written since the backup", Renews
	restore.Promotes, restore.Done, restore.Copy = "a step restored something into it", "put a backup in the place of", "backup"
	restore.Rules = takingRules(Rule{Name: "backup-restore", Class: Destructive, Why: say("it overwrites the guest and its disks")})

	del := guest("backup-delete", "delete a backup", backupParam)
	del.Copy, del.Takes, del.Done = "backup", "a copy of a guest's data", "deleted a backup of"
	del.Shows = func(s Step, o Observed) Evidence { return shows(!slices.Contains(o.Backups, s.Params.Str("backup"))) }
	del.Rules = takingRules(Rule{Name: "backup-delete", Class: Destructive, Why: say("it deletes a copy of data")})
	return []Spec{take, restore, del}
}

// oneMoreBackup looks for a backup that was not there at the dispatch, because the
// back end chooses its name.
func oneMoreBackup(s Step, o Observed) Evidence {
	if s.Before == nil || o.Backups == nil {
		return ShowsNothing
	}
	return shows(slices.ContainsFunc(o.Backups, func(name string) bool { return !slices.Contains(s.Before, name) }))
}
