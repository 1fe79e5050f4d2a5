package cli

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// The size of a terminal that does not say its own.
const (
	usualRows = 24
	usualCols = 80
)

// Size returns the rows and columns of a terminal.
func Size(f *os.File) (rows, cols int) {
	cols, rows, err := term.GetSize(int(f.Fd()))
	if err != nil || rows == 0 || cols == 0 {
		return usualRows, usualCols
	}
	return rows, cols
}

// Width returns how many columns a line may have on a terminal, so that the terminal
// does not go to the next line by itself after the last one. It is 0, which is no
// limit, of what is no terminal.
func Width(to io.Writer) int {
	f, ok := to.(*os.File)
	if !ok || !IsTerminal(f) {
		return 0
	}
	_, cols := Size(f)
	return cols - 1
}

// Told lays text out for its reader: for a terminal in lines that the terminal does
// not have to cut. A file has nothing cut: Inline leaves no blanks in a line with
// which others' text could move to a line of ours.
func Told(text string, to io.Writer) string {
	return told(text, Width(to))
}

func told(text string, cols int) string {
	if cols == 0 || text == "" {
		return text
	}
	return strings.Join(Wrapped(text, cols), "\n") + "\n"
}

// Cont begins what goes on from the line above, so that no text of others' can pass
// for a line of ours.
const Cont = "      | "

// Wrapped cuts text into lines that a terminal of so many columns shows as they
// are, after a space where there is one near the end. Characters beyond ASCII may
// take two columns. The caller made each line safe; a line that is not is quoted.
func Wrapped(text string, cols int) []string { return Hanging(text, cols, Cont) }

// Hanging is Wrapped with another mark before what goes on from the line above, for text that is ours alone.
func Hanging(text string, cols int, cont string) []string {
	var out []string
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		line = Safe(strings.TrimRight(line, " "))
		mark := ""
		for {
			n := fitting(line, cols-len(mark))
			out = append(out, mark+line[:n])
			if line = line[n:]; line == "" {
				break
			}
			mark = cont
		}
	}
	return out
}

// fitting returns how many bytes of a line fit into so many columns, at least a
// character.
func fitting(line string, cols int) int {
	width, space := 0, 0
	for i, r := range line {
		w := 1
		if r > 0x7e {
			w = 2
		}
		if width+w > cols && i > 0 {
			if space > i*2/3 {
				return space
			}
			return i
		}
		if width += w; r == ' ' {
			space = i + 1
		}
	}
	return len(line)
}

// cut returns text in so many columns, with an ellipsis where it is longer.
func cut(text string, cols int, ellipsis string) string {
	if widthOf(text) <= cols {
		return text
	}
	width := widthOf(ellipsis)
	for i, r := range text {
		if width += columnsOf(r); width > cols {
			return text[:i] + ellipsis
		}
	}
	return text
}

// widthOf returns how many columns a text takes at most.
func widthOf(text string) (n int) {
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

// firstWide is where the scripts begin whose characters take two columns, but for
// punctuation such as the ellipsis. A character beyond it that takes one leaves a blank.
const firstWide = 0x1100

func columnsOf(r rune) int {
	if r >= firstWide && !(r >= 0x2000 && r < 0x2070) {
		return 2
	}
	return 1
}

// Dash stands between the parts of a headline: a dot where the locale has one, else
// plain ASCII.
func Dash(getenv func(string) string) string {
	if utf8Locale(getenv) {
		return " · "
	}
	return " - "
}

// Ellipsis stands where a cell was cut.
func Ellipsis(getenv func(string) string) string {
	if utf8Locale(getenv) {
		return "…"
	}
	return "..."
}

// utf8Locale reports whether the locale's characters are UTF-8. The first variable
// that is set decides (setlocale(3)).
func utf8Locale(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// Colours reports whether a terminal may be sent colours: it is one, knows control
// sequences, and NO_COLOR (no-color.org) is not set.
func Colours(to io.Writer, getenv func(string) string) bool {
	f, ok := to.(*os.File)
	return ok && IsTerminal(f) && getenv("NO_COLOR") == "" && getenv("TERM") != "" && getenv("TERM") != "dumb"
}

// The control sequences of colours (ECMA-48, 8.3.117).
const (
	bold  = "\x1b[1m"
	alarm = "\x1b[1;31m"
	plain = "\x1b[0m"
)

// Paint colours lines that Wrapped made of a text. Only whole lines are coloured, by
// where they begin: headlines at the left edge, where no words of others stand, and the
// titles of parts below them. A headline that ends with alarming words is an alarm.
func Paint(lines []string, alarming string) []string {
	out := make([]string, 0, len(lines))
	for i := 0; i < len(lines); {
		next := i + 1
		for next < len(lines) && strings.HasPrefix(lines[next], Cont) {
			next++
		}
		whole, colour := strings.ReplaceAll(strings.Join(lines[i:next], ""), Cont, ""), ""
		switch title := strings.HasPrefix(whole, "  ") && !strings.HasPrefix(whole, "   ") && strings.HasSuffix(whole, ":"); {
		case !strings.HasPrefix(whole, " ") && strings.HasSuffix(whole, alarming):
			colour = alarm
		case title || !strings.HasPrefix(whole, " "):
			colour = bold
		}
		for _, line := range lines[i:next] {
			if colour != "" {
				line = colour + line + plain
			}
			out = append(out, line)
		}
		i = next
	}
	return out
}

// IsTerminal reports whether an operator may be asked on it: it is a file, and the
// file a terminal. Other character devices, such as /dev/null, are none.
func IsTerminal(in any) bool {
	f, ok := in.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
