package main

import (
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/host/life"
	"gated/internal/wire/cli"
)

func (t *tool) configCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:     "config",
		Short:   "Check the daemon's settings",
		Example: "  gated config check",
	}, "say check", t.configCheckCommand())
}

func (t *tool) configCheckCommand() *cobra.Command {
	var dir string
	c := t.Command(cli.Words{
		Use:   "check [FILE]",
		Short: "Say whether the daemon would take its settings, before it has to",
		Long: `Reads FILE, else gated.yaml of the state directory, as gated serve does: the file, who could change it, and the
files and programs that it names. It changes nothing and asks no daemon. The refusal begins with FILE:LINE:COLUMN.
Exits 1 if the daemon would refuse the file. If root asks, it answers for the user that has the file's directory.`,
		Example: "  gated config check\n" +
			"  gated config check /var/lib/gated/gated.yaml",
	}, cobra.MaximumNArgs(1), func(c *cobra.Command, args []string) error {
		file := life.SettingsPath(stateDir(dir))
		if len(args) > 0 {
			file = args[0]
		}
		settings, err := life.CheckSettings(file)
		if err != nil {
			return unlessRefused(err)
		}
		return t.sayConfig(settings)
	})
	stateFlag(c, &dir)
	c.ValidArgsFunction = cli.CompleteFirst(func() ([]string, cobra.ShellCompDirective) {
		return []string{"yaml"}, cobra.ShellCompDirectiveFilterFileExt
	})
	return c
}

func (t *tool) sayConfig(r life.CheckedSettings) error {
	if t.JSON {
		return t.Emit(r)
	}
	for _, old := range r.OldWords {
		t.Say("note: %s\n", old)
	}
	t.Print("%s: the daemon would take it: host %s, guests in %s, %s, %s\n", op.Shown(r.File), op.Shown(r.Host),
		strings.Join(r.BackEnds, ", "), cli.Count(r.Rules, "rule"), cli.Count(r.Commands, "command"))
	return nil
}
