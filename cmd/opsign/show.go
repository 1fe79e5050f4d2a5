package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/people/shown"
	"gated/internal/wire/cli"
)

func (t *tool) showCommand() *cobra.Command {
	var raw, details bool
	c := t.Asking(cli.Words{
		Use:   "show ID",
		Short: "Show what a signature of a request would approve, what goes and what stays",
		Long: `Begins with the operation, its target and whether it can be undone. --details adds the ids, hashes and times that the
signature binds. --payload writes the exact bytes to sign, for OpenSSH:

  opsign show j12.1 --payload > op.json
  ssh-keygen -Y sign -n operational@gated -f ~/.ssh/id_ed25519 op.json
  opsign submit op.json --sig op.json.sig`,
		Example: "  opsign show j12.1\n" +
			"  opsign show j12.1 --details",
	}, cobra.ExactArgs(1), func(c *cobra.Command, cl *client.Client, args []string) error {
		q, err := t.question(c.Context(), cl, args[0])
		way := shown.ToProgram
		switch {
		case err != nil:
			return err
		case raw:
			_, err = t.Stdout.Write(q.bytes)
		case t.JSON:
			err = t.Emit(q.request)
		default:
			if cli.IsTerminal(t.Stdout) {
				way = shown.OnTerminal
			}
			v := t.view(details)
			if q.request.State.Open() {
				v.others, v.unlisted = cl.Requests(c.Context(), "")
			}
			_, err = io.WriteString(t.Stdout, t.painted(q.text(v)+q.digestText(), t.Stdout))
		}
		if err == nil {
			t.keepOrSay(q, way, !raw)
		}
		return err
	})
	c.ValidArgsFunction = t.completeRequest
	c.Flags().BoolVar(&raw, "payload", false, "write the exact bytes to sign, and nothing else")
	c.Flags().BoolVar(&details, "details", false, flagDetails)
	return c
}

const flagDetails = "also show the ids, hashes and times that the signature binds"

// view is how a request is shown.
type view struct {
	now      time.Time     // of this machine's clock
	dash     string        // stands between the parts of a headline
	details  bool          // also what is signed beside the wish, and facts about other operations
	more     string        // how an operator gets the details; "": opsign show ID --details
	others   []api.Request // of which those that are open for the same target are named
	unlisted error         // why others is not all of them
}

func (t *tool) view(details bool) view {
	return view{now: t.now(), dash: cli.Dash(t.Getenv), details: details}
}

// text shows a request for people: what the bytes to sign would do and whether
// that can be undone, what goes and what stays, who asks and why, and what is missing.
// What the details have is counted where they are not shown.
func (q question) text(v view) string {
	r := q.request
	text := q.headline(v.dash) + "\n" +
		fmt.Sprintf("  request %s: %s, %s\n", cli.Inline(r.ID), cli.Inline(q.payload.Op), cli.Inline(string(r.State)))
	if len(q.payload.Params) > 0 && q.payload.Op != op.Rotate {
		text += cli.Columns("    " + cli.Row("params", string(q.payload.Params.Canonical())))
	}
	f := q.fates()
	text += rotationText(q.payload, r.Facts) + q.losesText(f, v.now) + q.askedText(v) + q.besideText(v) +
		f.text(q.payload.Op, "", op.Stays, op.Unsure)
	if none := f[op.Absent]; len(none) > 0 {
		names := make([]string, len(none))
		for i, f := range none {
			names[i] = cli.Inline(f.Name)
		}
		text += "  not there: " + strings.Join(names, ", ") + "\n"
	}
	if r.Detail != "" {
		text += fmt.Sprintf("  outcome: %s\n", cli.Inline(r.Detail))
	}
	for line := range strings.Lines(cli.Signed(r) + cli.Needed(r) + cli.Delays(r, v.now)) {
		text += "  " + line
	}
	return text + leftText(r, v.now) + q.detailsText(v, f[behind])
}

