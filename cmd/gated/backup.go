package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/wire/cli"
)

func (t *tool) backupCommand() *cobra.Command {
	var dir string
	c := t.Command(cli.Words{
		Use:   "backup FILE",
		Short: "Write a consistent copy of the gate's state to a new file, and check it",
		Long: `The daemon runs on. The backup is read back and checked before the file gets its name: its pages, its gate,
the audit log, and all that gated fsck checks. Only its owner can read the file. It never replaces another file. With
--state, it reads the state directory itself, beside a running daemon or without one, as the daemon's user.`,
		Example: "  gated backup gated-backup.db\n" +
			"  gated backup gated-backup.db --state /var/lib/gated",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		take := takeFrom(stateDir(dir))
		if !c.Flags().Changed("state") {
			cl, err := t.Client()
			if err != nil {
				return err
			}
			defer cl.Close()
			take = takeFromDaemon(cl)
		}
		r, err := t.backup(c.Context(), take, args[0])
		if err != nil {
			return err
		}
		return t.showBackup(r)
	})
	c.ValidArgsFunction = nil // files
	c.Flags().StringVar(&dir, "state", "", "read the state `DIR` itself, without the daemon")
	_ = c.MarkFlagDirname("state") // the flag was just added
	c.AddCommand(t.backupVerifyCommand())
	return c
}

func (t *tool) backupVerifyCommand() *cobra.Command {
	c := t.Command(cli.Words{
		Use:   "verify FILE",
		Short: "Check that a file is a backup from which a gate can be restored",
		Long: `Changes nothing and needs no daemon. Exits 0 if the backup is whole and sound, 1 if not. A backup of an older
gated is checked in a copy, in the directory for temporary files (TMPDIR).`,
		Example: "  gated backup verify gated-backup.db",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if err := readable(args[0]); err != nil {
			return cli.Usage(err.Error())
		}
		r, err := life.CheckBackup(c.Context(), args[0], t.checking)
		if err != nil {
			return hinted(err,
				"no gate can be restored from it: take an older one; gated backup FILE makes one while the gate runs")
		}
		return t.showBackup(backedUp{args[0], r})
	})
	c.ValidArgsFunction = nil // files
	return c
}

// readable returns why a file that the command line names cannot be read. It does
// not wait for the other end of a pipe.
func readable(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// backedUp is the answer of a backup, and of looking at one.
type backedUp struct {
	File string `json:"file"`
	life.BackupReport
}

func (t *tool) showBackup(r backedUp) error {
	return t.Answer(r, "%s: %d bytes, of host %s, gate %s, schema %d, %d entries of the audit log, signers of epoch %d\n  checked: %s\n",
		op.Shown(r.File), r.Bytes, op.Shown(r.Host), op.Shown(string(r.Gate)), r.Schema, r.Entries, r.Epoch, strings.Join(r.Checked, ", "))
}

// checking says that what follows takes a while.
func (t *tool) checking(entries int64) {
	if entries >= longLog {
		t.Say("checking %d entries of the audit log and what they say; this takes a while\n", entries)
	}
}

// longLog is how many entries of an audit log take seconds to check.
const longLog = 100_000

// taking fills a new file with a copy of a gate's database.
type taking func(ctx context.Context, into *os.File) (taken, error)

// taken is a copy that a daemon made, or the zero taken.
type taken struct {
	of     *api.Status                 // of the daemon
	record func(context.Context) error // tells it that the copy was checked
}

func takeFromDaemon(cl *client.Client) taking {
	return func(ctx context.Context, into *os.File) (taken, error) {
		sum := sha256.New()
		status, err := cl.Status(ctx)
		if err == nil {
			_, err = cl.Backup(ctx, io.MultiWriter(into, sum))
		}
		return taken{&status, func(ctx context.Context) error {
			return cl.BackupVerified(ctx, hex.EncodeToString(sum.Sum(nil)))
		}}, err
	}
}

func takeFrom(dir string) taking {
	return func(ctx context.Context, into *os.File) (taken, error) {
		return taken{}, life.Backup(ctx, dir, into.Name())
	}
}

// backup writes a new file that only its owner can read. It gets its name when
// it is whole and was checked as it lies on disk, so that nothing of that name
// is anything less; what broke off is taken away.
func (t *tool) backup(ctx context.Context, take taking, path string) (r backedUp, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return r, fileTaken(path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-") // 0600
	if err != nil {
		return r, cli.Usage(err.Error())
	}
	part := f.Name()
	defer func() { err = errors.Join(err, removed(part)) }()
	made, err := take(ctx, f)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return r, err
	}
	r.File = path
	if r.BackupReport, err = life.CheckBackup(ctx, part, t.checking); err != nil {
		return r, hinted(err, "no backup was left; gated fsck says whether the gate itself is like that")
	}
	if of := made.of; of != nil && (r.Gate != of.Gate || r.Host != of.Host) {
		return r, refusal.New(refusal.TargetMismatch, "the backup is of gate %s on host %s, but gate %s on host %s answered",
			r.Gate, r.Host, of.Gate, of.Host)
	}
	if err := settled(part, path); err != nil || made.record == nil {
		return r, err
	}
	// The file is whole. An older daemon does not know the call.
	if err := made.record(ctx); err != nil {
		t.Say(wordsNotRecorded, op.Shown(refusal.As(err).Detail))
	}
	return r, nil
}

const wordsNotRecorded = "warning: the backup is whole, but the gate did not record that it was checked: %s\n"

// settled gives a file its name, which nothing may have.
func settled(part, path string) error {
	err := os.Link(part, path)
	if errors.Is(err, fs.ErrExist) {
		return fileTaken(path)
	}
	if err != nil { // a file system without links
		if _, there := os.Lstat(path); !errors.Is(there, fs.ErrNotExist) {
			return fileTaken(path)
		}
		err = os.Rename(part, path)
	}
	d, openErr := os.Open(filepath.Dir(path))
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	return errors.Join(err, d.Sync(), d.Close())
}

// removed removes a file that may be gone.
func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// fileTaken refuses to write over a file.
func fileTaken(path string) error {
	return refusal.New(refusal.Conflict, "%s exists", path).WithHint("name a new file")
}

func (t *tool) restoreCommand() *cobra.Command {
	var dir string
	var signers bool
	c := t.Command(cli.Words{
		Use:   "restore FILE",
		Short: "Put a backup in the place of a gate's database",
		Long: `The daemon must not run. The gate gets a new id, so no earlier signature counts. The old database is kept
beside the new one. If the old database has a newer list of signers than the backup, that list stays in force: keys
that were removed since the backup stay removed. Guests are not part of a backup.

FILE may be -, for standard input. The gate's user so restores a backup that only root may read: put
runuser -u gated -- in front, because root's shell opens the file then.`,
		Example: "  gated restore gated-backup.db --state /var/lib/gated\n" +
			"  gated restore - --state /var/lib/gated < gated-backup.db",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		restore := life.Restore
		if signers {
			restore = life.RestoreWithSigners
		}
		file, done, err := t.backupToRestore(args[0], stateDir(dir))
		if err != nil {
			return err
		}
		defer done()
		r, err := restore(c.Context(), file, stateDir(dir))
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
	c.Flags().BoolVar(&signers, "signers-of-backup", false,
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
		Changes: r.FileChanges}
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
