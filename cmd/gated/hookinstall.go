package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gated/internal/agents/checkout"
	"gated/internal/agents/hook"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// hookPlaces says where hooks are installed or taken out.
type hookPlaces struct {
	git, shared, dryRun bool
	settings            string
	products            products
	found               []hook.Dialect  // the products
	files               []hook.Settings // of agents
	top                 string
}

func (p *hookPlaces) add(c *cobra.Command) {
	c.Flags().BoolVar(&p.git, "git", false, "git's hooks pre-commit and pre-push, too")
	c.Flags().BoolVar(&p.shared, "shared-hooks", false,
		"also where git's hooks are in a directory that serves other repositories")
	c.Flags().StringVar(&p.settings, "agent-settings", "",
		"the `FILE` with the agent's settings, '' for none (default .claude/settings.json of the checkout)")
	_ = c.MarkFlagFilename("agent-settings", "json") // the flag was just added
	p.products.add(c, hook.Claude{}.Name())
	c.Flags().BoolVar(&p.dryRun, "dry-run", false, "change nothing, say what would be changed")
}

// find fills in what was not said. An --agent-settings that is there and empty
// is the wish for none.
func (p *hookPlaces) find(c *cobra.Command, getenv func(string) string) error {
	top, err := checkout.Top(".")
	if err != nil {
		return cli.Usage(err.Error())
	}
	p.top = top.Path
	products, err := p.products.find(p.top, getenv)
	if err != nil {
		return err
	}
	p.found = products
	switch {
	case !c.Flags().Changed("agent-settings"):
		for _, d := range products {
			p.files = append(p.files, hook.SettingsFor(d, p.top))
		}
	case len(products) != 1:
		return cli.Usage("--agent-settings is the file of one product: name it with one --for")
	case p.settings != "":
		if p.settings, err = filepath.Abs(p.settings); err != nil {
			return cli.Usage(err.Error())
		}
		p.files = []hook.Settings{{Path: p.settings, For: products[0]}}
	case !p.git:
		return cli.Usage("there is nothing to do: say --git, or name the agent's settings")
	}
	return nil
}

// each calls agents for the agent's settings and git for git's hooks, as far as
// they are wanted. Nothing is changed before it is known that both would do.
func (p hookPlaces) each(agents func(hook.Settings) (hook.Report, error), git func(dryRun bool) (hook.Report, error)) (hook.Report, error) {
	once := func(dryRun bool) (out hook.Report, err error) {
		out = hook.Report{Changes: []hook.Change{}, Notes: []string{}}
		var r hook.Report
		for _, file := range p.files {
			file.DryRun = dryRun
			if r, err = agents(file); err != nil {
				return out, butOthers(err, file.Dialect(), p.found)
			}
			out = out.And(r)
		}
		if p.git {
			if r, err = git(dryRun); err != nil {
				return out, err
			}
			out = out.And(r)
		}
		return out, nil
	}
	out, err := once(true)
	if err == nil && !p.dryRun {
		out, err = once(false)
	}
	var nowhere *hook.NoWorkTree
	if errors.As(err, &nowhere) {
		err = cli.Usage(err.Error())
	}
	return out, err
}

const flagSteer = "refuse a shell's command for which the gate has an operation, with the line to type: steering, not a wall"

const flagExitCode = "refuse with exit code 2 and the reason on standard error, instead of JSON"

