package cli

import (
	"strings"
)

const (
	minCell = 6  // how narrow a cell becomes at least
	spared  = 24 // how much wider the first cell may stay: it has the name or the id
)

// Fit lays out rows (see Row) in columns as Columns does, in lines of at most cols
// columns; 0 is no limit. Where a line would be longer, its widest cells are cut, and
// end with an ellipsis. Callers show the whole text
// elsewhere: with --json, and in the command that shows one.
func Fit(cols int, ellipsis string, rows ...string) string {
	if cols == 0 {
		return Columns(rows...)
	}
	cells := make([][]string, len(rows))
	var widths []int
	for i, r := range rows {
		cells[i] = strings.Split(r, "\t")
		for j, c := range cells[i] {
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], widthOf(c))
		}
	}
	narrow(widths, cols-gap*(len(widths)-1))
	var b strings.Builder
	for _, row := range cells {
		line := ""
		for j, c := range row {
			c = cut(c, widths[j], ellipsis)
			line += c + strings.Repeat(" ", max(widths[j]-widthOf(c), 0)+gap)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// narrow takes columns from the widest cells until all of them fit into a line. The
// first is spared while it is not much wider than the others.
func narrow(widths []int, room int) {
	for sum := 0; ; sum = 0 {
		widest, most := 0, 0
		for i, w := range widths {
			sum += w
			if i == 0 {
				w -= spared
			}
			if w > most {
				widest, most = i, w
			}
		}
		if sum <= room || most <= minCell {
			return // it fits, or the screen is narrower than any table
		}
		widths[widest]--
	}
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