// askedText says who asks, since when, and why, and how often operators rejected the
// same. The reasons are the requesters' own words and stand in quotes.
func (q question) askedText(v view) string {
	r := q.request
	who := slices.Clone(r.RequestedBy)
	for i, by := range who {
		if name := r.Users[by]; name != "" {
			who[i] = fmt.Sprintf("%s (%s)", op.ShownName(name), by)
		}
	}
	text := "  asked by " + cli.Inline(strings.Join(who, ", "))
	if r.State.Open() && !r.CreatedAt.IsZero() {
		text += fmt.Sprintf(" since %s (%s)", cli.Moment(r.CreatedAt), cli.Span(v.now.Sub(r.CreatedAt)))
	}
	text += "\n" + cli.Reasons("  ", q.payload.Reason, r.Reasons)
	if r.Why != "" {
		text += fmt.Sprintf("  why it waits: %s\n", cli.Inline(r.Why))
	}
	return text + cli.Rejections("  ", r, v.details)
}

// besideText names the other requests that are open for the target of one that is, and which of them need no more signature.
func (q question) besideText(v view) string {
	var ids []string
	for _, r := range v.others {
		if r.State.Open() && r.Target == q.request.Target && r.ID != q.request.ID {
			state := strings.TrimPrefix(" ("+string(r.State)+")", " ("+string(op.StatePending)+")")
			ids = append(ids, cli.Inline(r.ID+state))
		}
	}
	target := cli.Inline(q.request.Target)
	switch {
	case v.unlisted != nil:
		return fmt.Sprintf("  what else waits for %s could not be listed: %s\n", target, refusalLine(v.unlisted))
	case len(ids) == 0 || !q.request.State.Open():
		return ""
	}
	return fmt.Sprintf("  also waiting for %s: %s\n", target, strings.Join(ids, ", "))
}

// leftText says how long a signature counts. It is empty of a request that has
// ended.
func leftText(r api.Request, now time.Time) string {
	left := r.ExpiresAt.Sub(now)
	switch {
	case !r.State.Open() || r.ExpiresAt.IsZero():
		return ""
	case left > 0:
		return fmt.Sprintf("  a signature now counts for %s more\n", cli.Span(left))
	}
	return "  its payload is over, and the gate will issue it anew\n"
}

// detailsText shows every member of the payload whole, and the facts that are not
// shown yet; or how many of them there are, and how to see them.
func (q question) detailsText(v view, behind []op.Fact) string {
	if v.details {
		text := wordsSigned + payloadText(q.payload)
		if len(behind) > 0 {
			text += "  what else is known of the target:\n" + cli.Facts("    ", behind)
		}
		return text + takesBatchText(q.request)
	}
	more := cmp.Or(v.more, "opsign show "+cli.Inline(q.request.ID)+" --details")
	return fmt.Sprintf("  %s: %s\n", more, cli.Count(len(q.behind())+len(behind), "more fact"))
}

// takesBatchText says in which roles a batch counts for a request that waits. An older gate says nothing, and takes none.
func takesBatchText(r api.Request) string {
	switch {
	case r.State != op.StatePending:
		return ""
	case len(r.Batch) == 0:
		return "  no batch counts: each signature is over this request alone\n"
	default:
		return fmt.Sprintf("  a batch counts as %s, by keys that may sign one\n", cli.Inline(roles(r.Batch)))
	}
}

// behind are the members of a payload that are shown as details alone.
func (q question) behind() []op.Fact {
	return slices.DeleteFunc(payloadFacts(q.payload), func(f op.Fact) bool {
		return slices.Contains([]string{"op", "target", "host", "reason"}, f.Name) ||
			f.Name == "params" && len(q.payload.Params) > 0 && q.payload.Op != op.Rotate
	})
}

const wordsSigned = "  what the signature binds:\n"

// payloadText shows every member of a payload whole.
func payloadText(p op.Payload) string {
	var rows []string
	for _, f := range payloadFacts(p) {
		rows = append(rows, "    "+cli.Row(f.Name, f.Text))
	}
	return cli.Columns(rows...)
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