func (t *tool) hookInstallCommand() *cobra.Command {
	var f hookFlags
	var p hookPlaces
	var exitCode, context, steers bool
	c := t.Command(cli.Words{
		Use:   "install",
		Short: "Have agents and git ask before a file is changed",
		Long: `Adds gated hook pre-tool-use to the settings of an agent product in the checkout: of Claude Code
(.claude/settings.json), or of the products that --for names. --agent-settings names another file of one product, and
--agent-settings '' leaves the settings alone. With --git, git asks before commits and pushes too; a git hook that was
there still runs. All other settings stay as they are, and a copy of the old file is kept. An entry is the same line
after an upgrade.`,
		Example: "  gated hook install --git\n" +
			"  gated hook install --for codex --for gemini --context\n" +
			"  gated hook install --agent-settings .claude/settings.local.json --on-failure block",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return err
		}
		if err := p.find(c, t.Getenv); err != nil {
			return err
		}
		o, err := t.gitOptions(c, p, f)
		if err != nil {
			return err
		}
		wish := hook.Setup{OnFailure: o.OnFailure, Deadline: o.Deadline, Socket: o.Socket}
		if c.Flags().Changed("exit-code") {
			wish.ExitCode = &exitCode
		}
		if c.Flags().Changed("steer") {
			wish.Steer = &steers
		}
		if c.Flags().Changed("context") {
			wish.Context = &context
		}
		r, err := p.each(
			func(s hook.Settings) (hook.Report, error) { return s.Install(o.Program, wish) },
			func(dryRun bool) (hook.Report, error) { return installGit(c.Context(), p.top, o, dryRun) })
		if err != nil {
			return err
		}
		return t.showReport(r, p.dryRun)
	})
	f.add(c)
	for _, name := range []string{"on-failure", "deadline"} {
		flag := c.Flags().Lookup(name) // it was just added
		flag.DefValue, flag.Usage = "", flag.Usage+" (default: as it is installed, else as the hook's)"
	}
	p.add(c)
	c.Flags().BoolVar(&exitCode, "exit-code", false, flagExitCode)
	c.Flags().BoolVar(&steers, "steer", false, flagSteer+"; --steer=false ends that (default: as it is installed)")
	c.Flags().BoolVar(&context, "context", false,
		"also gated hook context, where the product has such a hook; --context=false removes it (default: as it is installed)")
	return c
}

func (t *tool) hookUninstallCommand() *cobra.Command {
	var p hookPlaces
	c := t.Command(cli.Words{
		Use:     "uninstall",
		Short:   "Remove what hook install added",
		Long:    "The hooks that were there before come back. Without --for it removes those of Claude Code.",
		Example: "  gated hook uninstall --git --for auto",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if err := p.find(c, t.Getenv); err != nil {
			return err
		}
		r, err := p.each(hook.Settings.Uninstall, func(dryRun bool) (hook.Report, error) {
			return hook.UninstallGit(c.Context(), p.top, hook.GitOptions{Shared: p.shared, DryRun: dryRun})
		})
		if err != nil {
			return err
		}
		return t.showReport(r, p.dryRun)
	})
	p.add(c)
	return c
}

func installGit(ctx context.Context, top string, o hook.GitOptions, dryRun bool) (hook.Report, error) {
	o.DryRun = dryRun
	return hook.InstallGit(ctx, top, o)
}

// gitOptions returns what the hooks are to be called with: this program, and
// what was said of where the daemon is and of what becomes of a failure. What was
// not said stays as it is installed.
func (t *tool) gitOptions(c *cobra.Command, p hookPlaces, f hookFlags) (hook.GitOptions, error) {
	o := hook.GitOptions{Shared: p.shared}
	if c.Flags().Changed("on-failure") {
		o.OnFailure = hook.OnFailure(f.onFailure)
	}
	if c.Flags().Changed("deadline") {
		o.Deadline = f.deadline
	}
	where, err := t.Where()
	if err != nil {
		return o, err
	}
	if where.Socket != "" {
		if o.Socket, err = filepath.Abs(where.Socket); err != nil {
			return o, cli.Usage(err.Error())
		}
	}
	if o.Program, err = os.Executable(); err != nil {
		return o, fmt.Errorf("find this program: %w", err)
	}
	return o, nil
}

func (t *tool) showReport(r hook.Report, dryRun bool) error {
	if t.JSON {
		return t.Emit(r)
	}
	for _, c := range r.Changes {
		text := "%s: %s\n"
		if dryRun && c.Action != hook.Unchanged {
			text = "%s: would be %s\n"
		}
		t.Print(text, op.Shown(c.Path), string(c.Action))
		for _, d := range c.Differs {
			t.Print("  %s\n", d)
		}
		if c.Backup != "" {
			t.Print("  what was there: %s\n", op.Shown(c.Backup))
		}
	}
	for _, note := range r.Notes {
		t.Say("note: %s\n", note)
	}
	return nil
}
