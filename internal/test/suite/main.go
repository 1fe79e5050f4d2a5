package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

func main() {
	if slices.Equal(os.Args[1:], []string{asGuard}) {
		guard()
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(2)
	}
	if !passed {
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	log    string
	strict bool
	memory bool
	plain  bool          // show all, and look once
	script bool          // what is run is a command and no go test
	with   int           // the pid of the process with which the run ends
	stuck  time.Duration // how long nothing may happen in a package
	flags  []string      // go test's
	pkgs   []string      // or the words of the command
}

func commandLine(args []string) (options, error) {
	var o options
	own := flag.NewFlagSet("suite", flag.ContinueOnError)
	own.SetOutput(io.Discard)
	own.StringVar(&o.log, "log", "", "")
	own.BoolVar(&o.strict, "strict", false, "")
	own.BoolVar(&o.memory, "memory", false, "")
	own.BoolVar(&o.plain, "plain", false, "")
	own.BoolVar(&o.script, "script", false, "")
	own.IntVar(&o.with, "with", 0, "")
	own.DurationVar(&o.stuck, "stuck", 15*time.Minute, "")
	if err := own.Parse(args); err != nil {
		return options{}, err
	}
	if o.script && own.NArg() > 0 {
		o.pkgs = own.Args()
		return o, nil
	}
	split := slices.Index(own.Args(), "--")
	if split < 0 || split == own.NArg()-1 {
		return options{}, errors.New("usage: suite -script [-with PID] -- COMMAND..., or suite [-log FILE] [-strict] [-memory] [-plain] [-with PID] [-stuck TIME] " +
			"-- FLAG... -- PACKAGE... (both dashes are needed)")
	}
	o.flags, o.pkgs = own.Args()[:split], own.Args()[split+1:]
	return o, nil
}

// run is the whole of it. It says whether all passed.
func run(ctx context.Context, args []string, out io.Writer) (bool, error) {
	o, err := commandLine(args)
	if err != nil {
		return false, err
	}
	ctx, end := with(ctx, o.with)
	defer end()
	if o.script {
		return script(ctx, o.pkgs)
	}
	file, err := openLog(o.log)
	if err != nil {
		return false, err
	}
	defer file.Close()
	fmt.Fprintln(out, "the whole log:", file.Name())
	log := &kept{to: file}
	defer func() {
		if log.err != nil {
			fmt.Fprintln(out, "the whole log has an end too early:", log.err)
		}
	}()

	var place func(*exec.Cmd)
	if o.memory {
		var why string
		if place, why = inMemory(); place == nil {
			fmt.Fprintln(out, "the tests have the /tmp of this machine:", why)
		}
	}
	first := newReader(log, out, o.stuck)
	first.plain = o.plain
	ended := goTest(ctx, first, place, slices.Concat(o.flags, o.pkgs))
	if ctx.Err() != nil {
		return false, errEnded
	}
	r := report{reader: first, strict: o.strict}
	r.other = first.unexplained(ended)
	switch why := noSecondLook(first.failures); {
	case o.plain:
	case why != "":
		fmt.Fprintln(out, why)
	default:
		for i, f := range first.failures {
			fmt.Fprintf(out, "a second look at %s\n", f.name())
			first.failures[i].unsteady = again(ctx, log, place, o, f)
		}
	}
	passed := r.print(out)
	log.end()
	return passed, nil
}

// kept is a log that remembers why it could not be written, such as a full disk. The tests go on without.
type kept struct {
	to  io.Writer
	err error
}

// Write implements io.Writer, and never fails.
func (k *kept) Write(b []byte) (int, error) {
	if _, err := k.to.Write(b); k.err == nil {
		k.err = err
	}
	return len(b), nil
}

// whole is the last line of a log that nothing cut off. scripts/reliability.sh asks for it.
const whole = "the log is whole"

// end writes the last line, if all before it was written. A disk that was full may have room again.
func (k *kept) end() {
	if k.err == nil {
		_, k.err = fmt.Fprintln(k.to, whole)
	}
}

func openLog(path string) (*os.File, error) {
	if path == "" {
		return os.CreateTemp("", "gated-test-*.log")
	}
	return os.Create(path)
}

// errEnded says that the parent ended, or that a signal came.
var errEnded = errors.New("it was ended")

// leaving is how long the tests have to clean up when the run is ended.
var leaving = 30 * time.Second

// goTest runs go test -json, whose lines r reads, in a place that may be nil. What go itself writes to standard error is
// read as lines too.
func goTest(ctx context.Context, r *reader, place func(*exec.Cmd), args []string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-json"}, args...)...)
	if place != nil {
		place(cmd)
	}
	cmd.Stdout, cmd.Stderr = r, r // one pipe, because both are the same
	r.signal = func(pkg string, sig syscall.Signal) { signalTests(cmd.Process.Pid, pkg, sig) }
	err := guarded(ctx, cmd)
	r.end()
	return err
}
