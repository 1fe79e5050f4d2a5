package main

import (
	"cmp"
	"context"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/checkout"
	"gated/internal/agents/hook"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// hookCommands are the hooks themselves and what puts them where they are run. Git and agents' products type the hooks, so
// that help does not show them.
func (t *tool) hookCommands() []*cobra.Command {
	run := append(t.gitHookCommands(), t.preToolUseCommand(), t.hookContextCommand())
	for _, c := range run {
		c.Hidden = true
	}
	return append(run, t.hookInstallCommand(), t.hookUninstallCommand(), t.hookStatusCommand())
}

func (t *tool) hookCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:     "hook",
		Short:   "Ask before a file is changed: hooks of agents and of git",
		Long:    "Git and agents' products run the hooks themselves: gated docs hooks.",
		Example: "  gated hook install",
	}, "say install, uninstall or status", t.hookCommands()...)
}

// hookFlags are those of every hook.
type hookFlags struct {
	onFailure string
	deadline  time.Duration
}

func (f *hookFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.onFailure, "on-failure", string(hook.Warn),
		"`warn` or block: what to do with a change that cannot be checked")
	c.Flags().DurationVar(&f.deadline, "deadline", hook.ToolDeadline,
		"how long to wait for the change to look at, and again for the daemon")
	_ = c.RegisterFlagCompletionFunc("on-failure", // the flag was just added
		cobra.FixedCompletions([]string{string(hook.Warn), string(hook.Block)}, cli.NoFiles))
}

func (f *hookFlags) check() error {
	switch {
	case f.onFailure != string(hook.Warn) && f.onFailure != string(hook.Block):
		return cli.Usage("--on-failure is neither warn nor block")
	case f.deadline <= 0 || f.deadline > hook.MaxDeadline:
		return cli.Usage("--deadline is not above 0 and at most 1m")
	}
	return nil
}

// guard returns what asks the daemon for the hook of that name. A daemon that
// the flags or the environment name wrongly is one that cannot be asked: who
// runs the hook is told as they chose to be.
func (t *tool) guard(name string, f hookFlags) hook.Guard {
	g := hook.Guard{Hook: name, OnFailure: hook.OnFailure(f.onFailure), Deadline: f.deadline, Now: time.Now,
		Home: t.hookHome()}
	cl, err := t.Client()
	if err != nil {
		g.Check = func(context.Context, api.Check) (api.Checked, error) {
			return api.Checked{}, refusal.New(refusal.BadParams, "%v", err)
		}
		return g
	}
	g.Check = cl.Check // the process ends with the answer, and its connection with it
	return g
}

// steering asks the daemon for which commands of a shell it has operations.
func (t *tool) steering(ctx context.Context) (api.Steering, error) {
	cl, err := t.Client()
	if err != nil {
		return api.Steering{}, refusal.New(refusal.BadParams, "%v", err)
	}
	return cl.Steering(ctx) // the process ends with the answer, and its connection with it
}

// hookHome returns where hooks leave what the next one has to know of the gate
// that the flags and the environment name.
func (t *tool) hookHome() hook.Home { return t.hookHomeOf(t.Socket) }

func (t *tool) hookHomeOf(socket string) hook.Home {
	paths := client.Options{Socket: socket, Getenv: t.Getenv}.Paths()
	gate := make([]string, len(paths))
	for i, path := range paths {
		gate[i] = path
		if abs, err := filepath.Abs(path); err == nil {
			gate[i] = abs
		}
	}
	return hook.HomeOf(t.Getenv, strings.Join(gate, " or ")).Watching(paths...)
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
	c := t.Command(cli.Words{
		Use:     "status",
		Short:   "Say which hooks are installed here, how often hooks could not check, and why",
		Example: "  gated hook status",
	}, cobra.NoArgs, func(*cobra.Command, []string) error {
		if lines < 1 {
			return cli.Usage(wordsLinesPositive)
		}
		top, err := checkout.Top(".")
		if err != nil {
			return cli.Usage(err.Error())
		}
		s := hookStatus{Status: t.hookHome().Status(time.Now(), lines), Installed: installedHooks(top.Path, t.Getenv)}
		if t.JSON {
			return t.Emit(s)
		}
		return t.showHooks(s)
	})
	c.Flags().IntVarP(&lines, "lines", "n", 10, "how many of the last failures")
	return c
}

// hookStatus is the answer of gated hook status.
type hookStatus struct {
	hook.Status
	Installed []installedHook `json:"installed"` // in the checkout and in the user's home
}

// installedHook is a hook in the settings of a product.
type installedHook struct {
	Product string `json:"product"`
	File    string `json:"file"`
	Dialect string `json:"dialect"` // that the entry names
	Entry   string `json:"entry"`
	Steers  bool   `json:"steers"` // it names the gate's operation in the place of a shell's command
	Fault   string `json:"fault"`  // why it does not work, or why the file cannot be read; empty if nothing is known
	context bool   // it is gated hook context, which has nothing to steer
}

func installedHooks(top string, getenv func(string) string) []installedHook {
	out := []installedHook{}
	var files []hook.FileState
	for _, s := range hook.SettingsThatCount(top, getenv) {
		state, err := s.State()
		if err != nil {
			out = append(out, installedHook{Product: s.For.Product(), File: s.Path, Fault: err.Error()})
			continue
		}
		files = append(files, hook.FileState{Settings: s, SettingsState: state})
	}
	for _, f := range files {
		at := installedHook{Product: f.For.Product(), File: f.Path}
		off := ""
		if path, member := hook.SwitchedOff(f.For, files); member != "" {
			off = path + " has " + member
		}
		for _, h := range f.Hooks {
			at.Dialect, at.Entry, at.Fault = h.Setup.Dialect().Name(), h.Command, cmp.Or(off, h.Lame)
			at.Steers = h.Setup.Steers()
			out = append(out, at)
		}
		for _, line := range f.Contexts {
			at.Dialect, at.Entry, at.Fault = f.Dialect().Name(), line, off
			at.Steers, at.context = false, true
			out = append(out, at)
		}
	}
	return out
}

