// Opsign is the operator's tool: it shows what waits for a signature, signs
// exactly that with an SSH key, and says what became of it.
package main

import (
	"context"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/version"
	"gated/internal/people/sign"
	"gated/internal/wire/cli"
)

func main() { os.Exit(program()) }

// program runs the command line of this process and returns its exit code.
func program() int { return newTool().run(context.Background(), os.Args[1:]) }

// root returns the whole command tree.
func (t *tool) root() *cobra.Command {
	root := t.Root(cli.Words{
		Use:   "opsign",
		Short: "Show what waits for a signature, sign exactly that, and see what became of it",
		Long: `opsign signs one destructive step at a time with an SSH key. What it shows is decoded from the very bytes
that it signs.

Exit codes: 0 done, 1 refused or conflict, 2 usage, 3 waits for more signatures, 4 the daemon cannot be reached, 5
internal. The daemon's socket is --socket, else GATED_SOCKET, else that of ~/.config/gated/client.yaml, else
$XDG_RUNTIME_DIR/gated/gated.sock or ~/.local/state/gated/gated.sock if it exists, else that of /etc/gated/client.yaml,
else /run/gated/gated.sock. A gate of another host is --remote, else GATED_HOST; the
system's ssh reaches it, and gated has to be installed there.`,
		Example: "  opsign list\n" +
			"  opsign approve j12.1\n" +
			"  opsign -H ssh://alice@pve1 list",
	},
		t.listCommand(), t.showCommand(), t.approveCommand(), t.batchCommand(), t.reviewCommand(), t.rejectCommand(), t.submitCommand(),
		t.signCommand(), t.verifyCommand(), t.keysCommand(), t.knownCommand(), t.forgetCommand(),
		t.witnessCommand(), t.trustCommand(),
	)
	t.Remotes(root)
	root.Version = version.String()
	return root
}

// tool is one run of the command line.
type tool struct {
	cli.Tool
	stdin *os.File
	now   func() time.Time

	hostState string        // the state directory of the host's daemon; empty for none
	settling  time.Duration // how long a new screen of review takes no key
	gateTime  time.Duration // how long each of all known gates has to answer
	looks     bool          // a key is looked for, and no passphrase asked for
	unasked   bool          // it signs, and nobody is asked: --yes
	said      []string      // by sayOnce
}

// newTool returns the tool of this process.
func newTool() *tool {
	return &tool{Tool: cli.Tool{Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv}, stdin: os.Stdin, now: time.Now,
		hostState: "/var/lib/gated", settling: settling, gateTime: gateTime}
}

// run runs a command line and returns its exit code.
func (t *tool) run(ctx context.Context, args []string) int { return t.Run(ctx, t.root(), args) }

// sayOnce says something beside the answer, unless it was said in this run. A
// text that is empty says nothing.
func (t *tool) sayOnce(text string) {
	if text != "" && !slices.Contains(t.said, text) {
		t.said = append(t.said, text)
		t.Say("%s", cli.Told(text, t.Stderr))
	}
}

// completeOpName completes OP from the catalogue.
func completeOpName(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cli.NoFiles
	}
	return cli.CompleteOp()
}

func completeRoles(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var out []string
	for _, r := range op.Roles {
		out = append(out, string(r))
	}
	return out, cli.NoFiles
}

// completeFingerprint completes with what the agent holds.
func (t *tool) completeFingerprint(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return cli.CompleteFrom(func(ctx context.Context) (out []string, err error) {
		held, err := sign.Identities(ctx, t.Getenv("SSH_AUTH_SOCK"))
		for _, id := range held {
			out = append(out, id.Fingerprint+"\t"+id.Comment)
		}
		return out, err
	})
}

// completeRequest completes with the ids of what waits.
func (t *tool) completeRequest(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return cli.CompleteList(&t.Tool, func(cl *client.Client, ctx context.Context) ([]api.Request, error) {
		return cl.Requests(ctx, op.StatePending)
	}, func(r api.Request) string { return r.ID + "\t" + r.Op + " " + r.Target })
}
