package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/pubkey"
	"gated/internal/wire/cli"
	"gated/internal/wire/convert"
)

func (t *tool) trustCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:     "trust",
		Short:   "Ask several gates at once for a change of who may sign",
		Example: "  opsign trust add alice.pub --all-gates",
	}, "say add", t.trustAddCommand())
}

// addition is what the command line says about a key to add.
type addition struct {
	pubkey.Signer
	gates  []string
	all    bool
	reason string
}

func (t *tool) trustAddCommand() *cobra.Command {
	var add addition
	role := string(op.Operational)
	c := t.Command(cli.Words{
		Use:   "add KEY.pub[:PRINCIPAL]",
		Short: "Ask each gate for the rotation that adds a key",
		Long: `Hands in one trust.rotate at each gate, and signs nothing. For each gate it prints the request and the next command.
The holder of the new key signs each request first. Then operators approve it with opsign approve. A gate that lists
the key in that role is left as it is, and a rotation that waits already is not asked for twice. Gates that refuse, or
do not answer, come last, with exit code 1 or 4. If nobody knows whether a gate was asked, it is said with the
command that looks, and exit code 5. Each address of a gate has 20 seconds to answer.`,
		Example: "  opsign trust add alice.pub --gates pve1,ssh://alice@pve2\n" +
			"  opsign trust add vault.pub:vault@example.com --role recovery --all-gates",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) (err error) {
		if add.all == (len(add.gates) > 0) {
			return cli.Usage("say --gates GATE,... or --all-gates")
		}
		if !op.Role(role).Valid() {
			return cli.Usage(wordsNoSuchRole)
		}
		if err := op.CheckText("reason", add.reason); err != nil {
			return err
		}
		if add.Signer, err = pubkey.SignerOf(pubkey.ArgOf(args[0]), op.Role(role)); err != nil {
			return err
		}
		return t.addSigner(c.Context(), add)
	})
	c.Flags().StringSliceVar(&add.gates, "gates", nil, "the host or address of each `GATE`, as opsign known lists it")
	c.Flags().BoolVar(&add.all, "all-gates", false, "ask every known gate")
	c.Flags().StringVar(&role, "role", role, "the `ROLE` that the key gets")
	c.Flags().StringVar(&add.reason, "reason", "", "why, for the operators who are asked to sign")
	_ = c.RegisterFlagCompletionFunc("role", completeRoles) // the flag was just added
	return c
}

// added is what one gate says of the rotation.
type added struct {
	answer
	Listed  bool         `json:"listed"`  // it lists the key in that role already
	Request string       `json:"request"` // that was asked for; empty if none was, or none is known
	Doubt   bool         `json:"doubt"`   // nobody knows whether one was asked for
	Next    []string     `json:"next"`    // commands for people, in their order
	Error   *cli.Problem `json:"error"`   // null if nothing went wrong; the gate may have taken it all the same

	name string // for people: the host, with the address if two gates have that host
	says string
}

// addSigner asks each gate once, whatever the number of its addresses, and ends with the worst exit code.
func (t *tool) addSigner(ctx context.Context, add addition) error {
	where, known, err := t.allKnown()
	if err != nil {
		return err
	}
	gates := known
	if !add.all {
		gates = make([]client.KnownGate, len(add.gates))
		for i, name := range add.gates {
			if gates[i], err = t.knownAs(name); err != nil {
				return err
			}
		}
	}
	if len(gates) == 0 {
		return refusal.New(refusal.UnknownTarget, "no gate is known yet: nothing was asked").
			WithHint("meet each gate first: opsign list -H ADDRESS")
	}
	var answers []*added
	for _, k := range gates {
		if !slices.ContainsFunc(answers, func(a *added) bool { return a.Gate == k.Gate }) {
			a := &added{answer: answer{Address: k.Address, Host: k.Host, Gate: k.Gate}, Next: []string{}, name: k.Host, says: "no request"}
			if slices.ContainsFunc(gates, func(other client.KnownGate) bool { return other.Host == k.Host && other.Gate != k.Gate }) {
				a.name += " (" + string(k.Address) + ")"
			}
			answers = append(answers, a)
		}
	}
	atOnce(len(answers), func(i int) {
		a := answers[i]
		// The named address is the first one.
		ways := slices.DeleteFunc(addressesOf(known, a.Gate), func(at client.Address) bool { return at == a.Address })
		t.asking(ctx, where, slices.Insert(ways, 0, a.Address), &a.answer, func(ctx context.Context, one *tool, cl *client.Client) error {
			return a.ask(ctx, one, cl, add)
		})
	})
	// Those where something went wrong come last.
	slices.SortStableFunc(answers, func(a, b *added) int { return min(api.Exit(a.err), 1) - min(api.Exit(b.err), 1) })
	return endsWorst(answers, t.sayAdded)
}

