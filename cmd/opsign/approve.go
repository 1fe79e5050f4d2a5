package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

const flagNoWait = "do not wait for the outcome"

func (t *tool) approveCommand() *cobra.Command {
	var k keyFlags
	var yes, noWait, details bool
	var payloads []string
	c := t.Command(cli.Words{
		Use:   "approve ID...",
		Short: "Sign requests, and wait for their outcome",
		Long: `Shows each request with what goes and what stays, asks, signs, and waits 30 seconds for the outcome. It shows and
asks on the terminal that it is run from; without one it needs --yes. With --yes it signs only what opsign showed
last of the request on this machine, or the bytes that --payload names. opsign review walks through all that waits.
The key is that of --key, --fingerprint or --cert, else key in ~/.config/gated/client.yaml, else the one of ssh-agent's
that the gate lists for the role, else ~/.ssh/id_ed25519, id_ecdsa or id_rsa. If the gate lists several, it asks which.

Exits 0 if the step is done, is under way, cools off or waits for its window, 1 if it was refused or failed, 3 if more
people have to sign, and says who could.`,
		Example: "  opsign approve j12.1\n" +
			"  opsign show j12.1; opsign approve j12.1 --agent --fingerprint SHA256:abc... --yes\n" +
			"  opsign approve j12.1 --yes --payload sha256:...",
	}, cobra.MinimumNArgs(1), func(c *cobra.Command, args []string) error {
		asks, err := t.asker(yes, k, payloads...)
		if err != nil {
			return err
		}
		defer asks.close()
		return t.With(func(cl *client.Client) error {
			a := approval{asker: asks, client: cl, wait: !noWait, details: details}
			if len(args) == 1 {
				return a.one(c.Context(), args[0])
			}
			return a.each(c, args)
		})
	})
	c.ValidArgsFunction = t.completeRequest
	t.keyFlags(c, &k)
	c.Flags().BoolVar(&yes, "yes", false, flagYesShown)
	t.payloadFlag(c, &payloads)
	c.Flags().BoolVar(&noWait, "no-wait", false, flagNoWait)
	c.Flags().BoolVar(&details, "details", false, flagDetails)
	return c
}

// approval is one run of approve.
type approval struct {
	*asker // review has a screen of its own, and asks there
	client *client.Client
	wait   bool

	details bool // requests are shown with them
}

// each goes through several requests, which stand for themselves: what is wrong
// with one is no reason to leave the others. It ends with the first failure's
// exit code.
func (a *approval) each(c *cobra.Command, ids []string) error {
	code := api.ExitDone
	for _, id := range ids {
		err := a.one(c.Context(), id)
		if err == nil {
			continue
		}
		if api.Exit(err) == api.ExitUnreachable {
			return err // nor would the others be reached
		}
		a.Say("%s:\n", cli.Inline(id))
		if failed := a.Fail(c.CommandPath(), err); code == api.ExitDone {
			code = failed
		}
	}
	return cli.Ended(code)
}

const wordsConfirmApprove = "Sign %s of %s as %s? Type yes:"

// one shows, confirms, signs and hands in one request, and ends by its outcome.
func (a *approval) one(ctx context.Context, id string) error {
	q, err := a.question(ctx, a.client, id)
	if err != nil {
		return err
	}
	if err := a.ready(&q); err != nil {
		return err
	}
	role, err := a.mayAs(ctx, q.request)
	if err != nil {
		return err
	}
	if err := a.decides(q, wordsConfirmApprove, role); err != nil {
		return err
	}
	r, err := a.signShown(ctx, q, role)
	if err != nil {
		return err
	}
	return a.outcome(ctx, a.client, r, a.wait)
}

// ready shows a request, and refuses one that is decided or, if nobody is asked, one that is not as
// it was shown before.
func (a *approval) ready(q *question) (err error) {
	if err := a.showRequest(*q, a.view(a.details)); err != nil {
		return err
	}
	if err := answered(q.request); err != nil {
		return err
	}
	*q, err = a.allowed(*q)
	if c := (*changed)(nil); errors.As(err, &c) {
		err = errors.Join(a.sayChanged(c, sinceShownBefore), err)
	}
	return err
}

// signShown signs what was shown. If it changed since, it shows what differs; if only
// counters moved, it asks the operator whether they may, and tries again.
func (a *approval) signShown(ctx context.Context, q question, role op.Role) (api.Request, error) {
	for {
		r, err := a.sign(ctx, q, role)
		var c *changed
		if !errors.As(err, &c) {
			return r, err
		}
		if shown := a.sayChanged(c, sinceShownNow); shown != nil || !c.now.moving || a.tty == nil {
			return r, errors.Join(shown, err)
		}
		if err := a.decides(c.now, "Only counts, sizes and times move, as of a guest that writes. Sign %s of %s as %s, whatever "+
			"they are by then? Type yes:", role); err != nil {
			return r, err
		}
		q = c.now
	}
}

