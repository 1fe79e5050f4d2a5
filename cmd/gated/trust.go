package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/signers"
	"gated/internal/people/pubkey"
	"gated/internal/wire/cli"
	"gated/internal/wire/convert"
)

func (t *tool) trustCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:     "trust",
		Short:   "Show and change who may sign",
		Example: "  gated trust show",
	}, "say show, history, rotate, adopt or revoke",
		t.trustShowCommand(), t.trustHistoryCommand(), t.trustRotateCommand(),
		t.trustAdoptCommand(), t.trustRevokeCommand())
}

// trustVersion is one version of the list of signers as a program reads it.
type trustVersion struct {
	Epoch   int64     `json:"epoch"`
	Digest  string    `json:"sha256"`
	How     string    `json:"how"`
	At      time.Time `json:"at"`
	Signers []signer  `json:"signers"`
}

// signer is one line.
type signer struct {
	Line        int        `json:"line"`
	Principal   string     `json:"principal"` // of a CA's line, patterns
	Fingerprint string     `json:"fingerprint"`
	KeyType     string     `json:"key_type"`
	Roles       []op.Role  `json:"roles"`
	Batches     []op.Role  `json:"batches"`
	CA          bool       `json:"cert_authority"`
	Software    bool       `json:"software"`
	ValidAfter  *time.Time `json:"valid_after"`
	ValidBefore *time.Time `json:"valid_before"`
}

func trustVersionOf(v life.TrustVersion) trustVersion {
	out := trustVersion{Epoch: v.Epoch, Digest: v.Digest, How: v.How, At: v.At.UTC(), Signers: []signer{}}
	for _, l := range v.Listed {
		out.Signers = append(out.Signers, signer{Line: l.Line, Principal: l.Principal, Fingerprint: l.Key,
			KeyType: l.KeyType, Roles: l.Roles, Batches: append([]op.Role{}, l.Batches...),
			CA: l.CA, Software: l.Software, ValidAfter: orNull(l.ValidAfter), ValidBefore: orNull(l.ValidBefore)})
	}
	return out
}

func orNull(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}

func (t *tool) trustShowCommand() *cobra.Command {
	var dir string
	c := t.Command(cli.Words{
		Use:   "show",
		Short: "Print the list of signers as it is in force",
		Long: `Prints the allowed_signers file that the gate has in its database, byte for byte. Reads the state directory,
beside a running daemon or without one. If you may not read it, the daemon is asked, which a note says.`,
		Example: "  gated trust show > signers\n" +
			"  gated trust show --json --state /var/lib/gated",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if done, err := instead(c.Context(), dir, t.trustAsked); done || err != nil {
			return err
		}
		all, err := life.TrustHistory(c.Context(), stateDir(dir))
		if err != nil {
			return err
		}
		newest := all[len(all)-1]
		if t.JSON {
			return t.Emit(trustVersionOf(newest))
		}
		for _, l := range newest.Listed {
			if shown := op.ShownName(l.Principal); shown != l.Principal {
				t.Say("warning: line %d names %s, which may be shown like another name: list the key under a name in ASCII\n",
					l.Line, shown)
			}
		}
		_, err = t.Stdout.Write(newest.Text) // its own bytes, to be put where ssh-keygen reads them
		return err
	})
	t.stateOf(c, &dir)
	return c
}

func (t *tool) trustHistoryCommand() *cobra.Command {
	var dir string
	c := t.Command(cli.Words{
		Use:     "history",
		Short:   "List the versions of the list of signers: when each was made, and by what",
		Long:    "Reads the state directory, beside a running daemon or without one.",
		Example: "  gated trust history --state /var/lib/gated",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		all, err := life.TrustHistory(c.Context(), stateDir(dir))
		if err != nil {
			return err
		}
		var rows [][]string
		var versions []trustVersion
		for _, v := range all {
			rows = append(rows, []string{fmt.Sprint(v.Epoch), cli.Moment(v.At), v.How, fmt.Sprint(len(v.Listed)), v.Digest})
			versions = append(versions, trustVersionOf(v))
		}
		if t.JSON {
			return cli.Each(&t.Tool, nil, versions...)
		}
		return t.List([]cli.Column{{Head: "EPOCH"}, {Head: "MADE", Rank: 1, Least: 20}, {Head: "BY", Rank: 2}, {Head: "SIGNERS", Rank: 1}, {Head: "SHA256", Rank: 3}}, rows)
	})
	t.stateOf(c, &dir)
	return c
}

// adopted is the answer of an adoption.
type adopted struct {
	File    string    `json:"file"`
	Epoch   int64     `json:"epoch"`
	Digest  string    `json:"sha256"`
	Changes []string  `json:"changes"`
	Emptied []op.Role `json:"emptied_roles"` // in which nobody could sign any more
}

