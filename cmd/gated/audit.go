package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/life"
	"gated/internal/op"
	"gated/internal/witness"
)

func (t *tool) auditCommand() *cobra.Command {
	return t.Group(cli.Words(help["audit"]), wordsNoAuditCommand, t.auditTailCommand(), t.auditVerifyCommand(), t.auditExportCommand(),
		t.auditHeadCommand(), t.auditProveCommand(), t.auditCheckCommand())
}

func (t *tool) auditVerifyCommand() *cobra.Command {
	var dir string
	var files []string
	c := t.command("audit verify", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		kept, err := t.keptHeads(files)
		if err != nil {
			return err
		}
		p := progressOn(t.Stderr, time.Now)
		r, err := life.VerifyAuditWith(c.Context(), stateDir(dir), life.AuditCheck{Kept: kept, Progress: p.show})
		p.end()
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(r)
		}
		t.Print(wordsAuditSound, r.Seq, op.Shown(r.Hash))
		if len(files) > 0 {
			t.Print(wordsHeadsSound, count(r.Heads, "head"))
		}
		if r.Others > 0 {
			t.Say(wordsOtherHeads, count(r.Others, "head"))
		}
		return nil
	})
	t.stateOf(c, &dir)
	c.Flags().StringArrayVar(&files, "witness", nil, flagWitness)
	_ = c.MarkFlagFilename("witness") // the flag was just added
	return c
}

// keptHeads reads what opsign witness export wrote, and leaves out what
// contradicted the heads that are remembered: that is known not to be of the
// same log.
func (t *tool) keptHeads(files []string) ([]life.KeptHead, error) {
	var out []life.KeptHead
	for _, name := range files {
		text, err := t.document(name, witness.MaxExport)
		if err != nil {
			return nil, err
		}
		records, err := witness.ParseExport(text)
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
			t.Say(wordsHasEvidence, op.Shown(name), count(contradictions, "head"))
		}
	}
	return out, nil
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
		_, _ = fmt.Fprintf(p.to, wordsProgress, done, of)
	}
}

// end takes the line away.
func (p *progress) end() {
	if p.shown {
		_, _ = fmt.Fprint(p.to, wordsProgressEnd)
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
		return life.DefaultStateDir()
	}
	return flag
}
