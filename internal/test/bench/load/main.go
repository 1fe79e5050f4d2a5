// Load prints how fast a gate is on this machine; make bench runs it. It takes
// the directory with the programs to measure. Started by itself as "load serve
// DIR GUESTS decide|run THRESHOLD PROFILE", it is the gate that it measures. Started
// as "load peer DIR", it is the plain server that reservations are compared with.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"gated/internal/test/bench"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if ok, err := bench.MaybeFlood(args); ok {
		return err
	}
	if len(args) == 2 && args[0] == "peer" {
		return bench.Peer(ctx, args[1])
	}
	if len(args) == 6 && args[0] == "serve" {
		guests, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		threshold, err := strconv.Atoi(args[4])
		if err != nil {
			return err
		}
		return bench.Serve(ctx, bench.Served{Dir: args[1], Guests: guests, Run: args[3] == "run", Threshold: threshold,
			Profile: args[5]})
	}
	o := bench.Options{Out: os.Stdout, Progress: os.Stderr}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.Programs, "bin", "bin", "the directory with gated and opsign")
	flags.StringVar(&o.Dir, "dir", "", "where to work, on the disk to be measured (default: the temporary directory)")
	flags.IntVar(&o.Rows, "rows", 0, "rows of the journal that a start is measured with, and the last of growth (default: 1,000,000)")
	flags.StringVar(&o.Only, "only", "", "measure one part (growth and fleet are measured only so): "+
		strings.Join(bench.Parts(), " "))
	flags.IntVar(&o.Days, "days", 0, "days of the simulated year (default: 365)")
	flags.IntVar(&o.PerDay, "per-day", 0, "decisions of a simulated day (default: 10,000)")
	flags.DurationVar(&o.After, "after", 0, "after which time the simulated year archives (default: 720h)")
	flags.BoolVar(&o.Small, "small", false, "check that every part runs to its end; the figures say nothing")
	flags.BoolVar(&o.Markdown, "markdown", false, "write the table as docs/benchmarks.md has it")
	flags.StringVar(&o.Profiles, "profiles", "", "write a CPU profile of every gate that is measured into this directory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if o.Self, err = os.Executable(); err != nil {
		return err
	}
	if o.Programs, err = filepath.Abs(o.Programs); err != nil {
		return err
	}
	return bench.Run(ctx, o)
}
