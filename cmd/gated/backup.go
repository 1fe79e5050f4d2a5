package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/wire/cli"
	"gated/internal/wire/client"
)

func (t *tool) backupCommand() *cobra.Command {
	c := t.Command(cli.Words{
		Use:   "backup FILE",
		Short: "Write a consistent copy of the gate's state to a new file, and check it",
		Long: `The daemon runs on. The backup is read back and checked before the file gets its name: its pages, its gate,
the audit log, and all that gated fsck checks. Only its owner can read the file. It never replaces another file.`,
		Example: "  gated backup gated-backup.db",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		r, err := t.backup(c.Context(), cl, args[0])
		if err != nil {
			return err
		}
		return t.showBackup(r)
	})
	c.ValidArgsFunction = nil // files
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
	if t.JSON {
		return t.Emit(r)
	}
	t.Print("%s: %d bytes, of host %s, gate %s, schema %d, %d entries of the audit log, signers of epoch %d\n",
		op.Shown(r.File), r.Bytes, op.Shown(r.Host), op.Shown(string(r.Gate)), r.Schema, r.Entries, r.Epoch)
	t.Print("  checked: %s\n", strings.Join(r.Checked, ", "))
	return nil
}

// checking says that what follows takes a while.
func (t *tool) checking(entries int64) {
	if entries >= longLog {
		t.Say("checking %d entries of the audit log and what they say; this takes a while\n", entries)
	}
}

// longLog is how many entries of an audit log take seconds to check.
const longLog = 100_000

// backup writes a new file that only its owner can read. It gets its name when
// it is whole and was checked as it lies on disk, so that nothing of that name
// is anything less; what broke off is taken away.
func (t *tool) backup(ctx context.Context, cl *client.Client, path string) (r backedUp, err error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return r, fileTaken(path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".part-") // 0600
	if err != nil {
		return r, cli.Usage(err.Error())
	}
	part := f.Name()
	defer func() { err = errors.Join(err, removed(part)) }()
	status, err := cl.Status(ctx)
	if err == nil {
		_, err = cl.Backup(ctx, f)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return r, err
	}
	r.File = path
	if r.BackupReport, err = life.CheckBackup(ctx, part, t.checking); err != nil {
		return r, hinted(err, "no backup was left; gated fsck says whether the gate itself is like that")
	}
	if r.Gate != status.Gate || r.Host != status.Host {
		return r, refusal.New(refusal.TargetMismatch, "the backup is of gate %s on host %s, but gate %s on host %s answered",
			r.Gate, r.Host, status.Gate, status.Host)
	}
	return r, settled(part, path)
}

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
