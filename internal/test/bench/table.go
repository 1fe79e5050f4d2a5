package bench

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// row is one figure. The budget of a rate is a floor, every other budget a ceiling.
type row struct {
	what   string
	value  float64
	unit   unit
	budget float64 // 0: none
	beside string  // the text beside it: a limit, or another figure to compare with
}

// unit says how to write a value, and whether more is better.
type unit int

const (
	perSecond unit = iota
	milliseconds
	microseconds
	mebibytes
	kibibytes
	pieces
	times // how many times as fast as the other
	plain
)

func (u unit) text(v float64) string {
	switch u {
	case perSecond:
		return fmt.Sprintf("%.0f/s", v)
	case milliseconds:
		return fmt.Sprintf("%.2f ms", v)
	case microseconds:
		return fmt.Sprintf("%.0f µs", v)
	case kibibytes:
		return fmt.Sprintf("%.1f KiB", v)
	case pieces:
		return fmt.Sprintf("%.0f", v)
	case mebibytes:
		return fmt.Sprintf("%.1f MiB", v)
	default:
		return fmt.Sprintf("%.2f ×", v)
	}
}

// met is how far a budget is met: 1 and above is within it.
func (r row) met() float64 {
	if r.unit == perSecond || r.unit == times {
		return r.value / r.budget
	}
	return r.budget / r.value
}

type table struct{ rows []row }

func (t *table) add(r row) { t.rows = append(t.rows, r) }

// addf adds a figure. budget is 0 if the figure has none. The text beside it is that
// of fmt.Sprintf.
func (b *bench) addf(what string, value float64, u unit, budget float64, beside string, args ...any) {
	b.table.add(row{what, value, u, budget, fmt.Sprintf(beside, args...)})
}

// cells are a row's columns: what, figure, budget, ratio and the text beside it. A
// figure below its budget is marked.
func (r row) cells() []string {
	budget, ratio := "", ""
	if r.budget != 0 {
		budget, ratio = r.unit.text(r.budget), fmt.Sprintf("%.2f", r.met())
		switch {
		case r.met() < 1:
			ratio += " <"
		case r.met() > 100:
			ratio = "over 100"
		}
	}
	return []string{r.what, r.unit.text(r.value), budget, ratio, r.beside}
}

// print writes the table, as Markdown or in columns.
func (t *table) print(w io.Writer, markdown bool) error {
	fmt.Fprintf(w, "%d CPUs, %s, %s/%s; medians; ratio 1.00 and above is within the budget, < marks what is not\n\n",
		runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	lines := [][]string{{"what", "figure", "budget", "ratio", "beside it"}}
	if markdown {
		lines = append(lines, slices.Repeat([]string{"---"}, 5))
	}
	for _, r := range t.rows {
		lines = append(lines, r.cells())
	}
	if markdown {
		for _, l := range lines {
			if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(l, " | ")); err != nil {
				return err
			}
		}
		return nil
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range lines {
		fmt.Fprintln(tw, strings.Join(l, "\t"))
	}
	return tw.Flush()
}
