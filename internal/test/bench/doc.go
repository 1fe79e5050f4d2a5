// Package bench measures the figures that design section 10 has budgets for. Each
// figure stands beside the limit that the machine sets in the same run, and beside
// a script that does the same job with ssh-keygen. docs/benchmarks.md explains the
// table that this package prints.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Options says what to measure and with what.
type Options struct {
	Programs string        // the directory with gated and opsign
	Self     string        // this program, which serves a gate if its first argument is "serve"
	Dir      string        // where to work, on the disk that is to be measured; "" for the temporary directory
	Out      io.Writer     // receives the table
	Progress io.Writer     // receives the name of each part as it begins, and its error if it fails
	Rows     int           // of the journal that a start is measured with, and the most of growth; 0 for the default
	Only     string        // the one part to measure; "" for all
	Profiles string        // a directory for a CPU profile of every gate; "" for none
	Markdown bool          // writes the table as docs/benchmarks.md has it
	Days     int           // of the simulated year; 0 for the default
	PerDay   int           // decisions of a simulated day; 0 for the default
	After    time.Duration // retention of the simulated year; 0 for the default
	Small    bool          // checks that every part runs to its end; the figures say nothing
}

// bench is one run.
type bench struct {
	Options
	ctx   context.Context
	size  sizes
	keys  keys
	table table
	limit limits
}

// part measures some figures and adds them to the table, each as soon as it has it.
type part struct {
	name    string
	figures int // rows of the table that the part adds at least
	run     func(*bench) error
	apart   bool // measured only if it is asked for by its name, or to check that it runs
}

// parts are measured in this order. The first two set what others are compared with.
var parts = []part{
	{"limits", 3, (*bench).limits, false},
	{"script", 1, (*bench).script, false},
	{"signed", 9, (*bench).signed, false}, // and one more after the script
	{"signers", 9, (*bench).signers, false},
	{"benign", 6, (*bench).benign, false},
	{"reconcile", 3, (*bench).reconcile, false},
	{"changed", 2, (*bench).changed, false},
	{"start", 1, (*bench).start, false},
	{"verify", 2, (*bench).verify, false},
	{"audit", 3, (*bench).auditLog, false},
	{"memory", 2, (*bench).memory, false},
	{"floods", 12, (*bench).floods, false},
	{"reservations", 5, (*bench).reservations, false},
	{"killed", 1, (*bench).killed, false},
	{"hook", 6, (*bench).hook, false},
	{"mcp", 2, (*bench).mcp, false},
	{"ledger", len(ledgerRows), (*bench).ledger, true},
	{"growth", 6, (*bench).growth, true},
	{"fleet", 7, (*bench).fleet, true},
	{"year", 10, (*bench).year, true},
	{"web", len(webRows), (*bench).web, false},
}

// Parts returns the names of the parts in the order in which they are measured.
func Parts() []string {
	names := make([]string, 0, len(parts))
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// Run measures and prints. If a part fails, the other parts are measured all the
// same: Run returns the errors of all parts after it has printed the table. A part
// whose figures are not all in the table has failed. All processes that Run started
// have ended when it returns.
func Run(ctx context.Context, o Options) (failed error) {
	began := now()
	b := &bench{Options: o, ctx: ctx, size: full, keys: newKeys()}
	if o.Small {
		b.size = small
	}
	if o.Rows > 0 {
		b.size.rows = o.Rows
	}
	var err error
	if b.Dir, err = os.MkdirTemp(o.Dir, "gated-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.Dir)
	known := o.Only == ""
	for _, p := range parts {
		known = known || p.name == o.Only
		if o.Only != "" && o.Only != p.name && p.name != "limits" || p.apart && o.Only != p.name && !o.Small {
			continue
		}
		if err := b.measure(p); err != nil {
			fmt.Fprintf(o.Progress, "failed: %v\n", err)
			failed = errors.Join(failed, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	if !known {
		failed = errors.Join(failed, fmt.Errorf("there is no part %q, but %s", o.Only, strings.Join(Parts(), " ")))
	}
	fmt.Fprintf(o.Progress, "all of it took %.0f s\n", now().Sub(began).Seconds())
	return errors.Join(failed, b.table.print(o.Out, o.Markdown))
}

// measure runs a part and checks that no figure of it is missing.
func (b *bench) measure(p part) error {
	fmt.Fprintf(b.Progress, "measuring: %s\n", p.name)
	before, began := len(b.table.rows), now()
	err := p.run(b)
	fmt.Fprintf(b.Progress, "  %s took %.0f s\n", p.name, now().Sub(began).Seconds())
	rows := b.table.rows[before:]
	if err == nil && len(rows) < p.figures {
		err = fmt.Errorf("%d of %d figures are missing", p.figures-len(rows), p.figures)
	}
	for _, r := range rows {
		if math.IsNaN(r.value) || math.IsInf(r.value, 0) || r.value < 0 {
			err = errors.Join(err, fmt.Errorf("the figure of %q is %v", r.what, r.value))
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// dir makes a directory of that name to work in.
func (b *bench) dir(name string) (string, error) {
	path := filepath.Join(b.Dir, name)
	return path, os.Mkdir(path, 0o700)
}