// ask hands the rotation in. The gate is the known one, or it is told nothing. Once the rotation was sent, no error is
// that the gate does not answer, because another address of the gate would then be asked for it again.
func (a *added) ask(ctx context.Context, one *tool, cl *client.Client, add addition) error {
	if _, err := one.knownGate(ctx, cl); err != nil {
		return err
	}
	list, err := cl.Trust(ctx)
	if err != nil {
		return err
	}
	if a.Listed, err = listsSigner(list, add, one.now()); err != nil || a.Listed {
		return err
	}
	asked := op.Ask{Op: op.Rotate, Target: op.Signers, Params: op.Params{"epoch": list.Epoch + 1, "add": []any{add.Line}}}
	job, err := cl.Submit(ctx, convert.SubmitOf(add.reason, asked), "")
	if err == nil {
		a.Request, err = stepOf(job)
	}
	if perhaps(err) {
		a.Doubt, a.says = true, "not known whether it was asked for"
		a.Next = []string{commandAt(cl.Address(), "list", "--all")}
		return sent(err, "look whether it waits: "+a.Next[0]+"; then run the same command again")
	}
	if err != nil {
		return err
	}
	a.says = a.Request + " was asked for"
	r, err := cl.Request(ctx, a.Request)
	if err != nil {
		a.Next = []string{commandAt(cl.Address(), "show", a.Request)}
		return sent(err, "run the same command again: it says what waits, and who signs")
	}
	if r.ID != a.Request || r.Op != asked.Op || r.Target != asked.Target.String() || !r.Params.Equal(asked.Params) {
		return refusal.New(refusal.BindingMismatch, "the gate shows another request than the one it was asked for").
			WithHint("sign nothing there before the host's administrator knows why")
	}
	return a.stands(cl.Address(), r, add)
}

// stands tells how a request stands, and what people do next: the holder of the new key, unless that was done, then an
// operator, or recovery where it alone decides. The holder has another way to the gate, and the key elsewhere.
func (a *added) stands(at client.Address, r api.Request, add addition) error {
	switch approve := []string{"approve", r.ID}; api.ExitOfState(r.State) {
	case api.ExitWaits:
		if add.Role == op.Recovery {
			approve = append(approve, "--role", string(op.Recovery))
		}
		a.Next = []string{commandAt(at, approve...)}
		a.says = r.ID + " waits for who approves it: " + a.Next[0]
		if first, _ := cli.HolderSigns(r, add.Key, add.Role, "KEY"); first != "" {
			a.Next = slices.Insert(a.Next, 0, first)
			a.says = r.ID + " waits. First, the holder of the new key, at this gate: " + first
		}
	case api.ExitDone:
		if a.Listed = r.State == op.StateSucceeded; !a.Listed {
			a.Next = []string{commandAt(at, "show", r.ID)}
			a.says = r.ID + " is signed, and not done yet: " + a.Next[0]
		}
	default:
		a.Next = []string{commandAt(at, "show", r.ID)}
		return cmp.Or(r.Error.Err(), error(refusal.New(refusal.Conflict, "%s is %s", r.ID, r.State).WithHint("%s", a.Next[0])))
	}
	return nil
}

