package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/people/shown"
	"gated/internal/wire/cli"
)

// asker is where a decision is shown and asked for. Both are on the one
// controlling terminal, wherever standard error goes, so that nobody confirms
// what they were not shown. With --yes nobody is asked, and it shows beside the
// answer.
type asker struct {
	*tool
	tty      *os.File // nil with --yes
	payloads []string // the digests of --payload; empty: it was not given
	keys     *keyring
}

const wordsNeedsYes = "there is no terminal to ask on: read opsign show ID, then say --yes"

const flagYes = "do not ask for a confirmation"

// flagYesShown is flagYes where the run approves.
const flagYesShown = "do not ask for a confirmation, and sign only what opsign show showed"

// asker refuses, before anything is shown, a run in which nobody can be asked,
// or whose flags are wrong. Whoever calls it closes the asker.
func (t *tool) asker(yes bool, k keyFlags, payloads ...string) (*asker, error) {
	keys, err := t.keyring(k)
	if err != nil {
		return nil, err
	}
	if err := checkDigests(payloads); err != nil {
		return nil, err
	}
	t.unasked = yes
	if yes {
		return &asker{tool: t, payloads: payloads, keys: keys}, nil
	}
	if !cli.IsTerminal(t.stdin) {
		return nil, cli.Usage(wordsNeedsYes)
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, cli.Usage(wordsNeedsYes)
	}
	return &asker{tool: t, tty: tty, payloads: payloads, keys: keys}, nil
}

func (a *asker) close() {
	if a.tty != nil {
		_ = a.tty.Close() // what was asked was answered
	}
}

// show shows text of several lines.
func (a *asker) show(text string) error { return a.write(text, cli.Told) }

// showRequest shows a request, whose parts are coloured where the terminal has
// colours. A person who is asked sees above it what differs from what was shown before.
func (a *asker) showRequest(q question, v view) error {
	if a.tty != nil {
		if text := a.sinceShown(q); text != "" {
			if err := a.show(text); err != nil {
				return err
			}
		}
	}
	err := a.write(q.text(v), a.painted)
	if err == nil && a.tty != nil {
		_ = a.keep(q, shown.OnTerminal, true) // a person decides now; a later run that asks nobody finds nothing, and refuses
	}
	return err
}

func (a *asker) write(text string, layout func(string, io.Writer) string) error {
	if a.tty == nil {
		a.Say("%s", layout(text, a.Stderr))
		return nil
	}
	_, err := a.tty.WriteString(layout(text, a.tty))
	return err
}

// painted is cli.Told with colours where the terminal has them.
func (t *tool) painted(text string, to io.Writer) string {
	if !cli.Colours(to, t.Getenv) {
		return cli.Told(text, to)
	}
	return strings.Join(cli.Paint(cli.Wrapped(text, cli.Width(to)), op.CannotUndo), "\n") + "\n"
}

// decides is confirm for one request. It says the headline again, because what is shown below the first one may have pushed
// that off the screen.
func (a *asker) decides(q question, asks string, role op.Role) error {
	if a.tty != nil {
		if err := a.write(q.headline(cli.Dash(a.Getenv))+"\n", a.painted); err != nil {
			return err
		}
	}
	return a.confirm(asks, q.payload.Op, q.payload.Target.String(), role)
}

// confirm asks whether to sign; only "yes", typed after the question is there,
// is one.
func (a *asker) confirm(question, name, target string, role op.Role) error {
	if a.tty == nil {
		return nil
	}
	forget(a.tty)
	asked := cli.Told(fmt.Sprintf(question, cli.Inline(name), cli.Inline(target), cli.Inline(string(role))), a.tty)
	if _, err := a.tty.WriteString(strings.TrimSuffix(asked, "\n") + " "); err != nil {
		return err
	}
	line, err := readLine(a.tty)
	defer clear(line)
	if err != nil || !bytes.Equal(bytes.TrimSpace(line), []byte("yes")) {
		return notConfirmed()
	}
	return nil
}

func notConfirmed() error {
	return refusal.New(refusal.Cancelled, "not confirmed, nothing was signed").
		WithHint("to sign, run it again and type yes")
}

// rejectionValidity is how long a rejection may take to reach the gate.
const rejectionValidity = 15 * time.Minute

