package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"gated/internal/base/op"
	"gated/internal/wire/api"
)

// Emit writes one JSON document as a line of the answer. It fails where the
// answer cannot be written.
func (t *Tool) Emit(v any) error {
	b, err := api.Encode(v)
	if err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	_, err = t.Stdout.Write(append(b, '\n'))
	return err
}

// Say writes words for people beside the answer.
func (t *Tool) Say(format string, args ...any) { _, _ = fmt.Fprintf(t.Stderr, format, args...) }

// Print writes words for people that are the answer.
func (t *Tool) Print(format string, args ...any) { _, _ = fmt.Fprintf(t.Stdout, format, args...) }

// Table writes rows (see Row) in columns. It fails where the answer cannot be
// written.
func (t *Tool) Table(rows ...string) error {
	_, err := io.WriteString(t.Stdout, Columns(rows...))
	return err
}

// gap is how many spaces stand between columns.
const gap = 2

// Columns lays out rows (see Row), each of them a line.
func Columns(rows ...string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 8, gap, ' ', 0)
	for _, r := range rows {
		_, _ = fmt.Fprintln(w, r) // a strings.Builder takes everything
	}
	_ = w.Flush()
	return b.String()
}

// Row joins the cells of a row, made safe to print; those that are empty show
// as a dash.
func Row(cells ...string) string {
	for i, c := range cells {
		if c == "" {
			cells[i] = "-"
		}
		cells[i] = Inline(cells[i])
	}
	return strings.Join(cells, "\t")
}

// Lines makes text safe to print line by line. Lines after the first are
// indented, so that none can pass for one of ours.
func Lines(s string) string {
	parts := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, p := range parts {
		parts[i] = Safe(p)
	}
	return strings.Join(parts, "\n    ")
}

// Safe returns a line of ours that has others' words in it as it may be printed:
// as it is, or quoted and escaped as a whole if one of the words was not made
// safe.
func Safe(line string) string {
	if op.Shows(line) {
		return line
	}
	return op.Shown(line)
}

// Moment shows a time in UTC to the second.
func Moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05Z") }
