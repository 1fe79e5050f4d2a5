package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/host/daemon"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/people/pubkey"
	"gated/internal/wire/cli"
)

const flagCoordinator = "`KEY.pub[:PRINCIPAL]` that may sign force-transfer and release-all only; may be given again"

const flagRecovery = "`KEY.pub[:PRINCIPAL]` that may sign key rotation only; may be given again"

const flagOperator = "`KEY.pub[:PRINCIPAL]` that may sign destructive steps; may be given again"

func (t *tool) initCommand() *cobra.Command {
	var dir, host, group, libvirt string
	var ledger life.Store
	var operators, recovery, coordinators []string
	c := t.Command(cli.Words{
		Use:   "init --operator KEY.pub[:PRINCIPAL]...",
		Short: "Make a new gate: its state directory, configuration and list of signers",
		Long: `Makes DIR with gated.yaml, allowed_signers and the database. A person signs under the name PRINCIPAL, which
is the key's comment unless given. Without a key, it lists those in ~/.ssh and shows the line to type.`,
		Example: "  gated init --operator ~/.ssh/id_ed25519.pub:alice@example.com",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if len(operators) == 0 {
			t.Say("%s", noOperator(publicKeys(t.Getenv("HOME"))))
			return cli.Ended(api.ExitUsage)
		}
		o := life.InitOptions{StateDir: stateDir(dir), Host: host, Group: group, Libvirt: libvirt,
			Operators: keyArgs(operators), Recovery: keyArgs(recovery), Coordinators: keyArgs(coordinators)}
		if ledger.Postgres != "" {
			o.Store = &ledger
		} else if ledger.Member != "" {
			return cli.Usage("--member goes with --store")
		}
		r, err := life.Init(c.Context(), o)
		if err != nil {
			return err
		}
		if t.JSON {
			if err := t.Emit(initializedOf(r)); err != nil {
				return err
			}
		} else {
			t.showInit(r)
		}
		t.warn(r)
		return nil
	})
	stateFlag(c, &dir)
	c.Flags().StringVar(&host, "host", "", "the `NAME` of the host that the gate guards (default the hostname)")
	c.Flags().StringArrayVar(&operators, "operator", nil, flagOperator)
	c.Flags().StringArrayVar(&recovery, "recovery", nil, flagRecovery)
	c.Flags().StringArrayVar(&coordinators, "coordinator", nil, flagCoordinator)
	c.Flags().StringVar(&group, "socket-group", "", "members of this `GROUP` may connect (default: see socket_group in gated.yaml)")
	c.Flags().StringVar(&libvirt, "libvirt", "", "guests are those of the libvirtd at this `SOCKET` (default: directories and processes)")
	storeFlags(c, &ledger)
	for _, name := range []string{"operator", "recovery", "coordinator"} {
		_ = c.MarkFlagFilename(name, "pub") // the flag was just added
	}
	return c
}

// storeFlags are the flags of a gate with a ledger.
func storeFlags(c *cobra.Command, s *life.Store) {
	c.Flags().StringVar(&s.Postgres, "store", "", "the gate's ledger is in the PostgreSQL of this `CONNECTION` string (gated docs guides/high-availability)")
	c.Flags().StringVar(&s.Member, "member", "", "with --store: the `NAME` of this daemon among those of the gate")
	c.Flags().StringVar(&s.Durability, "durability", "replicated", "with --store: `WHAT` is replicated, or single for a server without a synchronous standby")
	c.Flags().DurationVar(&s.Lease, "lease", 15*time.Second, "with --store: a standby takes over after `TIME` without a sign of life")
	_ = c.RegisterFlagCompletionFunc("durability", cobra.FixedCompletions([]string{"replicated", "single"}, cli.NoFiles)) // the flag was just added
}

// keyArgs reads each KEY.pub[:PRINCIPAL].
func keyArgs(args []string) []pubkey.Arg {
	out := make([]pubkey.Arg, len(args))
	for i, a := range args {
		out[i] = pubkey.ArgOf(a)
	}
	return out
}

// publicKeys lists the public key files in a home's .ssh.
func publicKeys(home string) []string {
	if home == "" {
		return nil
	}
	found, err := filepath.Glob(filepath.Join(home, ".ssh", "*.pub"))
	if err != nil {
		return nil // the home's name is a bad pattern: nothing to suggest
	}
	return found
}

// initialized is the answer of init.
type initialized struct {
	State      string    `json:"state"`
	Config     string    `json:"config"`
	Signers    string    `json:"signers"`
	Database   string    `json:"database"`
	Host       string    `json:"host"`
	Gate       op.GateID `json:"gate"`
	SingleUser bool      `json:"single_user"`
	Keys       []listed  `json:"keys"`
}

