package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

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

// begin returns after which entry a reader begins who reads on after another one, and says so if entries before it are archived.
// The daemon sends none that is.
func (t *tool) begin(after, archived int64) int64 {
	if after > 0 || archived == 0 {
		return after
	}
	t.Say("note: entries 1 to %d are archived, so this begins with entry %d; gated archive show N prints an archived one\n", archived, archived+1)
	return archived
}

// newest returns the number below the newest n entries up to head that are
// wanted and not archived. It reads backwards, a page at a time.
func newest(ctx context.Context, cl *client.Client, head api.Head, n int64, f entryFilter) (int64, error) {
	if f.all() {
		return max(head.Archived, head.Seq-n), nil
	}
	for end := head.Seq; end > head.Archived; {
		start := max(head.Archived, end-auditPage)
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
	return head.Archived, nil
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