// sign looks once more, signs the bytes that were shown, and hands them in. The
// look comes after the passphrase, which takes as long as a person likes.
func (a *approval) sign(ctx context.Context, q question, role op.Role) (api.Request, error) {
	signer, err := a.keys.key(ctx, a.use(role))
	if err != nil {
		return q.request, err
	}
	if err := a.again(ctx, a.client, q); err != nil {
		return q.request, err
	}
	armor, err := signer.Sign(ctx, role, q.bytes)
	if err != nil {
		a.keys.forget(role)
		return q.request, err
	}
	r, err := a.client.Approve(ctx, q.request.ID, api.EnvelopeOf(q.bytes, armor))
	if err != nil {
		a.keys.forget(role)
	}
	return r, cli.Unanswered(err, "", maybeCounted(q.request.ID))
}

// mayAs returns the role to sign a request as, and looks whether there is a key for it that the gate takes.
func (a *approval) mayAs(ctx context.Context, r api.Request) (op.Role, error) {
	role, err := a.keys.flags.roleFor(usefulRoles(r, a.keys.flags))
	if err == nil {
		err = a.keys.ready(ctx, use{role: role, gates: []*client.Client{a.client}, owed: r.Owed})
	}
	return role, err
}

func (a *approval) use(role op.Role) use { return use{role: role, gates: []*client.Client{a.client}} }

// usefulRoles returns the roles that a key may sign in. Where the operator names
// none, it is those that are still needed. A new key may prove itself in a role
// that nobody else is asked for.
func usefulRoles(r api.Request, k keyFlags) []op.Role {
	if k.role == "" {
		if open := cli.OpenRoles(r); len(open) > 0 {
			return open
		}
		return r.Roles
	}
	may := slices.Clone(r.Roles)
	for _, owed := range r.Owed {
		if _, role, ok := strings.Cut(owed, " "); ok {
			may = append(may, op.Role(role))
		}
	}
	return may
}

// codes are those with which a gate refuses a signature for a request that ended so.
var codes = map[op.State]refusal.Code{op.StateRejected: refusal.Rejected, op.StateCancelled: refusal.Cancelled,
	op.StateSuperseded: refusal.Superseded, op.StateExpired: refusal.Expired}

// answered refuses, as the gate would, to ask for a signature that no gate would take: the request is decided.
func answered(r api.Request) error {
	if r.State == op.StatePending {
		return nil
	}
	return refusal.New(cmp.Or(codes[r.State], refusal.Replayed), "%s is %s: there is nothing to sign any more", r.ID, r.State).
		WithHint("opsign show %s says what became of it, opsign list what waits now", r.ID)
}

// maybeCounted is said where the connection broke before the answer to an approval,
// and haveCounted where it broke after that.
func maybeCounted(id string) string {
	return fmt.Sprintf("the approval was handed in; whether it counted is not known: opsign show %s says", op.Shown(id))
}

// maxSignatureFile is the largest signature file that is read, in bytes; the
// longest signature that a gate takes has less.
const maxSignatureFile = 64 << 10

// readSignatures reads files with a signature each.
func readSignatures(files []string) ([]string, error) {
	var signatures []string
	for _, f := range files {
		s, err := cli.ReadFile(f, maxSignatureFile)
		if err != nil {
			return nil, err
		}
		signatures = append(signatures, string(s))
	}
	return signatures, nil
}

const flagSig = "the `FILE` with the armored signature"

func (t *tool) submitCommand() *cobra.Command {
	var files []string
	var noWait bool
	c := t.Command(cli.Words{
		Use:     "submit PAYLOAD --sig FILE...",
		Short:   "Hand in what was signed elsewhere, with ssh-keygen or opsign sign",
		Example: "  opsign submit op.json --sig op.json.sig",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		payload, err := cli.ReadFile(args[0], op.MaxPayload)
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return cli.Usage("say with --sig which file has the signature")
		}
		signatures, err := readSignatures(files)
		if err != nil {
			return err
		}
		return t.submit(c, payload, signatures, !noWait)
	})
	c.ValidArgsFunction = nil // files
	c.Flags().StringArrayVar(&files, "sig", nil, flagSig)
	_ = c.MarkFlagFilename("sig", "sig") // the flag was just added
	c.Flags().BoolVar(&noWait, "no-wait", false, flagNoWait)
	return c
}

// submit hands in an approval or a rejection, whichever the payload says it is.
func (t *tool) submit(c *cobra.Command, payload []byte, signatures []string, wait bool) error {
	return t.With(func(cl *client.Client) error {
		if _, err := t.knownGate(c.Context(), cl); err != nil {
			return err
		}
		envelope := api.EnvelopeOf(payload, signatures...)
		if rejection, err := op.DecodeRejection(payload); err == nil {
			r, err := cl.Reject(c.Context(), rejection.Request.String(), envelope)
			if err != nil {
				return err
			}
			return t.rejected(r)
		}
		// What is neither goes to the gate as it is: it refuses it, and has it in
		// its log.
		r, err := cl.SubmitSigned(c.Context(), envelope)
		if err != nil {
			return cli.Unanswered(err, "",
				"it was handed in; whether it counted is not known: opsign list --all and gated jobs say")
		}
		return t.outcome(c.Context(), cl, r, wait)
	})
}