func (t *tool) rejectCommand() *cobra.Command {
	var k keyFlags
	var yes bool
	var reason string
	c := t.Command(cli.Words{
		Use:     "reject ID --reason TEXT",
		Short:   "Sign the refusal of a request",
		Long:    "The request ends, and the same wish is refused until it changes.",
		Example: "  opsign reject j12.1 --reason \"still in use\"",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if reason == "" {
			return cli.Usage("say with --reason why, for the requester")
		}
		asks, err := t.asker(yes, k)
		if err != nil {
			return err
		}
		defer asks.close()
		return asks.reject(c, args[0], reason)
	})
	c.ValidArgsFunction = t.completeRequest
	t.keyFlags(c, &k)
	c.Flags().BoolVar(&yes, "yes", false, flagYes)
	c.Flags().StringVar(&reason, "reason", "", "why, for the requester")
	return c
}

const wordsConfirmReject = "Reject %s of %s as %s? Type yes:"

func (a *asker) reject(c *cobra.Command, id, reason string) error {
	cl, err := a.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	q, err := a.question(c.Context(), cl, id)
	if err != nil {
		return err
	}
	if err := a.showRequest(q, a.view(false)); err != nil {
		return err
	}
	payload, err := a.rejection(q, reason)
	if err != nil {
		return err
	}
	wanted, err := a.mayReject(c.Context(), cl, q.request)
	if err != nil {
		return err
	}
	if err := a.decides(q, wordsConfirmReject, wanted.role); err != nil {
		return err
	}
	r, err := a.signAndReject(c.Context(), cl, wanted, id, payload)
	if err != nil {
		return err
	}
	return a.rejected(r)
}

// mayReject returns what a key is wanted for that rejects a request, once there is one that the gate takes.
func (a *asker) mayReject(ctx context.Context, cl *client.Client, r api.Request) (use, error) {
	role, err := a.keys.flags.roleFor(r.Roles)
	u := use{role: role, gates: []*client.Client{cl}}
	if err == nil {
		err = a.keys.ready(ctx, u)
	}
	return u, err
}

// signAndReject signs a rejection, and hands it in.
func (a *asker) signAndReject(ctx context.Context, cl *client.Client, u use, id string, payload []byte) (r api.Request, err error) {
	signer, err := a.keys.key(ctx, u)
	if err != nil {
		return r, err
	}
	armor, err := signer.Sign(ctx, u.role, payload)
	if err == nil {
		r, err = cl.Reject(ctx, id, api.EnvelopeOf(payload, armor))
	}
	if err != nil {
		a.keys.forget(u.role)
	}
	return r, err
}

// rejection makes the bytes of a rejection of what was shown.
func (t *tool) rejection(q question, reason string) ([]byte, error) {
	id, err := op.ParseStepID(q.request.ID)
	if err != nil {
		return nil, err
	}
	now := t.now().UTC().Truncate(time.Second)
	return op.Rejection{Gate: q.payload.Gate, Host: q.payload.Host, Request: id, PayloadSHA256: op.SHA256(q.bytes),
		Nonce: op.NewNonce(now), IssuedAt: now, ExpiresAt: now.Add(rejectionValidity), Reason: reason}.Encode()
}

// rejected prints how a request stands after a rejection.
func (t *tool) rejected(r api.Request) error {
	return t.Answer(r, "%s is %s\n", cli.Inline(r.ID), cli.Inline(string(r.State)))
}

// changed is the refusal to sign a request that is not as it was shown.
type changed struct {
	error
	now  question
	what string // what differs, for people; a line for each part, with its end
}

func (c *changed) Unwrap() error { return c.error }

// again asks for a request once more, right before it is signed. It refuses, as
// StaleTarget, with *changed, one whose bytes or facts are not those that were
// shown, and one that is decided as the gate would.
func (t *tool) again(ctx context.Context, cl *client.Client, shown question) error {
	now, err := t.question(ctx, cl, shown.request.ID)
	if err != nil {
		return err
	}
	return unchanged(shown, now)
}

// unchanged refuses as again does, given the second look.
func unchanged(shown, now question) error {
	if err := answered(now.request); err != nil {
		return err
	}
	if what := now.since(shown); what != "" {
		refused := refusal.New(refusal.StaleTarget, "%s changed after it was shown, and was not signed", shown.request.ID)
		return &changed{refused.WithHint("read it again: opsign review, or opsign approve %s", shown.request.ID), now, what}
	}
	return nil
}

