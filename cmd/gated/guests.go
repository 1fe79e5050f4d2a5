package main

import (
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/op"
)

func (t *tool) guestsCommand() *cobra.Command {
	c := t.command("guests", cobra.MaximumNArgs(1), func(c *cobra.Command, args []string) error {
		cl, err := t.client()
		if err != nil {
			return err
		}
		defer cl.Close()
		if len(args) == 1 {
			g, err := cl.Guest(c.Context(), strings.TrimPrefix(args[0], "guest/"))
			if err != nil {
				return err
			}
			if t.json {
				return t.emit(g)
			}
			return t.showGuest(g)
		}
		guests, err := cl.Guests(c.Context())
		if err != nil {
			return err
		}
		return t.listGuests(guests)
	})
	c.ValidArgsFunction = t.completeGuest
	return c
}

func (t *tool) listGuests(guests []api.Guest) error {
	rows := []string{wordsGuestsHead}
	for _, g := range guests {
		if t.json {
			if err := t.emit(g); err != nil {
				return err
			}
			continue
		}
		destroy := ""
		switch {
		case g.Error != nil:
			destroy = string(g.Error.Code) + ": " + g.Error.Detail
		case g.Destroy != nil:
			destroy = string(g.Destroy.Class)
		}
		rows = append(rows, row(g.Name, g.State, yes(g.Protected), string(g.Spec.Canonical()), destroy))
	}
	if t.json {
		return nil
	}
	return t.table(rows...)
}

// showGuest prints everything that is known of one guest.
func (t *tool) showGuest(g api.Guest) error {
	rows := []string{row("name", g.Name), row("state", g.State)}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, row(name, value))
		}
	}
	if g.Error != nil {
		add("error", string(g.Error.Code)+": "+g.Error.Detail)
	}
	add("incarnation", string(g.Incarnation))
	add("fingerprint", string(g.Fingerprint))
	add("spec", string(g.Spec.Canonical()))
	add("labels", labels(g.Labels))
	add("protected", yes(g.Protected))
	add("provenance", provenance(g))
	if g.Destroy != nil {
		add("destroy", string(g.Destroy.Class)+" ("+g.Destroy.Rule+"): "+g.Destroy.Why)
	}
	for _, f := range g.Facts {
		add(f.Name, f.Text)
	}
	add("snapshots", strings.Join(g.Snapshots, ", "))
	for _, tr := range g.Trash {
		add("in the trash", string(tr.Incarnation)+" until "+moment(tr.Until))
	}
	return t.table(rows...)
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
	var given pairs
	c := t.command("classify", cobra.ExactArgs(2), func(c *cobra.Command, args []string) error {
		a, err := ask(args[0], args[1], given)
		if err != nil {
			return err
		}
		cl, err := t.client()
		if err != nil {
			return err
		}
		defer cl.Close()
		e, err := cl.Classify(c.Context(), api.AskOf(a))
		if err != nil {
			return err
		}
		if t.json {
			return t.emit(e)
		}
		rows := []string{row("class", string(e.Class)), row("rule", e.Rule), row("why", e.Why)}
		for _, f := range e.Facts {
			rows = append(rows, row(f.Name, f.Text))
		}
		return t.table(rows...)
	})
	c.ValidArgsFunction = t.completeOpName
	t.paramFlag(c, &given)
	return c
}

// shownParams are parameters as they would be typed, but for their quoting.
func shownParams(p op.Params) string {
	if len(p) == 0 {
		return ""
	}
	return string(p.Canonical())
}
