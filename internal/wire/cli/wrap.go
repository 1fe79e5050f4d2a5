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
	cols := Width(to)
	if cols == 0 {
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
func Wrapped(text string, cols int) []string {
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
			mark = Cont
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
