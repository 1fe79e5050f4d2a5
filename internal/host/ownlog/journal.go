package ownlog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"

	slogjournal "github.com/systemd/slog-journal"

	"gated/internal/base/op"
)

// ofJournal reports whether out is the connection to systemd's journal that the environment's JOURNAL_STREAM names by
// device and inode (systemd.exec(5)). Without that check a child whose output goes elsewhere would write there too.
func ofJournal(out io.Writer, stream string) bool {
	f, ok := out.(*os.File)
	if !ok || stream == "" {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && fmt.Sprintf("%d:%d", st.Dev, st.Ino) == stream
}

// toJournal writes records in the native form of systemd's journal. Each attribute is a field GATED_NAME. MESSAGE has
// them too, because journalctl shows it alone.
type toJournal struct {
	fields slog.Handler
	words  slog.Handler // writes the attributes into text
	text   *bytes.Buffer
}

// journalSocket is the fixed place of the journal's socket (systemd-journald.service(8)).
const journalSocket = "/run/systemd/journal/socket"

func (l *Log) newJournal() (slog.Handler, error) {
	// The library drops lines without a word if there is no socket.
	if _, err := os.Stat(journalSocket); err != nil {
		return nil, err
	}
	fields, err := slogjournal.NewHandler(&slogjournal.Options{Level: slog.LevelDebug, ReplaceAttr: field, ReplaceGroup: fieldName})
	if err != nil {
		return nil, err
	}
	return journalOver(fields), nil
}

func journalOver(fields slog.Handler) toJournal {
	text := &bytes.Buffer{}
	words := slog.NewTextHandler(text, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
			return slog.Attr{}
		}
		return a
	}})
	return toJournal{fields, words, text}
}

// field names a field, and escapes a text that does not show as it is.
func field(groups []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindString && !op.Shows(a.Value.String()) {
		a.Value = slog.StringValue(strconv.QuoteToASCII(a.Value.String()))
	}
	key := fieldName(a.Key)
	if len(groups) > 0 { // the group's name comes first
		key = strings.TrimPrefix(key, fieldPrefix)
	}
	return slog.Attr{Key: key, Value: a.Value}
}

// fieldPrefix begins the names of all fields.
const fieldPrefix = "GATED_"

// fieldName is the journal's name of an attribute: capital letters, digits and underscores.
func fieldName(key string) string {
	return fieldPrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, key)
}

// Enabled implements slog.Handler.
func (j toJournal) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler. It is called by one goroutine at a time.
func (j toJournal) Handle(ctx context.Context, r slog.Record) error {
	j.text.Reset()
	if err := j.words.Handle(ctx, r); err != nil {
		return err
	}
	message := strings.TrimSpace(op.Shown(r.Message) + " " + strings.TrimSpace(j.text.String()))
	out := slog.NewRecord(r.Time, r.Level, message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(a)
		return true
	})
	return j.fields.Handle(ctx, out)
}

// WithAttrs implements slog.Handler.
func (j toJournal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return toJournal{j.fields.WithAttrs(attrs), j.words.WithAttrs(attrs), j.text}
}

// WithGroup implements slog.Handler.
func (j toJournal) WithGroup(name string) slog.Handler {
	return toJournal{j.fields.WithGroup(name), j.words.WithGroup(name), j.text}
}
