package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/op"
)

func (t *tool) showCommand() *cobra.Command {
	var raw bool
	c := t.Command(cli.Words{
		Use:   "show ID",
		Short: "Show what a signature of a request would approve, and what would be lost",
		Long: `With --payload writes the exact bytes to sign, for OpenSSH:

  opsign show j12.1 --payload > op.json
  ssh-keygen -Y sign -n operational@gated -f ~/.ssh/id_ed25519 op.json
  opsign submit op.json --sig op.json.sig`,
		Example: "  opsign show j12.1",
	}, cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		q, err := t.question(c.Context(), cl, args[0])
		switch {
		case err != nil:
			return err
		case raw:
			_, err = t.Stdout.Write(q.bytes)
			return err
		case t.JSON:
			return t.Emit(q.request)
		}
		t.Print("%s", told(q.text(t.now()), t.Stdout))
		return nil
	})
	c.ValidArgsFunction = t.completeRequest
	c.Flags().BoolVar(&raw, "payload", false, "write the exact bytes to sign, and nothing else")
	return c
}

const wordsSigned = "  what the signature binds:\n"

// text shows a request for people: first what would be signed, from the bytes,
// then what the gate says beside it. now is this machine's clock.
func (q question) text(now time.Time) string {
	r := q.request
	text := fmt.Sprintf("request %s: %s, for %s\n",
		cli.Inline(r.ID), cli.Inline(string(r.State)), cli.Inline(strings.Join(r.RequestedBy, ", "))) +
		sinceText(r, now) + wordsSigned + cli.Columns(payloadRows(q.payload)[:wishRows]...) + rotationText(q.payload,
		r.Facts) + lostText(r, now)
	if r.Why != "" {
		text += fmt.Sprintf("  why it waits: %s\n", cli.Inline(r.Why))
	}
	if r.Detail != "" {
		text += fmt.Sprintf("  outcome: %s\n", cli.Inline(r.Detail))
	}
	for line := range strings.Lines(cli.Signed(r) + cli.Needed(r) + cli.Delays(r, now)) {
		text += "  " + line
	}
	return text + "  the signature binds as well:\n" + cli.Columns(payloadRows(q.payload)[wishRows:]...)
}

// sinceText says since when a request waits and how long its payload still
// counts. It is empty of one that has ended.
func sinceText(r api.Request, now time.Time) string {
	if !r.State.Open() || r.CreatedAt.IsZero() {
		return ""
	}
	text := fmt.Sprintf("  waits since %s (%s)", cli.Moment(r.CreatedAt), cli.Span(now.Sub(r.CreatedAt)))
	if left := r.ExpiresAt.Sub(now); left > 0 {
		return text + fmt.Sprintf("; a signature now counts for %s more\n", cli.Span(left))
	}
	return text + "; its payload is over and will be issued anew\n"
}

// payloadText shows every member of a payload whole.
func payloadText(p op.Payload) string { return cli.Columns(payloadRows(p)...) }

// wishRows is how many of payloadRows say what is to happen; the others say to
// what exactly, and when.
const wishRows = 5

func payloadRows(p op.Payload) (rows []string) {
	for _, f := range payloadFacts(p) {
		rows = append(rows, "    "+cli.Row(f.Name, f.Text))
	}
	return rows
}

// payloadFacts are the members of a payload, each with its name.
func payloadFacts(p op.Payload) []op.Fact {
	return []op.Fact{
		{Name: "op", Text: p.Op},
		{Name: "target", Text: p.Target.String()},
		{Name: "params", Text: string(p.Params.Canonical())},
		{Name: "host", Text: p.Host},
		{Name: "reason", Text: p.Reason},
		{Name: "gate", Text: string(p.Gate)},
		{Name: "incarnation", Text: string(p.Incarnation)},
		{Name: "state", Text: string(p.State)},
		{Name: "valid", Text: cli.Moment(p.IssuedAt) + " to " + cli.Moment(p.ExpiresAt)},
		{Name: "nonce", Text: p.Nonce},
	}
}

func roles(rs []op.Role) string {
	out := make([]string, 0, len(rs))
	for _, r := range rs {
		out = append(out, string(r))
	}
	return cli.Inline(strings.Join(out, ", "))
}
