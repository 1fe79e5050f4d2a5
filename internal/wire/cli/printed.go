package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"gated/client/api"
	"gated/internal/base/op"
)

// What begins each line of what a program printed, and what goes on from the one
// above, as wherever a line was cut: nothing that it printed can pass for a line of ours.
const (
	lineMark = "> "
	contMark = "| "
)

// printedCols is how wide such a line is at most, without its mark. A screen of 80
// columns does not have to cut it, which would leave the rest without a mark.
const printedCols = 68

// tabCols is how far apart a terminal's tabs are.
const tabCols = 8

// Printed returns what a program printed as it may stand below a line of ours,
// each line after indent, which has at most 8 columns, and a mark. Spaces stay as they are and
// tabs become some; a line with anything else that would not show as it is, is
// quoted, with everything escaped that is not plain ASCII. It is empty of nothing.
func Printed(indent, text string) string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return ""
	}
	var b strings.Builder
	for line := range strings.SplitSeq(text, "\n") {
		mark := lineMark
		for _, part := range cutAt(asShown(line), printedCols) {
			b.WriteString(strings.TrimRight(indent+mark+part, " ") + "\n")
			mark = contMark
		}
	}
	return b.String()
}

// asShown returns a line as it may be printed after a mark. A program that ends
// its lines with a carriage return, too, means nothing by that.
func asShown(line string) string {
	return op.Shown(untabbed(strings.TrimSuffix(line, "\r")))
}

// untabbed puts spaces in the place of tabs.
func untabbed(line string) string {
	if !strings.Contains(line, "\t") {
		return line
	}
	var b strings.Builder
	for part := range strings.SplitAfterSeq(line, "\t") {
		text, tab := strings.CutSuffix(part, "\t")
		b.WriteString(text)
		if tab {
			b.WriteString(strings.Repeat(" ", tabCols-utf8.RuneCountInString(text)%tabCols))
		}
	}
	return b.String()
}

// cutAt cuts a line into parts of at most so many columns, at least one part: at
// blanks, which begin the next part, and inside a word only where it is longer
// than that. Characters beyond ASCII may take two columns.
func cutAt(line string, cols int) []string {
	var parts []string
	width, from := 0, 0
	blankAt, widthThere := 0, 0 // the end of the last word, and the part's width until there
	before := ' '
	for i, r := range line {
		w := 1
		if r > unicode.MaxASCII {
			w = 2
		}
		if r == ' ' && before != ' ' {
			blankAt, widthThere = i, width
		}
		before = r
		for width+w > cols {
			if r == ' ' || blankAt <= from {
				blankAt, widthThere = i, width
			}
			parts = append(parts, line[from:blankAt])
			width, from = width-widthThere, blankAt
		}
		width += w
	}
	return append(parts, line[from:])
}

// Facts lays out facts in columns after indent, and those of several lines, or of
// one with blanks that would not show in a column, below their names.
func Facts(indent string, facts []op.Fact) string {
	var b strings.Builder
	var rows []string
	flush := func() {
		b.WriteString(Columns(rows...))
		rows = nil
	}
	for _, f := range facts {
		text := strings.TrimRight(f.Text, "\n")
		if Inline(text) == text || !strings.Contains(text, "\n") && asShown(text) != text {
			rows = append(rows, indent+Row(f.Name, text))
			continue
		}
		flush()
		b.WriteString(indent + Inline(f.Name) + ":\n" + Printed(indent+"  ", text))
	}
	flush()
	return b.String()
}

// Outputs shows what the steps of a job printed, after a line that names each of
// them. It is empty where none printed anything.
func Outputs(j api.Job) string {
	text := ""
	for _, s := range j.Steps {
		if out := Printed("    ", s.Output); out != "" {
			text += "  " + Inline(s.ID) + " printed:\n" + out
		}
	}
	return text
}

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

// Answer writes a value as JSON, or the words for people that say the same.
func (t *Tool) Answer(v any, format string, args ...any) error {
	if t.JSON {
		return t.Emit(v)
	}
	t.Print(format, args...)
	return nil
}

// Each writes each value as JSON, or has it printed for people. It stops at the first error. If
// it is called for JSON alone, print may be nil.
func Each[T any](t *Tool, print func(T) error, values ...T) error {
	if t.JSON {
		print = func(v T) error { return t.Emit(v) }
	}
	for _, v := range values {
		if err := print(v); err != nil {
			return err
		}
	}
	return nil
}

// List writes rows as Table lays them out for where they go. It fails where the answer cannot be written.
func (t *Tool) List(columns []Column, rows [][]string) error {
	_, err := io.WriteString(t.Stdout, Table(Width(t.Stdout), Ellipsis(t.Getenv), columns, rows))
	return err
}

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

// empty is what a cell without text shows.
const empty = "-"

// Row joins the cells of a row, made safe to print; those that are empty show
// as a dash.
func Row(cells ...string) string {
	for i, c := range cells {
		if c == "" {
			cells[i] = empty
		}
		cells[i] = Inline(cells[i])
	}
	return strings.Join(cells, "\t")
}

// Lines makes text safe to print line by line. Lines after the first are
// indented, so that none can pass for one of ours. One that is the cause at the end of the line
// before, or that line, is left out: joined errors say one cause again.
func Lines(s string) string {
	parts := slices.CompactFunc(strings.Split(strings.TrimRight(s, "\n"), "\n"), func(line, before string) bool {
		return line != "" && (before == line || strings.HasSuffix(before, ": "+line))
	})
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

// Moment shows a time in UTC to the second, as a gate's facts and refusals do.
func Moment(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// Count says how many of a thing there are; the plural of the word ends with an s.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
