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

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
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
	var files string
	c := t.Command(cli.Words{
		Use:   "verify FILE",
		Short: "Check that a file is a backup from which a gate can be restored",
		Long: `Changes nothing and needs no daemon. Exits 0 if the backup is whole and sound, 1 if not. A backup of an older
gated is checked in a copy, in the directory for temporary files (TMPDIR).

A backup of a gate that archives needs its segment files, and --archive names a copy of them. Each is read then, and
all of the backup is checked. Without them the answer lists them, and what does not need them is checked.`,
		Example: "  gated backup verify gated-backup.db\n" +
			"  gated backup verify gated-backup.db --archive /var/backups/archive",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if err := readable(args[0]); err != nil {
			return cli.Usage(err.Error())
		}
		r, err := life.CheckBackup(c.Context(), args[0], files, t.checking)
		if err != nil {
			return hinted(err,
				"no gate can be restored from it: take an older one; gated backup FILE makes one while the gate runs")
		}
		return t.showBackup(backedUp{args[0], r})
	})
	c.ValidArgsFunction = nil // files
	t.archiveCopy(c, &files)
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
	if t.JSON {
		return t.Emit(r)
	}
	t.Print("%s: %d bytes, of host %s, gate %s, schema %d, %d entries of the audit log, signers of epoch %d\n",
		op.Shown(r.File), r.Bytes, op.Shown(r.Host), op.Shown(string(r.Gate)), r.Schema, r.Entries, r.Epoch)
	t.Print("  checked: %s\n", strings.Join(r.Checked, ", "))
	if len(r.Segments) > 0 && !r.SegmentsRead {
		t.Print("  needs %s, not read here: keep a copy of the directory archive, made after the backup\n",
			segmentFiles(r.Segments))
		t.Print("  check both: gated backup verify %s --archive DIR\n", op.Shown(r.File))
	}
	return nil
}

// segmentFiles names a few segment files. --json lists all.
func segmentFiles(names []string) string {
	if len(names) <= 2 {
		return strings.Join(names, " and ")
	}
	return fmt.Sprintf("%d segment files, %s to %s", len(names), names[0], names[len(names)-1])
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
	if r.BackupReport, err = life.CheckBackup(ctx, part, "", t.checking); err != nil {
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
