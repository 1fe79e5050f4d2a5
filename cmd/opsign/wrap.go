package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"gated/internal/cli"
)

// The size of a terminal that does not say its own.
const (
	usualRows = 24
	usualCols = 80
)

// sizeOf returns the rows and columns of a terminal.
func sizeOf(f *os.File) (rows, cols int) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Row == 0 || w.Col == 0 {
		return usualRows, usualCols
	}
	return int(w.Row), int(w.Col)
}

// told lays text out for whoever reads to: for a terminal in lines that it does
// not have to cut itself. What is no terminal has nothing cut, and cli.Inline
// leaves no blanks in it with which others' text could move to a line of ours.
func told(text string, to io.Writer) string {
	f, ok := to.(*os.File)
	if !ok || !cli.IsTerminal(f) {
		return text
	}
	_, cols := sizeOf(f)
	return strings.Join(wrapped(text, cols-1), "\n") + "\n"
}

// contMark begins what goes on from the line above, so that no text of others'
// can pass for a line of ours.
const contMark = "      | "

// wrapped cuts text into lines that a terminal of so many columns shows as they
// are, after a space where there is one near the end. Characters beyond ASCII
// may take two columns. Each line was made safe by whoever wrote it; one that
// was not is quoted.
func wrapped(text string, cols int) []string {
	var out []string
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		line = cli.Safe(strings.TrimRight(line, " "))
		mark := ""
		for {
			n := fitting(line, cols-len(mark))
			out = append(out, mark+line[:n])
			if line = line[n:]; line == "" {
				break
			}
			mark = contMark
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