type listed struct {
	Principal   string    `json:"principal"`
	Fingerprint string    `json:"fingerprint"`
	KeyType     string    `json:"key_type"`
	Roles       []op.Role `json:"roles"`
	Software    bool      `json:"software"`
}

func initializedOf(r life.InitResult) initialized {
	return initialized{State: r.StateDir, Config: r.Config, Signers: r.Signers, Database: r.Database, Host: r.Host,
		Gate: r.GateID, SingleUser: r.SingleUser, Keys: listedOf(r.Listed)}
}

func listedOf(all []life.Listed) []listed {
	out := []listed{}
	for _, k := range all {
		out = append(out, listed{Principal: k.Principal, Fingerprint: k.Key, KeyType: k.KeyType, Roles: k.Roles, Software: k.Software})
	}
	return out
}

// maySign has a line for each role of each key.
func maySign(all []life.Listed) (text string) {
	for _, k := range all {
		for _, role := range k.Roles {
			text += fmt.Sprintf("  %s may sign as %s with %s\n", cli.Person(k.Principal), op.Shown(string(role)), op.Shown(k.Key))
		}
	}
	return text
}

func (t *tool) showInit(r life.InitResult) {
	t.Print("made %s for host %s, gate %s\n  configuration: %s\n  signers:       %s\n",
		op.Shown(r.StateDir), op.Shown(r.Host), op.Shown(string(r.GateID)), op.Shown(r.Config), op.Shown(r.Signers))
	t.Print("%s", maySign(r.Listed))
	t.next(r)
}

// next prints what to run next.
func (t *tool) next(r life.InitResult) {
	start := t.starts(r.StateDir)
	t.Print("next:\n")
	if !strings.HasPrefix(start, "systemctl ") {
		start += inTerminal
		t.showPlace()
	}
	t.Print("  %s\n  gated status\n", start)
}

// showPlace says where the daemon can listen, if it is not where it would.
func (t *tool) showPlace() {
	if daemon.CheckSocket(t.serves()) != nil {
		t.Print("  export GATED_SOCKET=$HOME/.gated.sock    # in each terminal: you may not write where the socket is by " +
			"default\n")
	}
}

// warn says what the gate cannot protect from as it was set up.
func (t *tool) warn(r life.InitResult) {
	if r.SingleUser {
		t.Say(`warning: isolation: none. Agents run under the daemon's own uid: this gate is a seat belt and no wall.
  remedy: run the daemon under a uid of its own and set single_user: false in gated.yaml
  remedy: use operator keys that need a touch; any process of a user can use that user's ssh-agent
`)
	}
	software, recovery := false, false
	for _, k := range r.Listed {
		recovery = recovery || slices.Contains(k.Roles, op.Recovery)
		if k.Software && signers.MayDestroy(k) {
			software = true
			t.Say("warning: %s signs with a software key (%s): a program that can read its file or reach its agent can sign\n",
				cli.Person(k.Principal), op.Shown(k.Key))
		}
	}
	if software {
		t.Say(`  remedy: a security key needs a touch: ssh-keygen -t ed25519-sk, then gated trust rotate --operator KEY.pub
  remedy: or have the agent ask before each use: ssh-add -d KEY, then ssh-add -c KEY (gated docs keys says more)
`)
	}
	if !recovery {
		dir, asRoot := op.ShellWords(r.StateDir), ""
		if !r.SingleUser {
			asRoot = "    # as root"
		}
		t.Say(`note: no recovery key is listed. If the operators' keys are lost, only root can list new ones: gated trust adopt FILE
  remedy: before the first start, make one, list it, and keep it off line:
    ssh-keygen -t ed25519 -C recovery -f recovery
    (umask 077; { cat %s/allowed_signers; echo "recovery namespaces=\"recovery@gated\" $(cut -d " " -f 1,2 recovery.pub)"; } > signers)
    gated trust adopt signers --yes --state %s%s
`, dir, dir, asRoot)
	}
}

func sortedNames(m map[string]int64) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	sort.Strings(out)
	return out
}

// noOperator says what to type where init was not told who may sign.
func noOperator(found []string) string {
	if len(found) == 0 {
		return `usage: init needs the public key of an operator, and there is none in ~/.ssh
  ssh-keygen -t ed25519
  gated init --operator ~/.ssh/id_ed25519.pub
`
	}
	var b strings.Builder
	b.WriteString("usage: init needs the public key of an operator; these are in ~/.ssh:\n")
	for _, path := range found {
		fmt.Fprintf(&b, "  %s\n", op.Shown(path))
	}
	fmt.Fprintf(&b, "type:\n  gated init --operator %s\n", op.Shown(found[0]))
	return b.String()
}