// stepOf returns the id of the one step of a job.
func stepOf(job api.Job) (string, error) {
	if len(job.Steps) == 1 {
		if _, err := op.ParseStepID(job.Steps[0].ID); err == nil {
			return job.Steps[0].ID, nil
		}
	}
	return "", refusal.New(refusal.Internal, "the gate's answer does not name the step")
}

// perhaps reports whether a gate may have taken a change although it did not say so. A gate that decided nothing says that
// with the same codes as one that does not know, so both are a doubt.
func perhaps(err error) bool {
	if gone := new(client.Unreachable); errors.As(err, &gone) {
		return gone.Asked
	}
	return api.Exit(err) == api.ExitInternal && !errors.Is(err, refusal.Standby)
}

// sent returns an error that came after a change was sent as a refusal of the gate's, with what to do next.
func sent(err error, next string) error {
	p := cli.ProblemOf(err)
	return refusal.New(p.Code, "%s", p.Detail).WithHint("%s", next)
}

// commandAt returns a command of opsign for the gate at an address.
func commandAt(at client.Address, words ...string) string {
	where := []string{"--remote", string(at)}
	if o, err := (client.Options{}).At(at); err == nil && o.Remote == "" {
		where = []string{"--socket", o.Socket}
	}
	return op.ShellWords(slices.Concat([]string{"opsign"}, words, where)...)
}

// listsSigner reports whether a gate lists the key in that role, so that its holder can sign now. A key that the gate lists
// otherwise is an error that says how, because no rotation adds a key that is listed.
func listsSigner(list api.Trust, add addition, now time.Time) (bool, error) {
	var other error
	for _, s := range list.Signers {
		if s.Fingerprint != add.Key {
			continue
		}
		how := ""
		switch {
		case slices.Contains(list.Revoked, s.Fingerprint):
			how = "as a revoked key"
		case s.CA:
			how = "as a certificate authority"
		case s.Principal != add.Name:
			how = "as the key of " + cli.Person(s.Principal)
		case !slices.Contains(s.Roles, add.Role):
			how = "in another role"
		case s.ValidAfter != nil && now.Before(*s.ValidAfter):
			how = "as valid only from " + s.ValidAfter.UTC().Format(time.RFC3339)
		case s.ValidBefore != nil && !now.Before(*s.ValidBefore):
			how = "as valid only until " + s.ValidBefore.UTC().Format(time.RFC3339)
		case list.Blocked:
			return false, refusal.New(refusal.Conflict, "the gate lists the key in line %d, but accepts no signature", s.Line).
				WithHint("it cannot read its revocation file: its administrator mends that")
		default:
			return true, nil
		}
		r := refusal.New(refusal.Conflict, "the gate lists the key in line %d, %s", s.Line, how).WithHint("add another key")
		if !slices.Contains(list.Revoked, s.Fingerprint) { // no rotation adds a revoked key
			r = r.WithHint("%s; or change the line at the gate: gated trust rotate --remove %s --add LINE", r.Hint, s.Fingerprint)
		}
		other = r
	}
	return false, other
}

// sayAdded prints what a gate said, and returns its exit code.
func (t *tool) sayAdded(a *added) (int, error) {
	code, text := api.Exit(a.err), a.says+"\n"
	a.Error = cli.ProblemOf(a.err)
	switch {
	case a.err != nil:
		text = a.says + ": " + cli.Why("", a.err)
	case a.Listed:
		text = "the key is listed already\n"
	default:
		code = api.ExitWaits
	}
	if _, err := a.said.WriteTo(t.Stderr); err != nil {
		return code, err
	}
	return code, t.Answer(a, "%s: %s", cli.Inline(a.name), text)
}
