// Gated is the daemon that stands in front of every change to a host's guests,
// and the command line for those who ask for changes and watch them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/agent"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/version"
	"gated/internal/host/daemon"
	"gated/internal/wire/cli"
)

func main() {
	agent.MaybeOrphan()
	daemon.MaybeExecGuest()
	os.Exit(program())
}

// program runs the command line of this process and returns its exit code.
func program() int {
	t := &tool{Tool: cli.Tool{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, ReadToken: readToken},
		stdin: os.Stdin}
	if slices.Equal(os.Args[1:], []string{"--version"}) {
		return t.version()
	}
	ctx, stop := untilSignal()
	defer stop()
	return t.run(ctx, os.Args[1:])
}

// version answers --version alone, without the command tree.
func (t *tool) version() int {
	_, err := fmt.Fprintf(t.Stdout, "gated version %s\n", version.String())
	return t.Fail("gated", err)
}

// untilSignal returns a context that ends with the first signal to stop. By then
// a second one ends the process, which is as safe as a stop.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	came := make(chan os.Signal, 1)
	signal.Notify(came, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case <-came:
		case <-ctx.Done():
		}
		signal.Stop(came) // before anybody is told that the stop has begun
		cancel()
	}()
	return ctx, cancel
}

// root returns the command tree for a command line, see commands.
func (t *tool) root(args ...string) *cobra.Command {
	root := t.Root(cli.Words{
		Use:   "gated",
		Short: "Nothing destructive happens to this host's guests unless an operator signed exactly that",
		Long: `gated stands in front of every change to a host's guests. Benign steps run at once. A destructive step waits,
and runs only after an operator signed that exact step with an SSH key (see opsign).

Exit codes: 0 done, 1 refused or conflict, 2 usage, 3 waits for a signature, 4 the daemon cannot be reached, 5
internal. The daemon's socket is --socket, else GATED_SOCKET, else that of ~/.config/gated/client.yaml, else
$XDG_RUNTIME_DIR/gated/gated.sock or ~/.local/state/gated/gated.sock if it exists, else that of /etc/gated/client.yaml,
else /run/gated/gated.sock.

` + wordsTopics,
		Example: "  gated status\n" +
			"  gated submit guest.start web-1 --wait",
	},
		t.commands(args)...,
	)
	help := t.helpCommand()
	root.SetHelpCommand(help)
	root.AddCommand(help)
	cli.Headings(root, first, asking, agents, running, signing, records, hosts)
	root.Version = version.String()
	return root
}

// command is one command below the root, which make returns.
type command struct {
	group string // the heading of the help text above it; empty for what no person types
	name  string
	make  func() *cobra.Command
}

// The headings of the help text, in its order.
const (
	first   = "What you need first:"
	asking  = "Ask, and see what comes of it:"
	agents  = "Agents and their reservations:"
	running = "Run a gate:"
	signing = "Who may sign, and how the gate decides:"
	records = "Records:"
	hosts   = "Several hosts:"
)

// all lists the commands below the root.
func (t *tool) all() []command {
	return []command{
		{first, "setup", t.setupCommand}, {first, "status", t.statusCommand}, {first, "submit", t.submitCommand}, {first, "jobs", t.jobsCommand},
		{first, "guests", t.guestsCommand}, {first, "backup", t.backupCommand}, {first, "docs", t.docsCommand},
		{asking, "wait", t.waitCommand}, {asking, "cancel", t.cancelCommand}, {asking, "classify", t.classifyCommand}, {asking, "ops", t.opsCommand},
		{asking, "commands", t.commandsCommand}, {asking, "plan", t.planCommand}, {asking, "apply", t.applyCommand}, {asking, "events", t.eventsCommand},
		{agents, "agent", t.agentCommand}, {agents, "reservation", t.reservationCommand}, {agents, "hook", t.hookCommand},
		{agents, "doctor", t.doctorCommand}, {agents, "mcp", t.mcpCommand},
		{running, "init", t.initCommand}, {running, "config", t.configCommand}, {running, "serve", t.serveCommand}, {running, "reload", t.reloadCommand},
		{running, "notify", t.notifyCommand}, {running, "metrics", t.metricsCommand}, {running, "time", t.timeCommand},
		{signing, "trust", t.trustCommand}, {signing, "canary", t.canaryCommand},
		{records, "audit", t.auditCommand}, {records, "fsck", t.fsckCommand}, {records, "restore", t.restoreCommand},
		{hosts, "hub", t.hubCommand}, {hosts, "member", t.memberCommand},
		{"", "dial", t.dialCommand},
	}
}

