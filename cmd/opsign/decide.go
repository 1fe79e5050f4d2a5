package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
	"gated/internal/wire/question"
)

// asker is where a decision is shown and asked for. Both are on the one
// controlling terminal, wherever standard error goes, so that nobody confirms
// what they were not shown. With --yes nobody is asked, and it shows beside the
// answer.
type asker struct {
	*tool
	tty *os.File // nil with --yes
}

const wordsNeedsYes = "there is no terminal to ask on: read opsign show ID, then say --yes"

// asker refuses, before anything is shown, a run in which nobody can be asked,
// or whose flags are wrong. Whoever calls it closes the asker.
func (t *tool) asker(yes bool, k keyFlags) (*asker, error) {
	if err := t.check(k); err != nil {
		return nil, err
	}
	t.unasked = yes
	if yes {
		return &asker{tool: t}, nil
	}
	if !cli.IsTerminal(t.stdin) {
		return nil, cli.Usage(wordsNeedsYes)
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil, cli.Usage(wordsNeedsYes)
	}
	return &asker{tool: t, tty: tty}, nil
}

func (a *asker) close() {
	if a.tty != nil {
		_ = a.tty.Close() // what was asked was answered
	}
}

// show shows text of several lines.
func (a *asker) show(text string) error { return a.write(text, cli.Told) }

// showRequest shows a request, whose parts are coloured where the terminal has
// colours.
func (a *asker) showRequest(q question.Question, details bool) error {
	return a.write(q.Text(a.view(details)), a.painted)
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
	return strings.Join(cli.Paint(cli.Wrapped(text, cli.Width(to)), question.CannotUndo), "\n") + "\n"
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
		return asks.reject(c, args[0], reason, k)
	})
	c.ValidArgsFunction = t.completeRequest
	t.keyFlags(c, &k)
	c.Flags().BoolVar(&yes, "yes", false, flagYes)
	c.Flags().StringVar(&reason, "reason", "", "why, for the requester")
	return c
}

const wordsConfirmReject = "Reject %s of %s as %s? Type yes:"

func (a *asker) reject(c *cobra.Command, id, reason string, k keyFlags) error {
	cl, err := a.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	q, err := a.question(c.Context(), cl, id)
	if err != nil {
		return err
	}
	if err := a.showRequest(q, false); err != nil {
		return err
	}
	payload, err := q.Rejection(reason, a.now())
	if err != nil {
		return err
	}
	role, err := k.roleFor(q.Request.Roles)
	if err != nil {
		return err
	}
	if err := a.confirm(wordsConfirmReject, q.Payload.Op, q.Payload.Target.String(), role); err != nil {
		return err
	}
	signer, err := a.keySigner(c.Context(), k)
	if err != nil {
		return err
	}
	armor, err := signer.Sign(c.Context(), role, payload)
	if err != nil {
		return err
	}
	r, err := cl.Reject(c.Context(), id, api.EnvelopeOf(payload, armor))
	if err != nil {
		return err
	}
	return a.rejected(r)
}

// rejected prints how a request stands after a rejection.
func (t *tool) rejected(r api.Request) error {
	if t.JSON {
		return t.Emit(r)
	}
	t.Print("%s is %s\n", cli.Inline(r.ID), cli.Inline(string(r.State)))
	return nil
}

// again asks for a request once more, right before it is signed. It refuses, as
// StaleTarget, with *question.Changed, one whose bytes or facts are not those that were
// shown, and one that is decided as the gate would.
func (t *tool) again(ctx context.Context, cl *client.Client, shown question.Question) error {
	now, err := t.question(ctx, cl, shown.Request.ID)
	if err != nil {
		return err
	}
	return question.Unchanged(shown, now)
}
