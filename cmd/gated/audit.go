package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
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
	var dir string
	var files []string
	c := t.Command(cli.Words{
		Use:   "verify",
		Short: "Verify that no entry of the audit log was altered, removed, moved or cut off",
		Long: `Reads the state directory, beside a running daemon or without one. With --witness, the log must also continue
from each signed head in that file. This finds a log that was replaced as a whole.

If you may not read the state directory, the daemon is asked what its own check found last, which a note says. It runs
that check after each start. Exits 1 if it found something wrong, or has not ended.`,
		Example: "  gated audit verify --state /var/lib/gated\n" +
			"  gated audit verify --witness heads.jsonl",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if len(files) == 0 {
			if done, err := instead(c.Context(), dir, t.auditAsked); done || err != nil {
				return err
			}
		}
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
		t.Print("the audit log is whole: %d entries, head %s\n", r.Seq, op.Shown(r.Hash))
		if len(files) > 0 {
			t.Print("it continues from what witnesses saw: %s\n", cli.Count(r.Heads, "head"))
		}
		if r.Others > 0 {
			t.Say("note: %s of another gate id, which a gate has until it is restored, not compared\n", cli.Count(r.Others, "head"))
		}
		return nil
	})
	t.stateOf(c, &dir)
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
			t.Say("note: in %s is evidence of another log that the gate showed: %s\n",
				op.Shown(name), cli.Count(contradictions, "head"))
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
		if after, err = newest(ctx, cl, head.Seq, n, f); err != nil {
			return err
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

// auditPage is how many entries are asked for at once.
const auditPage = 500

// entryFilter says which entries are wanted. The daemon sends them all, page by
// page; the zero filter wants each.
type entryFilter struct {
	since, until string
	target       string
	signer       string
	kinds        []string

	from, to time.Time // of since and until; the latter is not part of it
}

// filterFlags adds the flags of a filter.
func filterFlags(c *cobra.Command, f *entryFilter) {
	c.Flags().StringVar(&f.since, "since", "", "only entries from this `TIME` on, or from so long ago: 90m")
	c.Flags().StringVar(&f.until, "until", "", "only entries before this `TIME`")
	c.Flags().StringVar(&f.target, "target", "", "only what is about this `TARGET`, guest/web-1, or of any kind: web-1")
	c.Flags().StringVar(&f.signer, "signer", "",
		"only what this `PRINCIPAL` or key signed, alice@example.com or SHA256:...")
	c.Flags().StringSliceVar(&f.kinds, "kind", nil,
		"only entries of this `KIND`, approved, refused...; may be given again")
	for _, name := range []string{"since", "until", "target", "signer"} {
		_ = c.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions) // the flag was just added
	}
	_ = c.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(api.EntryKinds,
		cobra.ShellCompDirectiveNoFileComp)) // and this one
}

// understand reads the times, and refuses as a usage error what is none, a kind
// that there is not, and what was given as "", as of a variable that is not set.
func (f *entryFilter) understand(c *cobra.Command, now time.Time) (err error) {
	for name, text := range map[string]string{"since": f.since, "until": f.until, "target": f.target, "signer": f.signer,
		"kind": strings.Join(f.kinds, "")} {
		if c.Flags().Changed(name) && text == "" {
			return cli.Usage(emptyFilter(name))
		}
	}
	for _, kind := range f.kinds {
		if !slices.Contains(api.EntryKinds, kind) {
			return cli.Usage(noSuchKind(kind))
		}
	}
	if f.from, err = momentOf("since", f.since, now); err != nil {
		return err
	}
	if f.to, err = momentOf("until", f.until, now); err != nil {
		return err
	}
	if !f.from.IsZero() && !f.to.IsZero() && !f.from.Before(f.to) {
		return cli.Usage("--since is not before --until")
	}
	return nil
}

// timeForms are how times are written, in UTC where they do not say.
var timeForms = []string{time.RFC3339Nano, "2006-01-02 15:04:05Z", "2006-01-02 15:04:05", "2006-01-02 15:04",
	"2006-01-02"}

