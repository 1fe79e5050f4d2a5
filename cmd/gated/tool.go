package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/client"
)

// tool is one run of the command line. Answers go to stdout; what is said
// beside them (warnings, what to do next, refusals) goes to stderr. With --json
// stdout has JSON only, one document a line.
type tool struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string

	json    bool
	socket  string
	started bool // the command line was understood, a command runs
}

// run runs a command line and returns its exit code (protocol section 6).
func (t *tool) run(ctx context.Context, args []string) int {
	root := t.root()
	root.SetArgs(args)
	root.SetIn(t.stdin)
	root.SetOut(t.stdout)
	root.SetErr(t.stderr)
	c, err := root.ExecuteContextC(ctx)
	if err != nil && !t.started {
		err = usageError{err.Error()}
	}
	return t.fail(c.CommandPath(), err)
}

// usageError is a command line that was not understood.
type usageError struct{ text string }

func (u usageError) Error() string { return u.text }

// ExitCode is 2.
func (usageError) ExitCode() int { return api.ExitUsage }

// exit ends a command that has said everything with an exit code.
type exit int

func (exit) Error() string { return "" }

// ExitCode is the code itself.
func (e exit) ExitCode() int { return int(e) }

// ended returns the error for an exit code, nil for 0.
func ended(code int) error {
	if code == api.ExitDone {
		return nil
	}
	return exit(code)
}

// fail prints how the command of that path failed, and returns its exit code.
func (t *tool) fail(path string, err error) int {
	var silent exit
	switch {
	case err == nil:
		return api.ExitDone
	case errors.As(err, &silent):
		return silent.ExitCode()
	case errors.Is(err, context.Canceled):
		t.say("%s\n", wordsInterrupted)
		return api.ExitRefused
	}
	t.say("%s", explain(path, err))
	code := api.Exit(err)
	if t.json && code != api.ExitUsage {
		if err := t.emit(failureOf(err)); err != nil {
			t.say("%v\n", err)
		}
	}
	return code
}

// command returns a command with its words. Only what fails before run is
// called is a usage error, unless run returns one.
func (t *tool) command(path string, args cobra.PositionalArgs, run func(*cobra.Command, []string) error) *cobra.Command {
	w := help[path]
	return &cobra.Command{
		Use: w.use, Short: w.short, Long: w.long, Example: w.example, Args: args,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(c *cobra.Command, args []string) error {
			t.started = true
			return run(c, args)
		},
	}
}

// client returns a client of the daemon that the flags and the environment
// name.
func (t *tool) client() (*client.Client, error) {
	return client.New(client.Options{Socket: t.socket, Getenv: t.getenv})
}