func (t *tool) trustAdoptCommand() *cobra.Command {
	var dir string
	var yes bool
	c := t.Command(cli.Words{
		Use:   "adopt FILE",
		Short: "Make a file the list of signers",
		Long: `For root, while the daemon does not run. Shows which signers FILE adds and removes, asks, and records it as the
next version. Without a terminal, say --yes. A file that lists no operational key is refused. If another role loses its
last key, this is a warning. The gate's own file allowed_signers is output: an edit of it decides nothing, and the gate
keeps the last edit as allowed_signers.edited, which you may adopt.`,
		Example: "  gated trust adopt new_signers --state /var/lib/gated",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if !yes && !cli.IsTerminal(t.stdin) {
			return cli.Usage("there is no terminal to ask on: look at the file, then say --yes")
		}
		a, err := life.AdoptSigners(c.Context(), stateDir(dir), args[0], func(a signers.Adoption) error {
			t.Say("epoch %d would be %s as it is now:\n", a.Epoch, op.Shown(a.File))
			for _, line := range a.Changes {
				t.Say("  %s\n", op.ShownName(line))
			}
			for _, role := range a.Emptied {
				t.Say("warning: no key could sign as %s any more: %s\n", op.Shown(string(role)), emptiedMeans(role))
			}
			return t.agree(yes, "take this over? (yes) ", notAgreed())
		})
		if err != nil {
			return err
		}
		words := "%s is in force from the next start on, as epoch %d\n"
		if a.Unedited {
			words = "%s says what is in force, at epoch %d: there is nothing to take over\n"
		}
		return t.Answer(adopted{File: a.File, Epoch: a.Epoch, Digest: a.Digest, Changes: a.Changes, Emptied: a.Emptied}, words,
			op.Shown(a.File), a.Epoch)
	})
	t.stateOf(c, &dir)
	c.Flags().BoolVar(&yes, "yes", false, flagYes)
	return c
}

// revoked is the answer of a revocation.
type revoked struct {
	File  string   `json:"file"`
	Added []string `json:"added"` // fingerprints
	Count int      `json:"count"` // of keys that are revoked now
}

func (t *tool) trustRevokeCommand() *cobra.Command {
	var dir string
	c := t.Command(cli.Words{
		Use:   "revoke KEY...",
		Short: "Refuse keys from now on, without a signature",
		Long: `Adds keys to the file of revoked keys. A KEY is a SHA256 fingerprint, or the path of a public key. A running daemon
takes the file over within a second. For root, and for the daemon's own user. Only an edit of the file takes a key out.`,
		Example: "  gated trust revoke SHA256:2jUYTvy505+HgrPDXUhD9V1Su+dQnwrwVBl26t/Mrxc --state /var/lib/gated",
	}, cobra.MinimumNArgs(1), func(c *cobra.Command, args []string) error {
		r, err := life.Revoke(c.Context(), stateDir(dir), args)
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(revoked{File: r.File, Added: append([]string{}, r.Added...), Count: r.Count})
		}
		for _, key := range r.Added {
			t.Print("revoked %s\n", key)
		}
		if len(r.Added) == 0 {
			t.Print("nothing was added: %s lists each of these keys\n", op.Shown(r.File))
		}
		t.Print("keys in %s: %d. A running daemon refuses them within a second: gated status\n", op.Shown(r.File), r.Count)
		return nil
	})
	c.ValidArgsFunction = t.completeSigner
	t.stateOf(c, &dir)
	return c
}

