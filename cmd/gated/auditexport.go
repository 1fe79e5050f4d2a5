package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
)

func (t *tool) auditExportCommand() *cobra.Command {
	var after int64
	var out string
	var f entryFilter
	c := t.command("audit export", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		switch {
		case after < 0:
			return cli.Usage(wordsAfterNegative)
		case c.Flags().Changed("output") && out == "":
			return cli.Usage(wordsEmptyOutput)
		}
		if err := f.understand(c, time.Now()); err != nil {
			return err
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		if out == "" {
			_, _, err := t.export(c.Context(), cl, after, f, func(line []byte) error {
				_, err := t.Stdout.Write(line)
				return err
			})
			return err
		}
		return t.exportTo(c.Context(), cl, out, exportFrom{after, c.Flags().Changed("after")}, f)
	})
	c.Flags().Int64Var(&after, "after", 0, flagAfter)
	c.Flags().StringVarP(&out, "output", "o", "", flagExportOutput)
	_ = c.MarkFlagFilename("output") // the flag was just added
	filterFlags(c, &f)
	return c
}

// exportFrom is where an export begins.
type exportFrom struct {
	after int64
	given bool // by --after
}

// export writes entries as they are stored, each a line, and returns the last
// one that was read and how many were written. An export that ends before what
// the head said when it began was cut off, which is a Conflict.
func (t *tool) export(ctx context.Context, cl *client.Client, after int64, f entryFilter, write func(line []byte) error) (last, n int64, err error) {
	head, err := cl.AuditHead(ctx)
	if err != nil {
		return after, 0, err
	}
	if after > head.Seq {
		return after, 0, noSuchEntryYet(after, head.Seq)
	}
	last, err = eachEntry(ctx, cl, after, f, func(e api.Entry) error {
		n++
		return write(append(e.Raw.Clone(), '\n'))
	})
	if err == nil && last < head.Seq {
		err = entryMissing(last+1, head.Seq)
	}
	return last, n, err
}