func (t *tool) showHooks(s hookStatus) error {
	var installed []string
	for _, h := range s.Installed {
		fault := h.Fault
		if fault != "" {
			fault = "BAD: " + op.Shown(fault)
		}
		steers := map[bool]string{true: "steering on", false: "steering off"}[h.Steers]
		if h.context {
			steers = ""
		}
		installed = append(installed, cli.Row(h.Product, op.Shown(h.File), h.Dialect, op.Shown(h.Entry), steers, fault))
	}
	if err := t.Table(installed...); err != nil {
		return err
	}
	t.Print("%d changes could not be checked; written down in %s\n", s.Failures, op.Shown(s.Dir))
	if s.Until != nil {
		t.Print("the daemon did not answer several times: it is not asked before %s\n", cli.Moment(*s.Until))
	}
	var rows []string
	for _, r := range s.Last {
		rows = append(rows, cli.Row(cli.Moment(r.Time), r.Hook, string(r.Kind), hookThen(r.Then), r.Detail))
	}
	return t.Table(rows...)
}

// hookThen says what became of a change that could not be checked.
func hookThen(o hook.OnFailure) string {
	if o == hook.Block {
		return "refused"
	}
	return "went on"
}

// preToolUseCommand returns the hook that an agent's harness runs before each
// tool call.
func (t *tool) preToolUseCommand() *cobra.Command {
	var f hookFlags
	var exitCode, steers bool
	var speaks string
	c := t.Command(cli.Words{
		Use:   "pre-tool-use",
		Short: "Refuse a tool call that changes what another agent has reserved",
		Long: `Reads one tool call as JSON on standard input, in the form of the product that --for names. If the call is an
edit or a patch of a file that another agent has reserved, it writes a refusal in that product's form. Every other call
gets no decision, so the agent's permissions decide. If it cannot check a call, it warns and lets it through, or refuses
it with --on-failure block. With --steer it also refuses a shell's command for which the gate has an operation, with the
line to type instead. That is steering, not a wall.`,
		Example: "  gated hook pre-tool-use --on-failure block < call.json\n" +
			"  gated hook pre-tool-use --for codex < call.json",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		d, err := hook.DialectOf(speaks)
		if err != nil {
			return cli.Usage(err.Error())
		}
		name := "pre-tool-use"
		if speaks != (hook.Claude{}).Name() {
			name += " --for " + d.Name()
		}
		h := hook.ToolHook{Guard: t.guard(name, f), For: d, ExitCode: exitCode}
		if steers {
			h.Steering, h.UserHome = t.steering, t.Getenv("HOME")
		}
		return t.end(h.Run(c.Context(), t.stdin))
	})
	f.add(c)
	c.Flags().BoolVar(&exitCode, "exit-code", false, flagExitCode)
	c.Flags().BoolVar(&steers, "steer", false, flagSteer)
	addCaller(c, &speaks)
	return c
}

// addCaller adds the flag --for to a hook that a product runs.
func addCaller(c *cobra.Command, product *string) {
	names := hook.DialectNames()
	c.Flags().StringVar(product, "for", hook.Claude{}.Name(), "the agent `PRODUCT` that calls: "+strings.Join(names, ", "))
	_ = c.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(names, cli.NoFiles)) // the flag was just added
}

// gitHookCommands are the hooks that git runs.
func (t *tool) gitHookCommands() []*cobra.Command {
	return []*cobra.Command{t.preCommitCommand(), t.prePushCommand()}
}

func (t *tool) preCommitCommand() *cobra.Command {
	return t.gitHookCommand("pre-commit", cli.Words{
		Use:   "pre-commit",
		Short: "Refuse a commit that changes what another agent has reserved",
		Long: `Git runs it before a commit. It exits 1 if another agent has reserved a path that the index changes. Both
sides of a rename, deleted files and submodules count. If it cannot check a change, it warns and lets it through, or
refuses it with --on-failure block.`,
		Example: "  gated hook pre-commit",
	}, cobra.NoArgs, func(c *cobra.Command, h hook.GitHook, _ []string) hook.Outcome {
		return h.Commit(c.Context())
	})
}

func (t *tool) prePushCommand() *cobra.Command {
	return t.gitHookCommand("pre-push", cli.Words{
		Use:   "pre-push REMOTE URL",
		Short: "Refuse a push that changes what another agent has reserved",
		Long: `Git runs it before a push and writes the refs to its standard input. It looks at each path that a commit
changes which the remote does not have yet, or that a forced push takes back. It exits 1 if another agent has reserved
one.`,
		Example: "  gated hook pre-push origin git@example.com:a.git < refs",
	}, cobra.ExactArgs(2), func(c *cobra.Command, h hook.GitHook, args []string) hook.Outcome {
		return h.Push(c.Context(), args[0], t.stdin)
	})
}

func (t *tool) gitHookCommand(name string, w cli.Words, args cobra.PositionalArgs, run func(*cobra.Command, hook.GitHook, []string) hook.Outcome) *cobra.Command {
	var f hookFlags
	c := t.Command(w, args, func(c *cobra.Command, args []string) error {
		if err := f.check(); err != nil {
			return err
		}
		return t.end(run(c, hook.GitHook{Guard: t.guard(name, f)}, args))
	})
	f.add(c)
	f.deadline = hook.GitDeadline
	c.Flags().Lookup("deadline").DefValue = hook.GitDeadline.String() // the flag was just added
	return c
}