// since says how a look differs from what was shown before, and notes whether that
// is in counters alone.
func (q *question) since(shown question) string {
	what := differs(shown, *q)
	q.moving = shown.moving
	if what != "" {
		q.moving = moves(shown, *q)
	}
	return what
}

// diskMoves are the parts of a fact about a disk that change while a guest writes.
var diskMoves = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\([0-9.]+ [KMGTPE]?i?B allocated\)|last write [0-9TZ:-]+`)
})

// counters reports whether two facts differ in nothing but what a guest that writes
// changes all the time: how much data it has, and when it wrote last.
func counters(a, b op.Fact) bool {
	switch {
	case a.Name != b.Name:
		return false
	case a.Name == "files", a.Name == "bytes", a.Name == "last write":
		return true
	}
	return diskMoves().ReplaceAllString(a.Text, "") == diskMoves().ReplaceAllString(b.Text, "")
}

// moves reports whether two looks differ in nothing but counters.
func moves(was, now question) bool {
	was.moving = true
	return differs(was, now) == ""
}

const wordsIs = "now "

// differs says what of a request is not as it was shown: what the signature would
// bind, the facts, the target's labels, and why it waits. It is empty if all of it
// is the same, but for counters of which the operator knows that they move.
func differs(was, now question) string {
	return difference(was, now, was.moving && bytes.Equal(was.bytes, now.bytes), nil)
}

// difference is differs, without the facts of which except holds, and without counters if it is
// tolerant.
func difference(was, now question, tolerant bool, except func(op.Fact) bool) string {
	kept := func(facts []op.Fact) []op.Fact {
		return slices.DeleteFunc(facts, func(f op.Fact) bool { return except != nil && except(f) })
	}
	// What is signed is compared by itself: a fact of its name is not it, and it does not move on.
	gone, come := unlike(kept(payloadFacts(was.payload)), kept(payloadFacts(now.payload)), func(a, b op.Fact) bool { return a == b })
	goneToo, comeToo := unlike(kept(was.told()), kept(now.told()), func(a, b op.Fact) bool {
		return a == b || sameFact(a, was.request.FactsAt, b, now.request.FactsAt) || tolerant && counters(a, b)
	})
	gone, come = append(gone, goneToo...), append(come, comeToo...)
	if len(gone) == 0 && len(come) == 0 {
		// The parts of a payload are all that its bytes say (op.DecodePayload).
		return ""
	}
	var rows []op.Fact
	row := func(mark string, f op.Fact) { rows = append(rows, op.Fact{Name: mark + f.Name, Text: f.Text}) }
	for _, f := range gone {
		row("was ", f)
		come = slices.DeleteFunc(come, func(c op.Fact) bool {
			if c.Name == f.Name {
				row(wordsIs, c)
			}
			return c.Name == f.Name
		})
	}
	for _, f := range come {
		row(wordsIs, f)
	}
	return cli.Facts("  ", rows)
}

const wordsLabels = "labels of the target"

// told are the facts that people are shown before they sign, beside what is signed, but for limits, which lose nothing.
func (q question) told() []op.Fact {
	out := slices.DeleteFunc(slices.Clone(q.request.Facts), op.Fact.OnLimits)
	if text := labelsText(q.request.Labels); text != "" {
		out = append(out, op.Fact{Name: wordsLabels, Text: text})
	}
	if _, undo := q.undo(); undo == op.LosesNothing { // the headline says it
		out = append(out, op.Fact{Name: "loses", Text: strings.TrimPrefix(op.LosesNothing, "loses ")})
	}
	return append(out, op.Fact{Name: "why it waits", Text: q.request.Why})
}

// unlike returns what only the first list has, and what only the second has.
func unlike(a, b []op.Fact, same func(x, y op.Fact) bool) (gone, come []op.Fact) {
	come = slices.Clone(b)
	for _, x := range a {
		i := slices.IndexFunc(come, func(y op.Fact) bool { return same(x, y) })
		if i < 0 {
			gone = append(gone, x)
			continue
		}
		come = slices.Delete(come, i, i+1)
	}
	return gone, come
}
