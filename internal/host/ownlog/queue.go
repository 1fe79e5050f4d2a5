package ownlog

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"
)

// line is one line that waits to be written.
type line struct {
	record slog.Record
	with   []func(slog.Handler) slog.Handler // attributes and groups of its logger
	last   chan struct{}                     // closed by the writer, which ends then
}

// handler puts lines into the queue of a log.
type handler struct {
	log  *Log
	with []func(slog.Handler) slog.Handler
}

// Enabled implements slog.Handler.
func (h handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= h.log.level.Level()
}

// Handle implements slog.Handler. It never waits.
func (h handler) Handle(_ context.Context, r slog.Record) error {
	select {
	case h.log.queue <- line{record: still(r), with: h.with}:
	default:
		h.log.drop()
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	attrs = slices.Clone(attrs)
	for i := range attrs {
		attrs[i] = stillAttr(attrs[i])
	}
	return h.and(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	return h.and(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h handler) and(with func(slog.Handler) slog.Handler) handler {
	h.with = append(slices.Clip(h.with), with)
	return h
}

// maxText bounds one value in bytes. A stack of a panic fits.
const maxText = 16 << 10

// still returns the record with values that do not change until they are written.
func still(r slog.Record) slog.Record {
	out := slog.NewRecord(r.Time, r.Level, cut(r.Message, maxText), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(stillAttr(a))
		return true
	})
	return out
}

func stillAttr(a slog.Attr) slog.Attr {
	v := a.Value.Resolve()
	switch v.Kind() {
	case slog.KindString:
		v = slog.StringValue(cut(v.String(), maxText))
	case slog.KindAny:
		v = slog.StringValue(cut(fmt.Sprint(v.Any()), maxText))
	case slog.KindGroup:
		inner := slices.Clone(v.Group())
		for i := range inner {
			inner[i] = stillAttr(inner[i])
		}
		v = slog.GroupValue(inner...)
	}
	return slog.Attr{Key: a.Key, Value: v}
}

// cut returns at most so many bytes of s, in whole characters.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return strings.ToValidUTF8(s[:most], "\uFFFD") + "…"
}
