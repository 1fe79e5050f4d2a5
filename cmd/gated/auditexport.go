package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

const wordsAfterNegative = "--after is below 0"

const flagAfter = "only entries above this `NUMBER`"

func (t *tool) auditExportCommand() *cobra.Command {
	var after int64
	var out string
	var f entryFilter
	c := t.Command(cli.Words{
		Use:   "export",
		Short: "Write the audit log as JSON, one entry a line",
		Long: `With -o, the export continues an existing file if the file's last line is the log's entry of that number. An
export that was cut off ends with exit code 1 or more. The filters are those of gated audit tail.`,
		Example: "  gated audit export > audit.jsonl\n" +
			"  gated audit export -o audit.jsonl",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		switch {
		case after < 0:
			return cli.Usage(wordsAfterNegative)
		case c.Flags().Changed("output") && out == "":
			return cli.Usage("--output is empty: name the file, or leave the flag away for standard output")
		}
		if err := f.understand(c, time.Now()); err != nil {
			return err
		}
		return t.With(func(cl *client.Client) error {
			if out == "" {
				_, _, err := t.export(c.Context(), cl, after, f, func(line []byte) error {
					_, err := t.Stdout.Write(line)
					return err
				})
				return err
			}
			return t.exportTo(c.Context(), cl, out, exportFrom{after, c.Flags().Changed("after")}, f)
		})
	})
	c.Flags().Int64Var(&after, "after", 0, flagAfter)
	c.Flags().StringVarP(&out, "output", "o", "", "write to this `FILE`, or go on with it")
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

func noSuchEntryYet(after, head int64) error {
	return refusal.New(refusal.UnknownTarget, "the log has no entry %d: it ends at %d", after, head).
		WithHint("if it had one, it was cut off: gated audit verify --witness FILE on the gate's host")
}

// maxEntry is the longest line of an export that is read back, in bytes; the
// daemon sends none that is longer.
const maxEntry = 4 << 20

// exportTo writes an export to a file of its owner's, or goes on with one that
// is there: behind its last whole line, which has to be the log's entry of that
// number. What was being written when it was cut off is written anew.
func (t *tool) exportTo(ctx context.Context, cl *client.Client, path string, from exportFrom, f entryFilter) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return cli.Usage(err.Error())
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(err, notAnExport(path, "it is not an ordinary file"))
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return exportLocked(path)
	}
	last, end, err := lastEntry(file, path)
	if err != nil {
		return err
	}
	after := from.after
	if last != nil {
		if from.given {
			return cli.Usage("the file says itself where to go on: leave --after away, or name a new file")
		}
		if err := isEntry(ctx, cl, path, *last); err != nil {
			return err
		}
		after = last.Seq
	}
	if err := file.Truncate(end); err != nil {
		return err
	}
	if _, err := file.Seek(end, io.SeekStart); err != nil {
		return err
	}
	until, n, err := t.export(ctx, cl, after, f, func(line []byte) error {
		_, err := file.Write(line)
		return err
	})
	if err = errors.Join(err, file.Sync()); err != nil {
		return err
	}
	return t.Answer(exported{File: path, Entries: n, UpTo: until},
		"%s: %d entries added, up to %d\n", op.Shown(path), n, until)
}

// exported is the answer of an export to a file.
type exported struct {
	File    string `json:"file"`
	Entries int64  `json:"entries"` // that were added
	UpTo    int64  `json:"up_to"`   // the last one that was looked at
}

// lastEntry reads the last whole line of an export, and where it ends; nil of
// a file that is empty. Malformed if that line is no entry, so that nothing else
// than an export is ever changed.
func lastEntry(file *os.File, path string) (*api.Entry, int64, error) {
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil || size == 0 {
		return nil, 0, err
	}
	// Two lines of the greatest length: the last whole one, and one that was cut off.
	start := max(0, size-2*(maxEntry+1))
	tail := make([]byte, size-start)
	if _, err := file.ReadAt(tail, start); err != nil {
		return nil, 0, err
	}
	whole := bytes.LastIndexByte(tail, '\n') + 1
	if whole == 0 {
		return nil, 0, notAnExport(path, "it has no whole line")
	}
	begin := bytes.LastIndexByte(tail[:whole-1], '\n') + 1
	e, err := api.ParseEntry(tail[begin : whole-1])
	if err != nil || e.Seq < 1 || begin == 0 && start > 0 {
		return nil, 0, notAnExport(path, "its last whole line is no entry")
	}
	return &e, start + int64(whole), nil
}

// isEntry refuses, as a Conflict, an entry that is not the log's.
func isEntry(ctx context.Context, cl *client.Client, path string, last api.Entry) error {
	page, err := cl.Audit(ctx, last.Seq-1, 1)
	if err != nil {
		return err
	}
	if len(page) != 1 || !bytes.Equal(page[0].Raw, last.Raw) {
		return otherLog(path, last.Seq)
	}
	return nil
}

func notAnExport(path, why string) error {
	return refusal.New(refusal.Malformed, "%s is no export of an audit log: %s", op.Shown(path), why).
		WithHint("it was left as it is: name a new file")
}

func exportLocked(path string) error {
	return refusal.New(refusal.Conflict, "%s is being written by another export", op.Shown(path)).
		WithHint("wait for its end")
}

func otherLog(path string, seq int64) error {
	return refusal.New(refusal.Conflict, "the last entry in %s is not entry %d of this log: the file was left as it is",
		op.Shown(path), seq).
		WithHint("it is of another gate, or the log was cut or rewritten since: keep the file, and see gated audit " +
			"verify on the gate's host")
}
