package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/host/life"
	"gated/internal/log/witness"
	"gated/internal/wire/cli"
)

func (t *tool) auditCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:     "audit",
		Short:   "Read, prove and verify the audit log",
		Example: "  gated audit verify",
	}, "say tail, verify, export, head, prove or check",
		t.auditTailCommand(), t.auditVerifyCommand(), t.auditExportCommand(),
		t.auditHeadCommand(), t.auditProveCommand(), t.auditCheckCommand())
}

func (t *tool) auditVerifyCommand() *cobra.Command {
	var dir, archive string
	var files []string
	var recent bool
	c := t.Command(cli.Words{
		Use:   "verify",
		Short: "Verify that no entry of the audit log was altered, removed, moved or cut off",
		Long: `Reads the state directory, beside a running daemon or without one. With --witness, the log must also continue
from each signed head in that file. This finds a log that was replaced as a whole.

Archived entries are read from their segment files. A file that is missing or damaged is a refusal that names it. With
--recent no such file is read, and of archived entries the hashes of their tiles alone are checked.

If you may not read the state directory, the daemon is asked what its own check found last, which a note says. It runs
that check after each start. Exits 1 if it found something wrong, or has not ended.`,
		Example: "  gated audit verify --state /var/lib/gated\n" +
			"  gated audit verify --witness heads.jsonl",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if len(files) == 0 && archive == "" && !recent {
			if done, err := instead(c.Context(), dir, t.auditAsked); done || err != nil {
				return err
			}
		}
		kept, err := t.keptHeads(files)
		if err != nil {
			return err
		}
		p := progressOn(t.Stderr, time.Now)
		r, err := life.VerifyAuditWith(c.Context(), stateDir(dir), life.AuditCheck{Kept: kept, Progress: p.show, Archive: archive, Recent: recent})
		p.end()
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(r)
		}
		if r.NotRead > 0 {
			t.Print("the audit log is whole from entry %d on: %d entries, head %s\n", r.NotRead+1, r.Seq-r.NotRead, op.Shown(r.Hash))
			t.Print("entries 1 to %d are archived and were NOT read; the hashes of their tiles fit\n", r.NotRead)
		} else {
			t.Print("the audit log is whole: %d entries, head %s\n", r.Seq, op.Shown(r.Hash))
		}
		if len(files) > 0 {
			t.Print("it continues from what witnesses saw: %s\n", cli.Count(r.Heads, "head"))
		}
		if r.Others > 0 {
			t.Say("note: %s of another gate id, which a gate has until it is restored, not compared\n", cli.Count(r.Others, "head"))
		}
		return nil
	})
	t.stateOf(c, &dir)
	t.archiveIn(c, &archive)
	c.Flags().BoolVar(&recent, "recent", false, "read no segment file")
	c.Flags().StringArrayVar(&files, "witness", nil,
		"compare with the heads in this `FILE`, of opsign witness export; may be given again")
	_ = c.MarkFlagFilename("witness") // the flag was just added
	return c
}

// keptHeads reads what opsign witness export wrote, and leaves out what
// contradicted the heads that are remembered: that is known not to be of the
// same log.
func (t *tool) keptHeads(files []string) ([]life.KeptHead, error) {
	var out []life.KeptHead
	for _, name := range files {
		records, err := t.exported(name)
		if err != nil {
			return nil, err
		}
		contradictions := 0
		for _, r := range records {
			if r.Contradiction() {
				contradictions++
				continue
			}
			out = append(out, life.KeptHead{Checkpoint: r.Head(), Key: r.Key})
		}
		if contradictions > 0 {
			t.Say("note: in %s is evidence of another log that the gate showed: %s\n",
				op.Shown(name), cli.Count(contradictions, "head"))
		}
	}
	return out, nil
}

