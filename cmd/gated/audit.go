package main

import (
	"context"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/daemon"
	"gated/internal/op"
)

// auditPage is how many entries are asked for at once.
const auditPage = 500

func (t *tool) auditCommand() *cobra.Command {
	return t.Group(cli.Words(help["audit"]), wordsNoAuditCommand, t.auditTailCommand(), t.auditVerifyCommand(), t.auditExportCommand())
}

func (t *tool) auditTailCommand() *cobra.Command {
	var n int64
	c := t.command("audit tail", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if n < 1 {
			return cli.Usage(wordsLinesPositive)
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		head, err := cl.AuditHead(c.Context())
		if err != nil {
			return err
		}
		return eachEntry(c.Context(), cl, max(0, head.Seq-n), t.entries(c.Context(), cl).entry)
	})
	c.Flags().Int64VarP(&n, "lines", "n", 20, flagLines)
	return c
}

func (t *tool) auditExportCommand() *cobra.Command {
	return t.entriesCommand("audit export", func(ctx context.Context, cl *client.Client, after int64) error {
		return eachEntry(ctx, cl, after, func(e api.Entry) error { return t.Emit(e) })
	})
}

// entriesCommand returns a command that reads the log from the entry above
// --after.
func (t *tool) entriesCommand(path string, read func(ctx context.Context, cl *client.Client, after int64) error) *cobra.Command {
	var after int64
	c := t.command(path, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if after < 0 {
			return cli.Usage(wordsAfterNegative)
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		return read(c.Context(), cl, after)
	})
	c.Flags().Int64Var(&after, "after", 0, flagAfter)
	return c
}

// eachEntry reads the log page by page from the entry above after.
func eachEntry(ctx context.Context, cl *client.Client, after int64, fn func(api.Entry) error) error {
	for {
		page, err := cl.Audit(ctx, after, auditPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, e := range page {
			if err := fn(e); err != nil {
				return err
			}
			after = e.Seq
		}
	}
}

func (t *tool) auditVerifyCommand() *cobra.Command {
	var dir string
	c := t.command("audit verify", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		r, err := daemon.VerifyAudit(c.Context(), stateDir(dir))
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(api.Head{Seq: r.Seq, Hash: r.Hash})
		}
		t.Print(wordsAuditSound, r.Seq, op.Shown(r.Hash))
		return nil
	})
	stateFlag(c, &dir)
	return c
}

// stateDir returns the directory that --state names, or the default one.
func stateDir(flag string) string {
	if flag == "" {
		return daemon.DefaultStateDir()
	}
	return flag
}
