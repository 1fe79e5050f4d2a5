package cli

import (
	"cmp"
	"slices"
	"strings"
)

// A Column of a Table.
type Column struct {
	Head string
	// Rank says which columns give way on a narrow screen: those of the highest rank first. A column of rank 0 holds
	// what a reader types, and is never cut. One of rank 1 is cut and never left out, so that no long name of a
	// requester's can hide it.
	Rank int
	// Least is how narrow the column becomes at least; 0 is 12 columns.
	Least int
	// Once is set if a screen says only once, below the table, what all rows share. It begins that line.
	Once string
}

// least is how narrow a column becomes that does not say it.
const least = 12

// Table lays out rows, which have a cell for each column, in lines of at most cols columns of a screen; 0 is no limit.
// An empty cell is a dash. A screen leaves out a column of empty cells alone. If what must stay of a row is wider, each of its
// cells has a line of its own. Without a limit all columns stay, because
// programs count them. Callers show the whole text elsewhere: with --json, and in the command that shows one row.
func Table(cols int, ellipsis string, columns []Column, rows [][]string) string {
	t := table{columns: slices.Clone(columns), rows: make([][]string, len(rows))}
	for i, r := range rows {
		t.rows[i] = make([]string, len(columns))
		for j := range columns {
			t.rows[i][j] = Row(r[j])
		}
	}
	if cols == 0 {
		return strings.Join(t.lines(), "\n") + "\n"
	}
	t.leaveOut(func(j int) bool {
		return len(rows) > 0 && !slices.ContainsFunc(t.rows, func(r []string) bool { return r[j] != empty })
	})
	below := t.sayOnce()
	fits := table{columns: slices.Clone(t.columns)}
	for _, r := range t.rows {
		if !t.wide(r, cols) {
			fits.rows = append(fits.rows, slices.Clone(r))
		}
	}
	var lines []string
	if len(fits.rows) > 0 || len(t.rows) == 0 {
		room := fits.narrow(cols, ellipsis)
		lines = fits.lines()
		for i := range lines {
			if !room {
				lines[i] = strings.Join(Wrapped(lines[i], cols), "\n")
			}
		}
	}
	return t.mixed(lines, cols, ellipsis) + told(below, cols)
}

// table is a Table on its way: its cells are safe to print.
type table struct {
	columns []Column
	rows    [][]string
}

// leaveOut takes the columns away for which gone holds.
func (t *table) leaveOut(gone func(j int) bool) {
	for j := len(t.columns) - 1; j >= 0; j-- {
		if !gone(j) {
			continue
		}
		t.columns = slices.Delete(t.columns, j, j+1)
		for i := range t.rows {
			t.rows[i] = slices.Delete(t.rows[i], j, j+1)
		}
	}
}

// sayOnce takes the columns away in which all rows say the same, and returns the lines that say it.
func (t *table) sayOnce() string {
	text := ""
	same := func(j int) bool {
		return t.columns[j].Once != "" && len(t.rows) > 0 &&
			!slices.ContainsFunc(t.rows, func(r []string) bool { return r[j] != t.rows[0][j] })
	}
	for j, c := range t.columns {
		if same(j) {
			text += c.Once + ": " + t.rows[0][j] + "\n"
		}
	}
	t.leaveOut(same)
	return text
}

// wide reports whether what must stay of a row is wider than a line.
func (t *table) wide(row []string, cols int) bool {
	line := -gap
	for j, c := range t.columns {
		width := max(widthOf(c.Head), widthOf(row[j]))
		switch c.Rank {
		case 0:
			line += width + gap
		case 1:
			line += min(width, cmp.Or(c.Least, least)) + gap
		}
	}
	return line > cols
}

// narrow cuts cells until a line has room for each row, those of the highest rank first and of these the widest. Where that is
// not enough, it leaves the column of the highest rank out. It reports whether a line has room then.
func (t *table) narrow(cols int, ellipsis string) bool {
	for {
		widths, line := t.widths()
		over := line - cols
		order := t.order(widths)
		for _, j := range order {
			taken := min(max(widths[j]-cmp.Or(t.columns[j].Least, least), 0), max(over, 0))
			widths[j], over = widths[j]-taken, over-taken
		}
		if over <= 0 || len(order) == 0 || t.columns[order[0]].Rank == 1 {
			t.cut(widths, ellipsis)
			return over <= 0
		}
		t.leaveOut(func(j int) bool { return j == order[0] })
	}
}

// order returns the columns that may give way, the first of them first.
func (t *table) order(widths []int) []int {
	var order []int
	for j, c := range t.columns {
		if c.Rank > 0 {
			order = append(order, j)
		}
	}
	slices.SortStableFunc(order, func(x, y int) int {
		return cmp.Or(t.columns[y].Rank-t.columns[x].Rank, widths[y]-widths[x])
	})
	return order
}

// widths returns how wide each column is, and a line.
func (t *table) widths() (widths []int, line int) {
	for j, c := range t.columns {
		width := widthOf(c.Head)
		for _, r := range t.rows {
			width = max(width, widthOf(r[j]))
		}
		widths, line = append(widths, width), line+width+gap
	}
	return widths, line - gap
}

func (t *table) cut(widths []int, ellipsis string) {
	for j, width := range widths {
		t.columns[j].Head = cut(t.columns[j].Head, width, ellipsis)
		for _, r := range t.rows {
			r[j] = cut(r[j], width, ellipsis)
		}
	}
}

// mixed puts lines, of which the first has the heads, into the order of the rows. A wide row has no line: each cell that is not
// empty has one of its own. What a reader types is not cut there.
func (t *table) mixed(lines []string, cols int, ellipsis string) string {
	width := 0
	for _, c := range t.columns {
		width = max(width, widthOf(c.Head))
	}
	var b strings.Builder
	next := func() {
		if len(lines) > 0 {
			b.WriteString(lines[0] + "\n")
			lines = lines[1:]
		}
	}
	next()
	for _, row := range t.rows {
		if !t.wide(row, cols) {
			next()
			continue
		}
		b.WriteString(told(row[0]+"\n", cols))
		for j, cell := range row[1:] {
			c := t.columns[j+1]
			line := "  " + c.Head + strings.Repeat(" ", width-widthOf(c.Head)+gap) + cell
			if c.Rank > 0 {
				line = cut(line, cols, ellipsis)
			}
			if cell != empty {
				b.WriteString(told(line+"\n", cols))
			}
		}
	}
	return b.String()
}

// lines returns a line for the heads, and one for each row.
func (t *table) lines() []string {
	widths, _ := t.widths()
	heads := make([]string, len(t.columns))
	for j, c := range t.columns {
		heads[j] = c.Head
	}
	var lines []string
	for _, row := range append([][]string{heads}, t.rows...) {
		line := ""
		for j, cell := range row {
			line += cell + strings.Repeat(" ", widths[j]-widthOf(cell)+gap)
		}
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}