// exported reads a file that opsign witness export wrote.
func (t *tool) exported(name string) ([]witness.Record, error) {
	text, err := t.document(name, witness.MaxExport)
	if err != nil {
		return nil, err
	}
	return witness.ParseExport(text)
}

// progress is a line on a terminal that says how far it is.
type progress struct {
	to    io.Writer // nil: nobody looks
	now   func() time.Time
	next  time.Time // when it is worth a word
	shown bool
}

// progressOn tells nobody where the words do not go to a terminal.
func progressOn(to io.Writer, now func() time.Time) *progress {
	p := &progress{now: now, next: now().Add(time.Second)}
	if in, ok := to.(io.Reader); ok && cli.IsTerminal(in) {
		p.to = to
	}
	return p
}

// show says it at most twice a second, from the second second on.
func (p *progress) show(done, of int64) {
	if now := p.now(); p.to != nil && !now.Before(p.next) {
		p.next, p.shown = now.Add(time.Second/2), true
		_, _ = fmt.Fprintf(p.to, "\r%d of %d entries", done, of)
	}
}

// end takes the line away.
func (p *progress) end() {
	if p.shown {
		_, _ = fmt.Fprint(p.to, "\r\x1b[K")
	}
}

// entryNumber reads the number of an entry.
func entryNumber(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, cli.Usage(notAnEntryNumber(text))
	}
	return n, nil
}

// stateDir returns the directory that --state names, or the default one.
func stateDir(flag string) string {
	if flag == "" {
		return defaultStateDir()
	}
	return flag
}

func notAnEntryNumber(text string) string { return cli.Quoted(text) + " is not the number of an entry" }

const wordsLinesPositive = "--lines is below 1"

const flagFollow = "also print new entries as they come"

func (t *tool) auditTailCommand() *cobra.Command {
	var n int64
	var follow bool
	var f entryFilter
	c := t.Command(cli.Words{
		Use:   "tail",
		Short: "Print the newest entries of the audit log",
		Long: `An entry is printed if it matches every filter. Times are UTC: 2026-03-01, "2026-03-01 12:00", RFC 3339, or
how long ago: 90m.`,
		Example: "  gated audit tail -n 50\n" +
			"  gated audit tail -f --kind refused --kind rejected\n" +
			"  gated audit tail --target web-1 --since 24h",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if n < 0 || n < 1 && !follow {
			return cli.Usage(wordsLinesPositive)
		}
		if err := f.understand(c, time.Now()); err != nil {
			return err
		}
		if follow && !f.to.IsZero() {
			return cli.Usage("--follow prints new entries, and --until ends before now: say one")
		}
		return t.tail(c.Context(), n, follow, f)
	})
	c.Flags().Int64VarP(&n, "lines", "n", 20, "how many")
	c.Flags().BoolVarP(&follow, "follow", "f", false, flagFollow)
	filterFlags(c, &f)
	return c
}

// tail prints the newest n entries that are wanted and, to follow, those that
// come.
func (t *tool) tail(ctx context.Context, n int64, follow bool, f entryFilter) error {
	cl, err := t.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	head, err := cl.AuditHead(ctx)
	if err != nil {
		return err
	}
	after := head.Seq
	if n > 0 {
		if after, err = newest(ctx, cl, head, n, f); err != nil {
			return err
		}
		if after == head.Archived {
			after = t.begin(0, head.Archived) // there may be older ones that are wanted
		}
	}
	show, seen := t.entries(ctx, cl), false
	print := func(e api.Entry) error {
		seen = true
		return show.entry(e)
	}
	after, err = eachEntry(ctx, cl, after, f, print)
	if err == nil && follow {
		err = cl.Events(ctx, after, true, func(e api.Entry) error {
			if !f.wants(e) {
				return nil
			}
			return print(e)
		})
	}
	switch {
	case follow && errors.Is(err, context.Canceled):
		return nil // this is how one stops following
	case err == nil && !seen && !f.all():
		t.Say("note: there is no such entry\n")
	}
	return err
}
