package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/host/life"
	"gated/internal/log/evidence"
	"gated/internal/wire/cli"
)

// evidenceFlags are what gated evidence was asked for.
type evidenceFlags struct {
	from         life.EvidenceFrom
	since, until string
	out          string
	witness      []string
	report, csv  bool
}

func (t *tool) evidenceCommand() *cobra.Command {
	var f evidenceFlags
	c := t.Command(cli.Words{
		Use:   "evidence [JOB]",
		Short: "Write evidence that others can check without gated: what was asked, who signed, and how it ended",
		Long: `Writes a document for each step of JOB (j12, or one step: j12.1) that ran, was refused or was rejected. With
--since and --until, for each step that ended then. It has the payload, the signatures, the list of signers, and the
log's entries with proofs. scripts/verify-evidence.py checks it with Python and ssh-keygen alone.

Reads the state directory, beside a running daemon or without one, or a backup. The gate's key signs the head for
ssh-keygen. A backup has no key: give --key. With --witness, the newest head of the gate in the files counts. A log or a
backup with fewer entries is refused, because no proof reaches that head.

With --report, a table of these steps for people goes to the output in the documents' place.`,
		Example: "  gated evidence j12 -o j12.evidence\n" +
			"  gated evidence --since 2026-03-01 --until 2026-04-01 -o march\n" +
			"  gated evidence --since 720h --report",
	}, cobra.MaximumNArgs(1), func(c *cobra.Command, args []string) error {
		kept, err := t.keptNotes(f.witness)
		if err != nil {
			return err
		}
		f := f // the flags themselves stay as they were given
		f.from.State, f.from.Kept = stateDir(f.from.State), kept
		if len(args) == 1 {
			return t.evidenceOfJob(c.Context(), f, args[0])
		}
		return t.evidenceBetween(c.Context(), f)
	})
	t.stateOf(c, &f.from.State)
	t.archiveIn(c, &f.from.Archive)
	c.Flags().StringVar(&f.from.Backup, "backup", "", "read this backup `FILE`, not the state directory")
	c.Flags().StringVar(&f.from.KeyFile, "key", "", "sign the head with the gate's key in this `FILE` (default gate.key of the state directory)")
	c.Flags().StringVar(&f.since, "since", "", "only steps that ended from this `TIME` on, or from so long ago: 90m")
	c.Flags().StringVar(&f.until, "until", "", "only steps that ended before this `TIME`")
	c.Flags().StringVarP(&f.out, "output", "o", "", "the new `FILE`, or - for standard output; of several jobs a directory")
	c.Flags().StringArrayVar(&f.witness, "witness", nil, "prove that the log goes on from the newest head in this `FILE`, of opsign witness export; may be given again")
	c.Flags().BoolVar(&f.report, "report", false, "write a table for people")
	c.Flags().BoolVar(&f.csv, "csv", false, "with --report, write CSV (RFC 4180)")
	for _, name := range []string{"since", "until"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions) // the flag was just added
	}
	for _, name := range []string{"backup", "key", "output", "witness"} {
		_ = c.MarkFlagFilename(name) // and this one
	}
	return c
}

// keptNotes is keptHeads with the signed notes.
func (t *tool) keptNotes(files []string) (out []evidence.Kept, err error) {
	for _, name := range files {
		records, err := t.exported(name)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if !r.Contradiction() {
				out = append(out, evidence.Kept{Checkpoint: r.Head(), Note: r.Note})
			}
		}
	}
	return out, nil
}

func (t *tool) evidenceOfJob(ctx context.Context, f evidenceFlags, arg string) error {
	if f.since != "" || f.until != "" || f.report || f.csv {
		return cli.Usage("name a job, or say --since, --until and --report: not both")
	}
	if f.out == "" {
		return cli.Usage("say with -o which file to write, or -o - for standard output")
	}
	id, err := op.ParseStepID(arg)
	if err != nil {
		if id.Job, err = op.ParseJobID(arg); err != nil {
			return err
		}
	}
	docs, err := life.EvidenceOf(ctx, f.from, id)
	if err != nil {
		return err
	}
	if f.out == "-" {
		t.unsignedHead(docs)
		return writeEvidence(t.Stdout, docs)
	}
	if err := t.evidenceFile(f.out, docs); err != nil {
		return err
	}
	t.Say("wrote evidence of %s to %s\n", cli.Count(len(docs), "step"), op.Shown(f.out))
	t.unsignedHead(docs)
	return nil
}

// unsignedHead says that the gate's key was not at hand, so that ssh-keygen cannot check the head.
func (t *tool) unsignedHead(docs []evidence.Document) {
	if len(docs) > 0 && docs[0].Head.SSH == "" {
		t.Say("the head has no signature for ssh-keygen, because the gate's key was not at hand: say --key FILE, or have a witness's head ready\n")
	}
}

// writeEvidence writes one document a line.
func writeEvidence(to io.Writer, docs []evidence.Document) error {
	for _, d := range docs {
		line, err := d.Line()
		if err != nil {
			return err
		}
		if _, err := to.Write(line); err != nil {
			return err
		}
	}
	return nil
}

// evidenceFile writes a new file that only its owner can read, because parameters and reasons may be secret.
func (t *tool) evidenceFile(path string, docs []evidence.Document) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return cli.Usage(err.Error())
	}
	err = writeEvidence(file, docs)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (t *tool) evidenceBetween(ctx context.Context, f evidenceFlags) error {
	now := time.Now()
	since, err := momentOf("since", f.since, now)
	if err != nil {
		return err
	}
	until, err := momentOf("until", f.until, now)
	if err != nil {
		return err
	}
	switch {
	case !since.IsZero() && !until.IsZero() && !since.Before(until):
		return cli.Usage("--since is not before --until")
	case f.report:
		return t.evidenceReport(ctx, f, since, until)
	case f.csv:
		return cli.Usage("--csv is a form of --report: say both")
	case f.since == "" && f.until == "":
		return cli.Usage("name a job, or say --since or --until")
	case f.out == "" || f.out == "-":
		return cli.Usage("say with -o which directory to make")
	}
	docs, err := life.EvidenceBetween(ctx, f.from, since, until)
	if err != nil {
		return err
	}
	if err := os.Mkdir(f.out, 0o700); err != nil {
		return cli.Usage(err.Error())
	}
	for _, d := range docs {
		if err := t.evidenceFile(filepath.Join(f.out, d.Step+".evidence"), []evidence.Document{d}); err != nil {
			return err
		}
	}
	t.Say("wrote evidence of %s to %s\n", cli.Count(len(docs), "step"), op.Shown(f.out))
	t.unsignedHead(docs)
	return nil
}
