package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/client/api"
	"gated/internal/agents/hook"
	"gated/internal/base/hostgate"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/setup"
	"gated/internal/wire/cli"
)

// setupFlags are what a line of gated setup says.
type setupFlags struct {
	operators, recovery, users, agents []string
	driver, dir, host                  string
	own, service, yes, dryRun          bool
}

// setupFound is what a set-up found of the host.
type setupFound struct {
	Keys    []setupKey     `json:"keys"` // that no flag named
	Libvirt string         `json:"libvirt"`
	Agents  []string       `json:"agents"` // products with settings in the home
	Shadows []setup.Shadow `json:"shadows"`
}

type setupKey struct {
	Principal   string `json:"principal"`
	Fingerprint string `json:"fingerprint"`
	From        string `json:"from"`
}

// setupDone is the answer of setup.
type setupDone struct {
	State  string       `json:"state"`
	Own    bool         `json:"own"`
	DryRun bool         `json:"dry_run"`
	Found  setupFound   `json:"found"`
	Steps  []setup.Step `json:"steps"`
	Next   []string     `json:"next"`
}

func (t *tool) setupCommand() *cobra.Command {
	var f setupFlags
	c := t.Command(cli.Words{
		Use:   "setup [--operator KEY.pub]...",
		Short: "Make a gate ready on this host, or one of your own",
		Long: `For root: the account gated, the state in /var/lib/gated, who may ask, /etc/gated/client.yaml, and the service where
systemd runs. For any other user, and with --own: a gate of the user's own.

It says what it found, asks, does one thing after the other, and says how to undo each. Run again, it does what is
missing and changes nothing that is there. It makes no private key, and lists no key that you did not name or confirm.`,
		Example: "  gated setup --operator alice.pub --who-may-ask alice --dry-run\n" +
			"  gated setup --operator ~/.ssh/id_ed25519.pub --yes",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		return t.setup(c.Context(), f)
	})
	flags := c.Flags()
	flags.StringArrayVar(&f.operators, "operator", nil, "`KEY.pub[:PRINCIPAL]`, or a line as in KEY.pub, that may sign destructive steps; may be given again")
	flags.StringArrayVar(&f.recovery, "recovery", nil, flagRecovery)
	flags.StringSliceVar(&f.users, "who-may-ask", nil, "the `USER` that joins the group gated; may be given again")
	flags.StringVar(&f.driver, "driver", "local", "the `BACKEND` of guests: local (directories and processes) or libvirt")
	flags.StringSliceVar(&f.agents, "agents", []string{everyProduct},
		"the agent `PRODUCT` whose hooks it says how to install: none, auto, "+strings.Join(hook.DialectNames(), ", "))
	flags.StringVar(&f.host, "host", "", "the `NAME` of the host that the gate guards (default the hostname)")
	flags.BoolVar(&f.own, "own", false, "a gate of the caller's own, also for root")
	flags.BoolVar(&f.service, "service", false, "with a gate of your own: run it as a service of systemctl --user")
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	flags.BoolVar(&f.dryRun, "dry-run", false, "change nothing, say what would be done")
	stateFlag(c, &f.dir)
	_ = c.MarkFlagFilename("operator", "pub") // the flags were just added
	_ = c.MarkFlagFilename("recovery", "pub")
	_ = c.RegisterFlagCompletionFunc("driver", cobra.FixedCompletions([]string{"local", "libvirt"}, cli.NoFiles))
	return c
}

// setup finds, asks, plans, asks again, and does.
func (t *tool) setup(ctx context.Context, f setupFlags) error {
	f.own = f.own || os.Geteuid() != 0
	if !f.own && f.dir == "" {
		f.dir = hostgate.StateDir
	}
	var err error
	if f.dir, err = filepath.Abs(stateDir(f.dir)); err != nil {
		return err
	}
	person := t.person()
	done := setupDone{State: f.dir, Own: f.own, DryRun: f.dryRun, Next: []string{}}
	keys := setup.FindKeys(person.home, t.agentKeys(ctx))
	if done.Found, err = t.find(f, person, keys); err != nil {
		return err
	}
	if !t.JSON {
		t.showFound(done.Found)
	}
	asks := !f.yes && cli.IsTerminal(t.stdin)
	in := bufio.NewReader(t.stdin)
	if !(setup.Choice{StateDir: f.dir}).Made() {
		if err := t.confirm(ctx, in, asks, person, keys, &f); err != nil {
			return err
		}
	}
	copies, err := setup.NewKeys()
	if err != nil {
		return err
	}
	defer copies.Close()
	choice, err := f.choice(copies, done.Found.Libvirt)
	if err != nil {
		return err
	}
	if done.Steps, err = t.plan(f, choice); err != nil {
		return err
	}
	done.Next = f.next(done.Found)
	if f.dryRun {
		return t.showSetup(done, true)
	}
	if err := t.goOn(ctx, in, f, asks, done.Steps); err != nil {
		return err
	}
	var did []setup.Step
	err = setup.Apply(ctx, done.Steps, func(s setup.Step, begins bool) {
		t.saysStep(s, begins)
		if !begins {
			did = append(did, s)
		}
	})
	if err != nil {
		t.Say("note: what was done stays; gated setup goes on from there when you run it again\n")
		if !t.JSON {
			t.showUndo(did)
		}
		return err
	}
	return t.showSetup(done, false)
}

