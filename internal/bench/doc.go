// Package bench measures what design section 10 has budgets for, each figure
// beside the limit that the machine sets in the same run and beside a script
// that does the same job with ssh-keygen. docs/benchmarks.md says how to read
// what it prints.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Options says what to measure and with what.
type Options struct {
	Programs string    // the directory that has gated and opsign
	Self     string    // this program, which serves when its first argument is "serve"
	Dir      string    // where to work; on the disk that is to be measured
	Out      io.Writer // the table
	Progress io.Writer // what is being measured
	Rows     int       // of the journal that a start is measured with
	Only     string    // the one part to measure; empty for all
	Profiles string    // a directory for a CPU profile of every gate; empty for none
}

// bench is one run.
type bench struct {
	Options
	ctx   context.Context
	keys  keys
	table table
	limit limits
}

// parts are measured in this order; the first ones are what the others are
// compared with.
var parts = []struct {
	name string
	run  func(*bench) error
}{
	{"limits", (*bench).limits},
	{"script", (*bench).script},
	{"signed", (*bench).signed},
	{"signers", (*bench).signers},
	{"benign", (*bench).benign},
	{"reconcile", (*bench).reconcile},
	{"changed", (*bench).changed},
	{"start", (*bench).start},
	{"verify", (*bench).verify},
	{"audit", (*bench).auditLog},
	{"memory", (*bench).memory},
	{"floods", (*bench).floods},
	{"reservations", (*bench).reservations},
	{"killed", (*bench).killed},
	{"hook", (*bench).hook},
}

// Run measures and prints. A part that fails does not keep the others from being
// measured; its error is returned after the table is printed. Whatever it starts has
// ended when it returns.
func Run(ctx context.Context, o Options) error {
	b := &bench{Options: o, ctx: ctx, keys: newKeys()}
	var failed, err error
	if b.Dir, err = os.MkdirTemp(o.Dir, "gated-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.Dir)
	for _, p := range parts {
		if o.Only != "" && o.Only != p.name && p.name != "limits" {
			continue
		}
		fmt.Fprintf(o.Progress, "measuring: %s\n", p.name)
		if err := p.run(b); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", p.name, err))
			if ctx.Err() != nil || p.name == "limits" { // which all others are compared with
				break
			}
		}
	}
	return errors.Join(failed, b.table.print(o.Out))
}

// dir makes a directory of that name to work in.
func (b *bench) dir(name string) (string, error) {
	path := filepath.Join(b.Dir, name)
	return path, os.Mkdir(path, 0o700)
}
