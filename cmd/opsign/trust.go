package main

import (
	"bytes"
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
do not answer, are said last, with exit code 1 or 4. Each address of a gate has 20 seconds to answer.`,
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

// added is what one gate answered.
type added struct {
	Address client.Address `json:"address"`
	Host    string         `json:"host"`
	Gate    op.GateID      `json:"gate"`
	Listed  bool           `json:"listed"`  // it lists the key in that role already
	Request string         `json:"request"` // that was asked for; empty if none was
	Doubt   bool           `json:"doubt"`   // nobody knows whether one was asked for
	Next    []string       `json:"next"`    // commands for people, in their order
	Error   *cli.Problem   `json:"error"`   // null if the gate took it

	ways []client.Address
	err  error
	said bytes.Buffer // beside the answer
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
			if gates[i], err = knownAs(known, name); err != nil {
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
			// The named address is the first one.
			ways := slices.DeleteFunc(addressesOf(known, k.Gate), func(a client.Address) bool { return a == k.Address })
			answers = append(answers, &added{Host: k.Host, Gate: k.Gate, Next: []string{}, ways: slices.Insert(ways, 0, k.Address)})
		}
	}
	atOnce(len(answers), func(i int) {
		a := answers[i]
		ask := func(ctx context.Context, one *tool, cl *client.Client) error { return a.ask(ctx, one, cl, add) }
		a.Address, a.err = t.asking(ctx, where, a.ways, &a.said, ask)
	})
	return t.sayAdded(answers)
}

// ask hands the rotation in. The gate is the known one, or it is told nothing.
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
	if gone := new(client.Unreachable); errors.As(err, &gone) && gone.Asked {
		a.Doubt = true
		return handedIn{cli.Unanswered(err, "", wordsAskAgain)}
	}
	if err != nil {
		return err
	}
	if job.Request == nil {
		ended := refusal.New(refusal.Conflict, "%s is %s, and asks for no signature", job.ID, job.State)
		return cmp.Or(job.Error.Err(), error(ended))
	}
	if _, err := op.ParseStepID(*job.Request); err != nil {
		return err
	}
	a.Request = *job.Request
	r, err := cl.Request(ctx, a.Request)
	if err != nil {
		return handedIn{cli.Unanswered(err, wordsAskAgain, "")}
	}
	if r.ID != a.Request || r.Op != asked.Op || r.Target != asked.Target.String() || !r.Params.Equal(asked.Params) {
		return refusal.New(refusal.BindingMismatch, "the gate shows another request than the one it was asked for")
	}
	a.Next = nextToSign(cl.Address(), r, add)
	return nil
}

const wordsAskAgain = "the same command again says what waits, and asks for it only if it does not"

// listsSigner reports whether a gate lists the key in that role, so that its holder can sign now. A key that the gate lists
// otherwise is an error that says how.
func listsSigner(list api.Trust, add addition, now time.Time) (bool, error) {
	var other error
	for _, s := range list.Signers {
		if s.Fingerprint != add.Key {
			continue
		}
		how, in := "", slices.Contains(s.Roles, add.Role)
		switch {
		case slices.Contains(list.Revoked, s.Fingerprint):
			how = "as a revoked key"
		case s.Principal != add.Name:
			how = "as the key of " + cli.Person(s.Principal)
		case in && s.CA:
			how = "as a certificate authority"
		case in && s.ValidAfter != nil && now.Before(*s.ValidAfter):
			how = "as valid only from " + s.ValidAfter.UTC().Format(time.RFC3339)
		case in && s.ValidBefore != nil && !now.Before(*s.ValidBefore):
			how = "as valid only until " + s.ValidBefore.UTC().Format(time.RFC3339)
		case in && list.Blocked:
			how = "but accepts no signature, because it cannot read its revocation file"
		case in:
			return true, nil
		}
		if how != "" {
			other = refusal.New(refusal.Conflict, "the gate lists the key in line %d, %s", s.Line, how)
		}
	}
	return false, other
}

// nextToSign returns the commands with which people sign a rotation: the holder of the new key, unless that was done,
// and an operator, or recovery where it alone decides. The holder has another way to the gate, and the key elsewhere.
func nextToSign(at client.Address, r api.Request, add addition) []string {
	approve := []string{"opsign", "approve", r.ID}
	where := []string{"--remote", string(at)}
	if o, err := (client.Options{}).At(at); err == nil && o.Remote == "" {
		where = []string{"--socket", o.Socket}
	}
	if add.Role == op.Recovery {
		where = append(where, "--role", string(op.Recovery))
	}
	next := []string{op.ShellWords(slices.Concat(approve, where)...)}
	if slices.Contains(r.Owed, add.Key+" "+string(add.Role)) {
		proves := op.ShellWords(append(approve, "--role", string(add.Role), "--key", "KEY")...)
		next = slices.Insert(next, 0, proves)
	}
	return next
}

// sayAdded prints what each gate answered, those that took nothing last.
func (t *tool) sayAdded(answers []*added) error {
	slices.SortStableFunc(answers, func(a, b *added) int { return min(api.Exit(a.err), 1) - min(api.Exit(b.err), 1) })
	worst := api.ExitDone
	for _, a := range answers {
		code := api.Exit(a.err)
		if a.err != nil {
			a.Error = cli.ProblemOf(a.err)
		} else if !a.Listed {
			code = api.ExitWaits
		}
		worst = worse(worst, code)
		if err := t.sayAdd(a); err != nil {
			return err
		}
	}
	return cli.Ended(worst)
}

func (t *tool) sayAdd(a *added) error {
	if _, err := a.said.WriteTo(t.Stderr); err != nil {
		return err
	}
	if t.JSON {
		return t.Emit(a)
	}
	text := "the key is listed already"
	switch {
	case a.Doubt:
		text = "not known whether it was asked: " + string(a.Error.Code) + ": " + a.Error.Detail
	case a.err != nil && a.Request != "":
		text = a.Request + " was asked for, and then: " + string(a.Error.Code) + ": " + a.Error.Detail
	case a.err != nil:
		text = "no request: " + string(a.Error.Code) + ": " + a.Error.Detail
	case len(a.Next) > 1:
		text = a.Request + " waits. First, the holder of the new key, at this gate: " + a.Next[0]
	case !a.Listed:
		text = a.Request + " waits for who approves it: " + a.Next[0]
	}
	t.Print("%s: %s\n", cli.Inline(a.Host), cli.Inline(text))
	return nil
}
