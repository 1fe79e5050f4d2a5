package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/spelling"
	"gated/internal/wire/cli"
	"gated/internal/wire/convert"
)

func (t *tool) guestsCommand() *cobra.Command {
	c := t.Asking(cli.Words{
		Use:   "guests [NAME]",
		Short: "List guests, or show one: its provenance, and what a destroy of it needs",
		Example: "  gated guests\n" +
			"  gated guests web-1",
	}, cobra.MaximumNArgs(1), func(c *cobra.Command, cl *client.Client, args []string) error {
		if len(args) == 1 {
			name := strings.TrimPrefix(args[0], "guest/")
			g, err := cl.Guest(c.Context(), name)
			if err != nil {
				return nearGuest(c.Context(), cl, op.Target{Kind: op.KindGuest, Name: name}, err)
			}
			return cli.Each(&t.Tool, t.showGuest, g)
		}
		guests, err := cl.Guests(c.Context())
		if err != nil {
			return err
		}
		if text := alike(guests); text != "" {
			t.Say("%s", cli.Told(text, t.Stderr))
		}
		return t.listGuests(guests)
	})
	c.ValidArgsFunction = t.completeGuest
	return c
}

// nearGuest adds to the refusal of a guest that is not there which one is spelt almost so.
func nearGuest(ctx context.Context, cl *client.Client, to op.Target, err error) error {
	r := (*refusal.Refusal)(nil)
	if to.Kind != op.KindGuest || !errors.As(err, &r) || r.Code != refusal.UnknownTarget {
		return err
	}
	guests, failed := cl.Guests(ctx)
	var names []string
	for _, g := range guests {
		names = append(names, g.Name)
	}
	meant, ok := spelling.Nearest(to.Name, names)
	if failed != nil || !ok || meant == to.Name {
		return err
	}
	return r.WithHint("is %s meant? %s", op.Shown(meant), cmp.Or(r.Hint, "gated guests lists what there is"))
}

func (t *tool) listGuests(guests []api.Guest) error {
	if t.JSON {
		return cli.Each(&t.Tool, nil, guests...)
	}
	_, err := io.WriteString(t.Stdout, t.guestsText(guests, cli.Width(t.Stdout)))
	return err
}

var guestColumns = []cli.Column{{Head: "NAME"}, {Head: "BACK END", Rank: 1}, {Head: "STATE", Rank: 1}, {Head: "PROTECTED", Rank: 1},
	{Head: "SPEC", Rank: 3}, {Head: "DESTROY", Rank: 2}}

// guestsText lists guests in lines of at most cols columns.
func (t *tool) guestsText(guests []api.Guest, cols int) string {
	apart := cols == 0 || several(guests)
	rows := make([][]string, len(guests))
	for i, g := range guests {
		destroy := ""
		switch {
		case g.Error != nil:
			destroy = string(g.Error.Code) + ": " + g.Error.Detail
		case g.Destroy != nil:
			destroy = string(g.Destroy.Class)
		}
		rows[i] = []string{g.Name, "", g.State, yesNo(g.Protected), cli.Settings(g.Spec), destroy}
		if apart {
			rows[i][1] = g.Backend
		}
	}
	return cli.Table(cols, cli.Ellipsis(t.Getenv), guestColumns, rows)
}

// alike warns of names that differ in nothing but case. People read one for the other, and on some file systems and
// networks they are one.
func alike(guests []api.Guest) string {
	of := map[string][]string{}
	for _, g := range guests {
		folded := strings.ToLower(g.Name)
		if !slices.Contains(of[folded], g.Name) {
			of[folded] = append(of[folded], g.Name)
		}
	}
	text := ""
	for _, folded := range slices.Sorted(maps.Keys(of)) {
		if names := of[folded]; len(names) > 1 {
			slices.Sort(names)
			for i := range names {
				names[i] = cli.Inline(names[i])
			}
			text += fmt.Sprintf("warning: the names %s differ only in case: look twice which one a step is for\n", strings.Join(names, ", "))
		}
	}
	return text
}

// several reports whether guests are of more than one back end.
func several(guests []api.Guest) bool {
	for _, g := range guests {
		if g.Backend != guests[0].Backend {
			return true
		}
	}
	return false
}

// showGuest prints everything that is known of one guest.
func (t *tool) showGuest(g api.Guest) error {
	rows := []string{cli.Row("name", g.Name), cli.Row("state", g.State)}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, cli.Row(name, value))
		}
	}
	if g.Error != nil {
		add("error", string(g.Error.Code)+": "+g.Error.Detail)
	}
	add("back end", g.Backend)
	add("incarnation", string(g.Incarnation))
	add("fingerprint", string(g.Fingerprint))
	add("spec", cli.Settings(g.Spec))
	add("labels", labels(g.Labels))
	add("protected", yes(g.Protected))
	add("provenance", provenance(g))
	if g.Destroy != nil {
		add("destroy", string(g.Destroy.Class)+" ("+g.Destroy.Rule+"): "+g.Destroy.Why)
	}
	for _, f := range g.Facts {
		name := f.Name
		if len(f.OnUndo()) > 0 { // its name is an operation, and the row destroy says another thing of that
			name = "undo of " + name
		}
		add(name, f.Text)
		if name == "snapshots" {
			g.Snapshots = nil // it names them
		}
	}
	for _, d := range g.Disks {
		add("disk", fmt.Sprintf("%s, %d MiB", d.Name, d.Size>>20))
	}
	add("snapshots", strings.Join(g.Snapshots, ", "))
	add("backups", strings.Join(g.Backups, ", "))
	for _, tr := range g.Trash {
		add("in the trash", string(tr.Incarnation)+" until "+cli.Moment(tr.Until))
	}
	return t.Table(rows...)
}

func labels(m map[string]string) string {
	out := make([]string, 0, len(m))
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	sort.Strings(out)
	return strings.Join(out, " ")
}

func (t *tool) classifyCommand() *cobra.Command {
	return t.askCommand(cli.Words{
		Use:     "classify OP NAME [-p NAME=VALUE]...",
		Short:   "Say whether an operation would wait for a signature, and why",
		Long:    "Changes nothing.",
		Example: "  gated classify guest.destroy web-1",
	}, func(ctx context.Context, cl *client.Client, a op.Ask) error {
		e, err := cl.Classify(ctx, convert.AskOf(a))
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(e)
		}
		facts := append([]op.Fact{{Name: "class", Text: string(e.Class)}, {Name: "rule", Text: e.Rule}, {Name: "why",
			Text: e.Why}}, e.Facts...)
		t.Print("%s", cli.Facts("", facts))
		return nil
	})
}

// shownParams are parameters as they would be typed, but for their quoting.
func shownParams(p op.Params) string {
	if len(p) == 0 {
		return ""
	}
	return string(p.Canonical())
}

// provenance says where a guest came from.
func provenance(g api.Guest) string {
	p := g.Provenance
	switch {
	case p == nil && g.Incarnation == "":
		return ""
	case p == nil:
		return "made by other hands than this gate's"
	case p.Scratch:
		return fmt.Sprintf("scratch of %s, made by %s, until %s", p.Creator, p.Job, momentOr(p.ScratchUntil))
	case p.ScratchEnded != "":
		return fmt.Sprintf("made for %s by %s; no longer scratch: %s", p.Creator, p.Job, p.ScratchEnded)
	default:
		return fmt.Sprintf("made for %s by %s at %s", p.Creator, p.Job, cli.Moment(p.CreatedAt))
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