// momentOf reads a time, or how long ago it was; the zero time if there is none.
func momentOf(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range timeForms {
		if at, err := time.Parse(form, text); err == nil {
			return at, nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	return time.Time{}, cli.Usage(notAMoment(flag, text))
}

// all reports whether each entry is wanted.
func (f entryFilter) all() bool {
	return f.from.IsZero() && f.to.IsZero() && f.target == "" && f.signer == "" && len(f.kinds) == 0
}

// wants reports whether an entry is.
func (f entryFilter) wants(e api.Entry) bool {
	switch {
	case !f.from.IsZero() && e.Time.Before(f.from), !f.to.IsZero() && !e.Time.Before(f.to),
		len(f.kinds) > 0 && !slices.Contains(f.kinds, e.Kind):
		return false
	case f.target != "" && e.Target != f.target && !strings.HasSuffix(e.Target, "/"+f.target):
		return false
	}
	return f.signer == "" || slices.ContainsFunc(e.Signers, f.signed)
}

// signed reports whether one of an entry's signers is the one: by name, by the
// fingerprint of the key, or by that of the authority of its certificate.
func (f entryFilter) signed(signer string) bool {
	words := strings.Fields(signer)
	for i, w := range words {
		if i != 1 && (w == f.signer || w == "ca="+f.signer) { // the second is the role
			return true
		}
	}
	return false
}

// eachEntry reads the log page by page from the entry above after, and calls fn
// with each that is wanted. It returns the number of the last one that was read.
// Numbers that are no sequence are what a log that was cut has: Conflict.
func eachEntry(ctx context.Context, cl *client.Client, after int64, f entryFilter, fn func(api.Entry) error) (int64, error) {
	for {
		page, err := cl.Audit(ctx, after, auditPage)
		if err != nil || len(page) == 0 {
			return after, err
		}
		for _, e := range page {
			if e.Seq != after+1 {
				return after, entryMissing(after+1, e.Seq)
			}
			after = e.Seq
			if !f.wants(e) {
				continue
			}
			if err := fn(e); err != nil {
				return after, err
			}
		}
	}
}

// newest returns the number below the newest n entries up to head that are
// wanted. It reads backwards, a page at a time.
func newest(ctx context.Context, cl *client.Client, head, n int64, f entryFilter) (int64, error) {
	if f.all() {
		return max(0, head-n), nil
	}
	for end := head; end > 0; {
		start := max(0, end-auditPage)
		var below []int64 // the numbers below those that are wanted
		for after := start; after < end; {
			page, err := cl.Audit(ctx, after, int(end-after))
			if err != nil {
				return 0, err
			}
			if len(page) == 0 {
				return 0, entryMissing(after+1, end)
			}
			for _, e := range page {
				if f.wants(e) {
					below = append(below, after)
				}
				after = e.Seq
			}
		}
		if int64(len(below)) >= n {
			return below[int64(len(below))-n], nil
		}
		n -= int64(len(below))
		end = start
	}
	return 0, nil
}

func emptyFilter(name string) string {
	return "--" + name + " is empty: say which, or leave the flag away for all"
}

func noSuchKind(kind string) string {
	return fmt.Sprintf("--kind %s is no kind of entry; there are: %s", cli.Quoted(kind), strings.Join(api.EntryKinds, " "))
}

func notAMoment(flag, text string) string {
	return fmt.Sprintf("--%s %s is no time: write 2026-03-01, \"2026-03-01 12:00\" or 2026-03-01T12:00:00Z, which is "+
		"UTC, or how long ago, 90m", flag, cli.Quoted(text))
}

func entryMissing(missing, next int64) error {
	return refusal.New(refusal.Conflict, "entry %d is missing, but there is a %d", missing, next).
		WithHint("this is not the whole log: gated audit verify on the gate's host says what is wrong")
}
