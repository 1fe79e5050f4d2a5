package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/wire/cli"
)

func (t *tool) restoreCommand() *cobra.Command {
	var dir string
	var o life.Restoring
	c := t.Command(cli.Words{
		Use:   "restore FILE",
		Short: "Put a backup in the place of a gate's database",
		Long: `The daemon must not run. The gate gets a new id, so no earlier signature counts. The old database is kept
beside the new one. If the old database has a newer list of signers than the backup, that list stays in force: keys
that were removed since the backup stay removed. Guests are not part of a backup.

A backup of a gate that archives needs its segment files. If the gate's own directory has each, or --archive names
one, each file is read, and all of the backup is checked. Else what does not need them is checked, and the answer says
which are missing or damaged.

FILE may be -, for standard input. The gate's user so restores a backup that only root may read: put
runuser -u gated -- in front, because root's shell opens the file then.`,
		Example: "  gated restore gated-backup.db --state /var/lib/gated\n" +
			"  gated restore - --state /var/lib/gated < gated-backup.db\n" +
			"  gated restore gated-backup.db --state /var/lib/gated --archive /var/backups/archive",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		file, done, err := t.backupToRestore(args[0], stateDir(dir))
		if err != nil {
			return err
		}
		defer done()
		o.File = file
		r, err := life.RestoreWith(c.Context(), stateDir(dir), o)
		if err != nil {
			return hinted(err, "gated backup verify FILE says whether a gate can be restored from it", refusal.Conflict,
				refusal.BadParams)
		}
		if t.JSON {
			return t.Emit(restoredOf(r))
		}
		t.showRestored(r)
		return nil
	})
	c.ValidArgsFunction = nil // files
	t.stateOf(c, &dir)
	t.archiveCopy(c, &o.Archive)
	c.Flags().BoolVar(&o.Signers, "signers-of-backup", false,
		"take the list of signers from the backup, even if keys were removed since")
	return c
}

// restored is the answer of restore.
type restored struct {
	initialized
	Replaced string        `json:"replaced_database,omitempty"` // where the one that was there is now
	Trust    restoredTrust `json:"trust"`
	Kept     string        `json:"kept_signers,omitempty"` // where the file of signers that was there is now
	Changes  []string      `json:"changed_signers,omitempty"`
	Clock    *clockOfOld   `json:"clock,omitempty"`
	Archive  string        `json:"archive,omitempty"`          // where the gate looks for its segment files, if it needs any
	Missing  []string      `json:"missing_segments,omitempty"` // of these files, those that are not there or damaged
}

// clockOfOld are a backup's time and this machine's, where they contradict each
// other.
type clockOfOld struct {
	Backup  time.Time `json:"backup"`
	Machine time.Time `json:"machine"` // in force
}

// restoredTrust says who may sign now, and why.
type restoredTrust struct {
	Of       signers.SignersOf `json:"of"`
	Epoch    int64             `json:"epoch"`
	Backup   int64             `json:"backup_epoch"`
	Replaced int64             `json:"replaced_epoch"`
	Unread   string            `json:"replaced_unreadable,omitempty"`
	Changes  []string          `json:"changes"`
	Revoked  bool              `json:"keys_were_revoked"`
}

func restoredOf(r life.RestoreResult) restored {
	t := restoredTrust{Of: r.Trust.Of, Epoch: r.Trust.Epoch, Backup: r.Trust.Backup, Replaced: r.Trust.Replaced,
		Unread:  r.Trust.Why,
		Changes: append([]string{}, r.Trust.Changes...), Revoked: r.Trust.Revoked}
	out := restored{initialized: initializedOf(r.InitResult), Replaced: r.Kept, Trust: t, Kept: r.KeptSigners,
		Changes: r.FileChanges, Missing: r.Missing}
	if len(r.Segments) > 0 {
		out.Archive = r.Archive
	}
	if c := r.Clock; c != nil {
		out.Clock = &clockOfOld{Backup: c.Mark, Machine: c.Now}
	}
	return out
}

func (t *tool) showRestored(r life.RestoreResult) {
	t.Print("restored to %s, host %s, new gate id %s\n",
		op.Shown(r.StateDir), op.Shown(r.Host), op.Shown(string(r.GateID)))
	if r.Kept != "" {
		t.Print("  the database that was there is kept: %s\n", op.Shown(r.Kept))
	}
	t.Print("%s", restoredTrustSays(r.Trust))
	for _, line := range r.Trust.Changes {
		t.Print("    %s\n", op.Shown(line))
	}
	t.Print("%s", maySign(r.Listed))
	if r.Trust.Revoked {
		t.Print("  keys were revoked: no signature counts while the revocation file is missing\n")
	}
	if r.Trust.Of == signers.SignersUnknown || r.Trust.Of == signers.SignersTaken {
		t.Say(`warning: who may sign is as old as the backup. Keys that were removed since are back.
  check: gated trust show --state %[1]s
  a key that must not count: put its .pub line into %[1]s/revoked before the start
`, op.Shown(r.StateDir))
	}
	if r.KeptSigners != "" {
		t.Say("the file of signers said something else; it is kept as %s\n", op.Shown(r.KeptSigners))
		for _, line := range r.FileChanges {
			t.Say("  %s\n", op.Shown(line))
		}
	}
	if r.Clock != nil {
		t.Say("%s", restoredClockSays(*r.Clock))
	}
	if len(r.Missing) > 0 {
		t.Say(`warning: old records are in segment files that are not in %[1]s, or damaged there: %[2]s.
  copy them there; until then they cannot be read, and gated audit verify and gated fsck fail
  check: gated archive verify --state %[3]s
`, op.Shown(r.Archive), segmentFiles(r.Missing), op.Shown(r.StateDir))
	}
	t.next(r.InitResult)
}

// restoredTrustSays says whose list of signers is in force after a restore.
func restoredTrustSays(t signers.RestoredTrust) string {
	switch t.Of {
	case signers.SignersSame:
		return fmt.Sprintf("  who may sign: epoch %d, which is the backup's as well\n", t.Epoch)
	case signers.SignersKept:
		return fmt.Sprintf("  who may sign: epoch %d, as it was here; the backup has epoch %d:\n", t.Epoch,
			t.Backup)
	case signers.SignersNewer:
		return fmt.Sprintf("  who may sign: epoch %d, the backup's; what was here (epoch %d) is older:\n", t.Epoch,
			t.Replaced)
	case signers.SignersTaken:
		return fmt.Sprintf("  who may sign: as in the backup (its epoch %d), which was asked for, now as epoch %d; it "+
			"was epoch %d here:\n",
			t.Backup, t.Epoch, t.Replaced)
	case signers.SignersFile:
		return "  who may sign: what the file of signers says at the next start\n"
	}
	if t.Why != "" {
		return fmt.Sprintf("  who may sign: epoch %d, the backup's; the database that was here cannot be read: %s\n",
			t.Epoch, op.Shown(t.Why))
	}
	return fmt.Sprintf("  who may sign: epoch %d, the backup's; there was no other list here\n", t.Epoch)
}

// restoredClockSays shows both clocks where they contradict each other.
func restoredClockSays(c life.RestoredClock) string {
	how := "more than 30 days ahead of"
	if c.Behind() {
		how = "behind"
	}
	return fmt.Sprintf("warning: this machine's clock, which is in force now, is %s the backup's: it says %s, and "+
		"the backup was of a gate that had seen %s\n"+
		"  check: date -u; if it is wrong, set it right and restore again\n",
		how, c.Now.Format(time.RFC3339), c.Mark.Format(time.RFC3339))
}