// agree asks whether to go on; only "yes" is one, and anything else is refused.
func (t *tool) agree(yes bool, question string, refused error) error {
	if yes {
		return nil
	}
	t.Say("%s", question)
	line, err := bufio.NewReader(t.stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "yes" {
		return refused
	}
	return nil
}

// emptiedMeans says what is lost with the last key of a role.
func emptiedMeans(role op.Role) string {
	switch role {
	case op.Recovery:
		return "if the operators' keys are lost, only root can list new ones"
	case op.Coordination:
		return "force-transfer and release-all wait for ever"
	default:
		return "a step that needs that role waits for ever"
	}
}

func notAgreed() error {
	return refusal.New(refusal.Cancelled, "nothing was taken over").WithHint("to take it over, answer yes")
}

// rotation is what the flags of gated trust rotate say.
type rotation struct {
	keys    map[op.Role]*[]string // KEY.pub[:PRINCIPAL]
	add     []string
	remove  []string
	reason  string
	wait    bool
	signers []pubkey.Signer // of keys
}

func (t *tool) trustRotateCommand() *cobra.Command {
	r := rotation{keys: map[op.Role]*[]string{}}
	c := t.Command(cli.Words{
		Use:   "rotate",
		Short: "Ask for a change of who may sign",
		Long: `Adds and removes keys in one step, which waits for signatures: exit code 3. It prints who signs with which
key. The holder of a new key signs first, which proves that the holder has it. Then operators sign, or recovery alone.
With --wait=signed, it waits until the step is done.`,
		Example: "  gated trust rotate --operator new.pub:alice@example.com --remove " +
			"SHA256:+ox65xycKUu6FNtc6/r+23nb5c9/mQN0EmnZVnxkwuE",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if err := op.CheckText("reason", r.reason); err != nil {
			return err
		}
		if err := r.read(); err != nil {
			return err
		}
		if len(r.add)+len(r.signers)+len(r.remove) == 0 {
			return cli.Usage("say which keys to add (--operator, --recovery, --coordinator, --add) or to --remove")
		}
		return t.With(func(cl *client.Client) error { return t.rotate(c.Context(), cl, r) })
	})
	for _, f := range []struct {
		role       op.Role
		name, text string
	}{{op.Operational, "operator", flagOperator}, {op.Recovery, "recovery", flagRecovery}, {op.Coordination,
		"coordinator", flagCoordinator}} {
		r.keys[f.role] = c.Flags().StringArray(f.name, nil, f.text)
		_ = c.MarkFlagFilename(f.name, "pub") // the flag was just added
	}
	c.Flags().StringArrayVar(&r.add, "add", nil, "a whole `LINE` of allowed_signers to add; may be given again")
	c.Flags().StringArrayVar(&r.remove, "remove", nil,
		"the `SHA256:...` fingerprint of a key to remove, every line of it; may be given again")
	c.Flags().StringVar(&r.reason, "reason", "", flagReason)
	waitSignedFlag(c, &r.wait)
	return c
}

// read makes lines of the keys.
func (r *rotation) read() error {
	for _, role := range op.Roles {
		for _, k := range keyArgs(*r.keys[role]) {
			s, err := pubkey.SignerOf(k, role)
			if err != nil {
				return err
			}
			r.signers = append(r.signers, s)
		}
	}
	return nil
}

// params are those of the step that makes the given epoch.
func (r *rotation) params(epoch int64) op.Params {
	var add []any
	for _, s := range r.signers {
		add = append(add, s.Line)
	}
	for _, line := range r.add {
		add = append(add, line)
	}
	p := op.Params{"epoch": epoch}
	if add != nil {
		p["add"] = add
	}
	if len(r.remove) > 0 {
		remove := make([]any, len(r.remove))
		for i, key := range r.remove {
			remove[i] = key
		}
		p["remove"] = remove
	}
	return p
}

// rotate asks for the next epoch. Two who do so at once ask for the same one: it
// is made once, and the other rotation is refused.
func (t *tool) rotate(ctx context.Context, cl *client.Client, r rotation) error {
	status, err := cl.Status(ctx)
	if err != nil {
		return err
	}
	ask := op.Ask{Op: op.Rotate, Target: op.Signers, Params: r.params(status.Epoch + 1)}
	job, err := submitted(ctx, cl, convert.SubmitOf(r.reason, ask))
	if err != nil {
		return err
	}
	if !job.Pending() || job.Request == nil {
		return t.jobEnd(job)
	}
	if request, err := cl.Request(ctx, *job.Request); err != nil {
		t.SayWhy(err) // the rotation was accepted, and waits
		owed := api.Request{ID: *job.Request}
		for _, s := range r.signers {
			owed.Owed = append(owed.Owed, s.Key+" "+string(s.Role))
		}
		if len(r.add) > 0 {
			t.Say("the holder of each new key signs first: opsign show %s says which\n", op.Shown(owed.ID))
		}
		t.sayWhoSigns(owed, r.signers)
	} else {
		t.sayWhoSigns(request, r.signers)
	}
	if r.wait {
		if job, err = awaited(ctx, cl, job, api.UntilEnded); err != nil {
			return err
		}
		return t.jobEnd(job)
	}
	if t.JSON {
		if err := t.Emit(job); err != nil {
			return err
		}
	}
	return cli.Ended(api.ExitWaits)
}

// sayWhoSigns says who signs the rotation with which key: the holders of the new
// keys first, since the rotation is made with the last signature that counts.
func (t *tool) sayWhoSigns(r api.Request, keys []pubkey.Signer) {
	t.Say("%s trust.rotate waits for signatures\n", op.Shown(r.ID))
	for _, s := range keys {
		var first string
		if first, r = cli.HolderSigns(r, s.Key, s.Role, strings.TrimSuffix(s.Path, ".pub")); first != "" {
			t.Say("  first, the holder of the new key %s: %s\n", op.Shown(s.Key), op.Shown(first))
		}
	}
	for line := range strings.Lines(cli.Needed(r)) {
		t.Say("  %s", line)
	}
	t.Say("  then each operator: opsign approve %s\n", op.Shown(r.ID))
}