// commands returns the command that a command line begins with, because a hook runs
// before each edit, and making the others takes time. If the line begins with anything
// else, commands returns all of them.
func (t *tool) commands(args []string) []*cobra.Command {
	all := t.all()
	if len(args) > 0 {
		if i := slices.IndexFunc(all, func(c command) bool { return c.name == args[0] }); i >= 0 {
			all = all[i : i+1]
		}
	}
	out := make([]*cobra.Command, len(all))
	for i, c := range all {
		out[i] = c.make()
		out[i].GroupID, out[i].Hidden = c.group, c.group == ""
	}
	return out
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
	if !errors.As(err, &r) || r.Code != refusal.UnknownTarget {
		return err
	}
	if _, none := os.Stat(filepath.Join(dir, "gated.db")); !errors.Is(none, fs.ErrNotExist) {
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
func (t *tool) run(ctx context.Context, args []string) int {
	args = t.withNewWord(args)
	return t.Run(ctx, t.root(args...), args)
}

// readToken reads the file of GATED_AGENT_TOKEN_FILE. One that cannot be read is
// a usage error, as any file that a command line names.
func readToken(path string) (string, error) {
	token, err := agent.ReadTokenFile(path)
	return token, unlessRefused(err)
}

// dialCommand returns the command that opsign runs on the gate's host, through
// ssh. It has no flag of its own: the words of a line for a shell are not to be
// trusted with more.
func (t *tool) dialCommand() *cobra.Command {
	return t.Command(cli.Words{
		Use:   "dial",
		Short: "Connect standard input and output to the daemon's socket, for a gate's remote clients",
		Long: `opsign --remote runs this on the gate's host, through ssh. It checks the socket as every client does, copies
both ways, and ends when either side ends.`,
		Example: "  gated dial --socket /run/gated/gated.sock",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		o, err := t.Where()
		if err != nil {
			return err
		}
		return client.Relay(c.Context(), o, t.stdin, t.Stdout)
	})
}

// list joins patterns.
func list(patterns []string) string {
	out := make([]string, len(patterns))
	for i, p := range patterns {
		out[i] = cli.Inline(p)
	}
	return strings.Join(out, ", ")
}

// completeOpName completes OP from the catalogue, then NAME from the daemon.
func (t *tool) completeOpName(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return cli.CompleteOp()
	case 1:
		if args[0] == op.Run {
			return t.completeCommand()
		}
		return t.completeGuest(c, nil, typed)
	}
	return nil, cli.NoFiles
}

func completeStates(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, s := range op.States {
		out = append(out, string(s))
	}
	return out, cli.NoFiles
}

func (t *tool) completeGuest(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	return cli.CompleteFirst(func() ([]string, cobra.ShellCompDirective) {
		return cli.CompleteList(&t.Tool, (*client.Client).Guests, func(g api.Guest) string { return g.Name + "\t" + g.State })
	})(c, args, typed)
}

// completeSigner offers the keys that are listed and not revoked, and files.
func (t *tool) completeSigner(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	words, _ := t.CompleteFromDaemon(func(ctx context.Context, cl *client.Client) ([]string, error) {
		list, err := cl.Trust(ctx)
		var out []string
		for _, s := range list.Signers {
			if !slices.Contains(list.Revoked, s.Fingerprint) {
				out = append(out, s.Fingerprint+"\t"+s.Principal)
			}
		}
		return out, err
	})
	return words, cobra.ShellCompDirectiveDefault
}

// completeJob completes ids of jobs in a state, of any if it is empty.
func (t *tool) completeJob(state op.State) cobra.CompletionFunc {
	return cli.CompleteFirst(func() ([]string, cobra.ShellCompDirective) {
		return t.CompleteFromDaemon(func(ctx context.Context, cl *client.Client) (out []string, err error) {
			page, err := cl.Jobs(ctx, client.JobQuery{State: state})
			for _, j := range page.Jobs {
				name, target, what := doneFirst(j)
				out = append(out, cli.Inline(j.ID)+"\t"+strings.TrimSpace(cli.Inline(name)+" "+cli.Inline(target)+" "+cli.Inline(what)))
			}
			return out, err
		})
	})
}

// completeReservation completes ids of reservations: the caller's own, or those
// of others.
func (t *tool) completeReservation(mine bool) cobra.CompletionFunc {
	return cli.CompleteFirst(func() ([]string, cobra.ShellCompDirective) {
		return t.CompleteFromDaemon(func(ctx context.Context, cl *client.Client) (out []string, err error) {
			page, err := cl.Reservations(ctx, client.ReservationQuery{})
			for _, r := range page.Reservations {
				if r.Mine == mine {
					out = append(out, r.ID+"\t"+r.Agent+" "+list(r.Patterns))
				}
			}
			return out, err
		})
	})
}

func (t *tool) completeAgent(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() == "unregister" {
		return nil, cli.NoFiles
	}
	return cli.CompleteList(&t.Tool, (*client.Client).Agents, func(a api.Agent) string { return a.Name + "\t" + boundTo(a) })
}
