package main

import (
	"time"

	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/life"
	"gated/internal/op"
	"gated/internal/signers"
)

func (t *tool) restoreCommand() *cobra.Command {
	var dir string
	var signers bool
	c := t.command("restore", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if err := readable(args[0]); err != nil {
			return cli.Usage(unreadable(err, stateDir(dir)))
		}
		restore := life.Restore
		if signers {
			restore = life.RestoreWithSigners
		}
		r, err := restore(c.Context(), args[0], stateDir(dir))
		if err != nil {
			return hinted(err, wordsVerifyBackup, op.Conflict, op.BadParams)
		}
		if t.JSON {
			return t.Emit(restoredOf(r))
		}
		t.showRestored(r)
		return nil
	})
	c.ValidArgsFunction = nil // files
	t.stateOf(c, &dir)
	c.Flags().BoolVar(&signers, "signers-of-backup", false, flagTakeSigners)
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
	t := restoredTrust{Of: r.Trust.Of, Epoch: r.Trust.Epoch, Backup: r.Trust.Backup, Replaced: r.Trust.Replaced, Unread: r.Trust.Why,
		Changes: append([]string{}, r.Trust.Changes...), Revoked: r.Trust.Revoked}
	out := restored{initialized: initializedOf(r.InitResult), Replaced: r.Kept, Trust: t, Kept: r.KeptSigners, Changes: r.FileChanges}
	if c := r.Clock; c != nil {
		out.Clock = &clockOfOld{Backup: c.Mark, Machine: c.Now}
	}
	return out
}

func (t *tool) showRestored(r life.RestoreResult) {
	t.Print(wordsRestored, op.Shown(r.StateDir), op.Shown(r.Host), op.Shown(string(r.GateID)))
	if r.Kept != "" {
		t.Print(wordsKeptDatabase, op.Shown(r.Kept))
	}
	t.Print("%s", restoredTrustSays(r.Trust))
	for _, line := range r.Trust.Changes {
		t.Print("    %s\n", op.Shown(line))
	}
	for _, k := range r.Listed {
		for _, role := range k.Roles {
			t.Print(wordsListed, cli.Person(k.Principal), op.Shown(string(role)), op.Shown(k.Key))
		}
	}
	if r.Trust.Revoked {
		t.Print(wordsStillRevoked)
	}
	if r.Trust.Of == signers.SignersUnknown || r.Trust.Of == signers.SignersTaken {
		t.Say(wordsOldSigners, op.Shown(r.StateDir))
	}
	if r.KeptSigners != "" {
		t.Say(wordsKept, op.Shown(r.KeptSigners))
		for _, line := range r.FileChanges {
			t.Say("  %s\n", op.Shown(line))
		}
	}
	if r.Clock != nil {
		t.Say("%s", restoredClockSays(*r.Clock))
	}
	t.next(r.InitResult)
}
