package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/op"
)

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
			return cli.Usage(wordsAfterAndFile)
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
	if t.JSON {
		return t.Emit(exported{File: path, Entries: n, UpTo: until})
	}
	t.Print(wordsExported, op.Shown(path), n, until)
	return nil
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
