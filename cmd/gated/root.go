package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"gated/internal/agents/agent"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/daemon"
	"gated/internal/wire/cli"
)

// root returns the whole command tree.
func (t *tool) root() *cobra.Command {
	root := t.Root(cli.Words{
		Use:   "gated",
		Short: "Nothing destructive happens to this host's guests unless an operator signed exactly that",
		Long: `gated stands in front of every change to a host's guests. Benign steps run at once. A destructive step waits,
and runs only after an operator signed that exact step with an SSH key (see opsign).

Exit codes: 0 done, 1 refused or conflict, 2 usage, 3 waits for a signature, 4 the daemon cannot be reached, 5
internal. The daemon's socket is --socket, else GATED_SOCKET, else the first that exists of
$XDG_RUNTIME_DIR/gated/gated.sock and /run/gated/gated.sock.`,
		Example: "  gated status\n" +
			"  gated submit guest.start web-1 --wait",
	},
		t.initCommand(), t.serveCommand(), t.statusCommand(), t.opsCommand(),
		t.submitCommand(), t.jobsCommand(), t.cancelCommand(), t.guestsCommand(), t.commandsCommand(), t.classifyCommand(),
		t.planCommand(), t.applyCommand(), t.eventsCommand(), t.auditCommand(), t.trustCommand(),
		t.agentCommand(), t.reserveCommand(), t.checkCommand(), t.renewCommand(), t.releaseCommand(), t.transferCommand(),
		t.reservationsCommand(), t.releaseAllCommand(), t.forceTransferCommand(), t.hookCommand(), t.doctorCommand(),
		t.canaryCommand(), t.fsckCommand(), t.backupCommand(), t.restoreCommand(), t.timeCommand(), t.hubCommand(),
		t.dialCommand(),
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
	r := (*refusal.Refusal)(nil)
	if !errors.As(err, &r) || r.Code != refusal.UnknownTarget || hasDatabase(dir) {
		return err
	}
	o, where := t.Where()
	if where != nil {
		return err
	}
	for _, path := range o.Paths() {
		if info, statErr := os.Stat(path); statErr == nil && info.Mode().Type() == fs.ModeSocket {
			return r.WithHint(
				"a gate answers at %s: name the directory of its state with --state DIR, as its gated serve has it\n%s",
				op.Shown(path), r.Hint)
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
	c.Flags().StringVar(to, "state", "", "the state `DIR` (default /var/lib/gated for root, else $XDG_STATE_HOME/gated)")
	_ = c.MarkFlagDirname("state") // the flag was just added
}

// hinted adds to a refusal that does not say itself what to do the words for that
// of this command: those of its code alone are about signing. With codes, to one of
// these.
func hinted(err error, hint string, codes ...refusal.Code) error {
	r := (*refusal.Refusal)(nil)
	if !errors.As(err, &r) || r.Hint != "" || len(codes) > 0 && !slices.Contains(codes, r.Code) {
		return err
	}
	return r.WithHint("%s", hint)
}

// tool is one run of the command line.
type tool struct {
	cli.Tool
	stdin io.Reader
}

// run runs a command line and returns its exit code.
func (t *tool) run(ctx context.Context, args []string) int { return t.Run(ctx, t.root(), args) }

// readToken reads the file of GATED_AGENT_TOKEN_FILE. One that cannot be read is
// a usage error, as any file that a command line names.
func readToken(path string) (string, error) {
	token, err := agent.ReadTokenFile(path)
	return token, unlessRefused(err)
}
