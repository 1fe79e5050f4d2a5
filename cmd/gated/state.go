package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/daemon"
	"gated/internal/op"
)

func (t *tool) fsckCommand() *cobra.Command {
	var dir string
	c := t.command("fsck", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		r, err := daemon.Fsck(c.Context(), stateDir(dir))
		if err != nil {
			return err
		}
		if t.JSON {
			err = t.Emit(r)
		} else {
			err = t.showFsck(r)
		}
		if err == nil && !r.Sound {
			err = cli.Ended(api.ExitRefused)
		}
		return err
	})
	stateFlag(c, &dir)
	return c
}

func (t *tool) showFsck(r daemon.FsckReport) error {
	var rows []string
	for _, name := range sortedNames(r.Checked) {
		rows = append(rows, cli.Row("checked", name, fmt.Sprint(r.Checked[name])))
	}
	for _, p := range r.Problems {
		rows = append(rows, cli.Row("PROBLEM", p.Rule, p.Where, p.Detail))
	}
	if err := t.Table(rows...); err != nil {
		return err
	}
	if r.Sound {
		t.Print(wordsSound)
	} else {
		t.Print(wordsUnsound, count(len(r.Problems), "problem"))
	}
	return nil
}

func (t *tool) backupCommand() *cobra.Command {
	c := t.command("backup", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		n, err := backup(c.Context(), cl, args[0])
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(backedUp{File: args[0], Bytes: n})
		}
		t.Print(wordsBackedUp, op.Shown(args[0]), n)
		return nil
	})
	c.ValidArgsFunction = nil // files
	return c
}

// backedUp is the answer of a backup.
type backedUp struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

// backup writes a new file that only its owner can read. What is not a whole
// backup is not left behind.
func backup(ctx context.Context, cl *client.Client, path string) (n int64, err error) {
	f, err := cli.Create(path, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if n, err = cl.Backup(ctx, f); err != nil {
		return n, err
	}
	return n, f.Sync()
}

func (t *tool) restoreCommand() *cobra.Command {
	var dir string
	c := t.command("restore", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		r, err := daemon.Restore(c.Context(), args[0], stateDir(dir))
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(initializedOf(r))
		}
		t.Print(wordsRestored, op.Shown(r.StateDir), op.Shown(r.Host), op.Shown(string(r.GateID)))
		if r.KeptSigners != "" {
			t.Say(wordsKept, op.Shown(r.KeptSigners))
			for _, line := range r.Changes {
				t.Say("  %s\n", op.Shown(line))
			}
		}
		t.next(r)
		return nil
	})
	c.ValidArgsFunction = nil // files
	stateFlag(c, &dir)
	return c
}
