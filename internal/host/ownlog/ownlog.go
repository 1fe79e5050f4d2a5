// Package ownlog writes the daemon's own log. Lines go through a bounded queue, so that no decision waits for a slow
// reader of the log. The audit log is another one (log/audit): it decides what is true, this one tells people.
package ownlog

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"
)

// Format is the form of the lines.
type Format string

// The forms of gated.yaml's log.format.
const (
	Auto    Format = "auto" // Journal if the output is connected to systemd's journal, else Text
	Text    Format = "text"
	JSON    Format = "json"
	Journal Format = "journal" // the native protocol of systemd's journal
)

// maxQueue is how many lines wait for the writer at most.
const maxQueue = 1024

// Log is the daemon's own log. It is safe for concurrent use.
type Log struct {
	out    io.Writer
	stream string // JOURNAL_STREAM, see ofJournal
	level  slog.LevelVar
	sink   atomic.Pointer[slog.Handler] // used by the writer alone
	queue  chan line

	lost    atomic.Int64 // lines since the last line that said so
	allLost atomic.Int64
	journal func() (slog.Handler, error) // newJournal; a test replaces it
}

// New returns a log on out. stream is the environment's JOURNAL_STREAM. Close ends it.
func New(out io.Writer, stream string) *Log {
	l := &Log{out: out, stream: stream, queue: make(chan line, maxQueue)}
	l.journal = l.newJournal
	l.set(slog.NewTextHandler(out, nil))
	go l.run()
	return l
}

// Configure sets the form, and the level from which lines are written. It fails, and changes nothing, if the journal
// cannot be written to. Lines that wait get the new form.
func (l *Log) Configure(f Format, level slog.Level) error {
	if f == Auto {
		f = Text
		if ofJournal(l.out, l.stream) {
			f = Journal
		}
	}
	var h slog.Handler
	switch f {
	case JSON:
		h = slog.NewJSONHandler(l.out, &slog.HandlerOptions{Level: slog.LevelDebug})
	case Journal:
		var err error
		if h, err = l.journal(); err != nil {
			return fmt.Errorf("systemd's journal: %w", err)
		}
	default:
		h = slog.NewTextHandler(l.out, &slog.HandlerOptions{Level: slog.LevelDebug})
	}
	l.level.Set(level)
	l.set(h)
	return nil
}

func (l *Log) set(h slog.Handler) { l.sink.Store(&h) }

// Logger returns the logger of this log.
func (l *Log) Logger() *slog.Logger { return slog.New(handler{log: l}) }

// Lost returns how many lines were dropped since the start, because the queue was full or writing failed.
func (l *Log) Lost() int64 { return l.allLost.Load() }

// Close writes what waits, for as long as ctx lasts. What is logged later may be lost.
func (l *Log) Close(ctx context.Context) {
	done := make(chan struct{})
	select {
	case l.queue <- line{last: done}:
	case <-ctx.Done():
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// run writes lines until the last one.
func (l *Log) run() {
	for ln := range l.queue {
		l.tellLost()
		if ln.last != nil {
			close(ln.last)
			return
		}
		l.write(ln)
	}
}

// tellLost says how many lines are missing before the next one.
func (l *Log) tellLost() {
	n := l.lost.Swap(0)
	if n == 0 {
		return
	}
	r := slog.NewRecord(time.Time{}, slog.LevelWarn, "lines of this log were lost, because they were written too slowly", 0)
	r.AddAttrs(slog.Int64("lost", n))
	if (*l.sink.Load()).Handle(context.Background(), r) != nil {
		l.lost.Add(n)
	}
}

func (l *Log) write(ln line) {
	h := *l.sink.Load()
	for _, with := range ln.with {
		h = with(h)
	}
	if h.Handle(context.Background(), ln.record) != nil {
		l.drop()
	}
}

func (l *Log) drop() {
	l.lost.Add(1)
	l.allLost.Add(1)
}
