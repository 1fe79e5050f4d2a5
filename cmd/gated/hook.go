package main

import (
	"context"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/hook"
	"gated/internal/op"
)

// hookCommands are the hooks themselves and what puts them where they are run.
func (t *tool) hookCommands() []*cobra.Command {
	return append(t.gitHookCommands(), t.preToolUseCommand(), t.hookInstallCommand(), t.hookUninstallCommand(), t.hookStatusCommand())
}

func (t *tool) hookCommand() *cobra.Command {
	return t.Group(cli.Words(help["hook"]), wordsNoHookCommand, t.hookCommands()...)
}

// hookFlags are those of every hook.
type hookFlags struct {
	onFailure string
	deadline  time.Duration
}

func (f *hookFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.onFailure, "on-failure", string(hook.Warn), flagOnFailure)
	c.Flags().DurationVar(&f.deadline, "deadline", hook.ToolDeadline, flagDeadline)
	_ = c.RegisterFlagCompletionFunc("on-failure", // the flag was just added
		cobra.FixedCompletions([]string{string(hook.Warn), string(hook.Block)}, cli.NoFiles))
}

func (f *hookFlags) check() error {
	switch {
	case f.onFailure != string(hook.Warn) && f.onFailure != string(hook.Block):
		return cli.Usage(wordsOnFailure)
	case f.deadline <= 0 || f.deadline > hook.MaxDeadline:
		return cli.Usage(wordsDeadline)
	}
	return nil
}

// guard returns what asks the daemon for the hook of that name. A daemon that
// the flags or the environment name wrongly is one that cannot be asked: who
// runs the hook is told as they chose to be.
func (t *tool) guard(name string, f hookFlags) hook.Guard {
	g := hook.Guard{Hook: name, OnFailure: hook.OnFailure(f.onFailure), Deadline: f.deadline, Now: time.Now, Home: t.hookHome()}
	cl, err := t.Client()
	if err != nil {
		g.Check = func(context.Context, api.Check) (api.Checked, error) {
			return api.Checked{}, op.Refuse(op.BadParams, "%v", err)
		}
		return g
	}
	g.Check = cl.Check // the process ends with the answer, and its connection with it
	return g
}

// hookHome returns where hooks leave what the next one has to know of the gate
// that the flags and the environment name.
func (t *tool) hookHome() hook.Home { return t.hookHomeOf(t.Socket) }

func (t *tool) hookHomeOf(socket string) hook.Home {
	gate := socket
	if gate == "" {
		gate = t.Getenv("GATED_SOCKET")
	}
	if gate == "" {
		gate = client.SystemSocket + " or below " + t.Getenv("XDG_RUNTIME_DIR")
	} else if abs, err := filepath.Abs(gate); err == nil {
		gate = abs
	}
	return hook.HomeOf(t.Getenv, gate).Watching(client.Options{Socket: socket, Getenv: t.Getenv}.Paths()...)
}

// end ends a hook. A refusal that cannot be written is said by the exit code,
// which every harness and git take for one.
func (t *tool) end(o hook.Outcome) error {
	_, _ = io.WriteString(t.Stderr, o.Stderr) // nobody is left to tell
	if _, err := io.WriteString(t.Stdout, o.Stdout); err != nil {
		return cli.Ended(api.ExitUsage)
	}
	return cli.Ended(o.Code)
}

func (t *tool) hookStatusCommand() *cobra.Command {
	var lines int
	c := t.command("hook status", cobra.NoArgs, func(*cobra.Command, []string) error {
		if lines < 1 {
			return cli.Usage(wordsLinesPositive)
		}
		s := t.hookHome().Status(time.Now(), lines)
		if t.JSON {
			return t.Emit(s)
		}
		return t.showHooks(s)
	})
	c.Flags().IntVarP(&lines, "lines", "n", 10, flagHookLines)
	return c
}

func (t *tool) showHooks(s hook.Status) error {
	t.Print(wordsHookFailures, s.Failures, op.Shown(s.Dir))
	if s.Until != nil {
		t.Print(wordsHookOpen, cli.Moment(*s.Until))
	}
	var rows []string
	for _, r := range s.Last {
		rows = append(rows, cli.Row(cli.Moment(r.Time), r.Hook, string(r.Kind), hookThen(r.Then), r.Detail))
	}
	return t.Table(rows...)
}
