package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/daemon"
	"gated/internal/op"
)

// root returns the whole command tree.
func (t *tool) root() *cobra.Command {
	root := t.Root(cli.Words(help["gated"]),
		t.initCommand(), t.serveCommand(), t.statusCommand(), t.opsCommand(),
		t.submitCommand(), t.jobsCommand(), t.cancelCommand(), t.guestsCommand(), t.commandsCommand(), t.classifyCommand(),
		t.planCommand(), t.applyCommand(), t.eventsCommand(), t.auditCommand(), t.trustCommand(),
		t.agentCommand(), t.reserveCommand(), t.checkCommand(), t.renewCommand(), t.releaseCommand(), t.transferCommand(),
		t.reservationsCommand(), t.releaseAllCommand(), t.forceTransferCommand(), t.hookCommand(), t.doctorCommand(),
		t.canaryCommand(), t.fsckCommand(), t.backupCommand(), t.restoreCommand(), t.timeCommand(), t.hubCommand(), t.dialCommand(),
	)
	root.Version = daemon.Version()
	return root
}

// stateOf adds --state to a command about a state directory that is there.
func (t *tool) stateOf(c *cobra.Command, to *string) {
	stateFlag(c, to)
	run := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		if *to == "" {
			err = t.elsewhere(err, stateDir(""))
		}
		return err
	}
}

// elsewhere adds, where no state directory was named and the default one has no
// gate, that there is a gate whose state is somewhere else.
func (t *tool) elsewhere(err error, dir string) error {
	r := (*op.Refusal)(nil)
	if !errors.As(err, &r) || r.Code != op.UnknownTarget || hasDatabase(dir) {
		return err
	}
	o, where := t.Where()
	if where != nil {
		return err
	}
	for _, path := range o.Paths() {
		if info, statErr := os.Stat(path); statErr == nil && info.Mode().Type() == fs.ModeSocket {
			return r.WithHint(wordsElsewhere, op.Shown(path), r.Hint)
		}
	}
	return err
}

// hasDatabase reports whether a state directory has a gate's database, as far as
// this user can see.
func hasDatabase(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "gated.db"))
	return !errors.Is(err, fs.ErrNotExist)
}

// stateFlag adds --state.
func stateFlag(c *cobra.Command, to *string) {
	c.Flags().StringVar(to, "state", "", flagState)
	_ = c.MarkFlagDirname("state") // the flag was just added
}