// find looks at what the host and the person have.
func (t *tool) find(f setupFlags, person person, keys []setup.FoundKey) (setupFound, error) {
	found := setupFound{Keys: []setupKey{}, Agents: []string{}}
	if len(f.operators) == 0 {
		for _, k := range keys {
			found.Keys = append(found.Keys, setupKey{k.Principal, k.Fingerprint, k.From})
		}
	}
	for _, path := range []string{"/run/libvirt/libvirt-sock", "/var/run/libvirt/libvirt-sock"} {
		if info, err := os.Stat(path); found.Libvirt == "" && err == nil && info.Mode().Type() == os.ModeSocket {
			found.Libvirt = path
		}
	}
	if f.driver != "local" && f.driver != "libvirt" {
		return found, cli.Usage("--driver is none of local and libvirt")
	}
	if f.driver == "libvirt" && found.Libvirt == "" {
		return found, refusal.New(refusal.BadParams, "there is no libvirtd: /run/libvirt/libvirt-sock is missing").
			WithHint("start libvirtd, or leave --driver libvirt away")
	}
	for _, name := range f.agents {
		switch name {
		case "none":
		case everyProduct:
			for _, d := range hook.Found(person.home, t.environmentOf(person)) {
				found.Agents = append(found.Agents, d.Name())
			}
		default:
			if _, err := hook.DialectOf(name); err != nil {
				return found, cli.Usage(err.Error())
			}
			found.Agents = append(found.Agents, name)
		}
	}
	self, err := os.Executable()
	if err != nil {
		return found, err
	}
	found.Shadows = setup.Shadows(self, t.Getenv("PATH"), hostgate.Units)
	return found, nil
}

// choice reads the keys and the driver.
func (f setupFlags) choice(copies *setup.Keys, libvirt string) (c setup.Choice, err error) {
	c = setup.Choice{StateDir: f.dir, Host: f.host, Users: f.users}
	if f.driver == "libvirt" {
		c.Libvirt = libvirt
	}
	if c.Operators, err = copies.Copy(f.operators); err != nil {
		return c, err
	}
	if c.Recovery, err = copies.Copy(f.recovery); err != nil {
		return c, err
	}
	_, err = c.Check()
	return c, err
}

// plan returns the steps of a gate of the caller's own, or of the host's.
func (t *tool) plan(f setupFlags, c setup.Choice) ([]setup.Step, error) {
	if !f.own {
		if f.service {
			return nil, cli.Usage("--service is for a gate of your own: say --own, or leave it away")
		}
		return t.system().Steps(c)
	}
	if len(f.users) > 0 {
		return nil, cli.Usage("--who-may-ask is for root: nobody but you may ask a gate of your own")
	}
	own := setup.Own{Run: runProgram}
	var err error
	if own.Program, err = os.Executable(); err != nil {
		return nil, err
	}
	if f.service {
		manager := filepath.Join(t.Getenv("XDG_RUNTIME_DIR"), "systemd", "private")
		if _, err := os.Stat(manager); err != nil {
			return nil, refusal.New(refusal.BadParams, "no service manager of this user runs: there is no %s", op.Shown(manager)).
				WithHint("leave --service away, and start gated serve yourself; or log in with a session (loginctl enable-linger)")
		}
		own.Units = t.userUnits()
	}
	return own.Steps(c)
}

// next is what to type next, up to the first approval.
func (f setupFlags) next(found setupFound) []string {
	out := []string{"gated status", "gated submit guest.create web --wait", "gated submit guest.destroy web    # waits for a signature",
		"opsign approve ID    # as the line before says"}
	switch {
	case f.own && !f.service:
		out[0] = "gated serve" + stateArg(f.dir) + inTerminal
	case !f.own && !hostgate.Host{}.Booted():
		out[0] = "install -d -o gated -g gated /run/gated && runuser -u gated -- gated serve --state " + op.ShellWords(f.dir) +
			" --socket " + api.SystemSocket
	case len(found.Agents) > 0:
		out = slices.Insert(out, 1, "gated hook install --git --for "+strings.Join(found.Agents, ",")+"    # as each user, in each checkout")
	}
	if len(f.users) > 0 {
		out = slices.Insert(out, 1, "# "+list(f.users)+": log in again first, which takes the group gated over")
	}
	return out
}

func stateArg(dir string) string {
	if dir == defaultStateDir() {
		return ""
	}
	return " --state " + op.ShellWords(dir)
}

// errNoTerminal says that setup cannot ask.
var errNoTerminal = errors.New("nothing was done, because there is no terminal to ask on: look at it with --dry-run, then say --yes")

// goOn asks before anything changes.
func (t *tool) goOn(ctx context.Context, in *bufio.Reader, f setupFlags, asks bool, steps []setup.Step) error {
	switch {
	case f.yes, !slices.ContainsFunc(steps, func(s setup.Step) bool { return !s.Done }):
		return nil
	case !asks:
		return cli.Usage(errNoTerminal.Error())
	}
	t.Say("to do:\n")
	for _, s := range steps {
		if !s.Done {
			t.Say("  %s\n", s.What)
		}
	}
	yes, err := t.asked(ctx, in, "Do that? [y/N]")
	if err == nil && !yes {
		t.Say("nothing was done\n")
		err = cli.Ended(api.ExitRefused)
	}
	return err
}
