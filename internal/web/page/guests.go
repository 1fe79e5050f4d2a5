package page

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// guestList is a page of the guests of a gate, by name.
type guestList struct {
	Gate   string
	Guests []guestRow
	Next   string
	First  bool
}

type guestRow struct {
	Name, State, Backend, Destroy, Labels, Error string
	Protected                                    bool
	Snapshots, Backups                           int
}

func (c Config) guestsPage(ctx context.Context, w http.ResponseWriter, r *http.Request, at reached) error {
	from := r.URL.Query().Get("after")
	list, err := at.client.GuestPage(ctx, from, pageOf)
	if err != nil {
		return err
	}
	p := guestList{Gate: at.gate.Name, First: from == ""}
	for _, g := range list.Guests {
		row := guestRow{Name: cli.Inline(g.Name), State: cli.Inline(g.State), Backend: cli.Inline(g.Backend), Protected: g.Protected,
			Labels: cut(labels(g.Labels), maxNames), Snapshots: len(g.Snapshots), Backups: len(g.Backups)}
		if g.Destroy != nil {
			row.Destroy = cli.Inline(string(g.Destroy.Class))
		}
		if g.Error != nil {
			row.Error = errorText(g.Error)
		}
		p.Guests = append(p.Guests, row)
	}
	if list.Next != nil {
		p.Next = "/g/" + at.gate.Name + "/guests?after=" + url.QueryEscape(*list.Next)
	}
	c.render(w, r, at.tab("guests", "Guests"), "guests", p)
	return nil
}

// labels lists labels, each value in quotes.
func labels(of map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, cli.Inline(name)+" "+op.ShownQuoted(of[name]))
	}
	return strings.Join(out, ", ")
}

// guest is the page of one guest.
type guest struct {
	Gate      string
	Name      string
	State     string
	Error     string
	Facts     []fact // what is known of it
	Seen      []fact // what its back end says of it
	Snapshots []string
	Backups   []string
	Disks     []fact
	Trash     []fact
}

func (c Config) guestPage(ctx context.Context, w http.ResponseWriter, r *http.Request, at reached) error {
	name := r.PathValue("name")
	if _, err := op.ParseTarget("guest/" + name); err != nil {
		return refusal.New(refusal.UnknownTarget, "%q is no name of a guest", name).WithHint("the page of guests has all of them")
	}
	g, err := at.client.Guest(ctx, name)
	if err != nil {
		return err
	}
	p := guest{Gate: at.gate.Name, Name: cli.Inline(g.Name), State: cli.Inline(g.State), Seen: factsOf(g.Facts), Facts: factsOf(knownOf(g))}
	if g.Error != nil {
		p.Error = errorText(g.Error)
	}
	for _, s := range g.Snapshots {
		p.Snapshots = append(p.Snapshots, cli.Inline(s))
	}
	for _, b := range g.Backups {
		p.Backups = append(p.Backups, cli.Inline(b))
	}
	for _, d := range g.Disks {
		p.Disks = append(p.Disks, fact{Name: cli.Inline(d.Name), Text: fmt.Sprintf("%d MiB", d.Size>>20)})
	}
	for _, t := range g.Trash {
		p.Trash = append(p.Trash, fact{Name: cli.Inline(string(t.Incarnation)), Text: "can be undone until " + cli.Moment(t.Until)})
	}
	c.render(w, r, at.tab("guests", p.Name), "guest", p)
	return nil
}

// knownOf is what a gate knows of a guest, in the order of gated guests NAME.
func knownOf(g api.Guest) []op.Fact {
	out := []op.Fact{{Name: "back end", Text: g.Backend}, {Name: "incarnation", Text: string(g.Incarnation)},
		{Name: "fingerprint", Text: string(g.Fingerprint)}}
	if len(g.Spec) > 0 {
		out = append(out, op.Fact{Name: "settings", Text: cli.Settings(g.Spec)})
	}
	if len(g.Labels) > 0 {
		out = append(out, op.Fact{Name: "labels", Text: labels(g.Labels)})
	}
	if g.Protected {
		out = append(out, op.Fact{Name: "protected", Text: "yes"})
	}
	if d := g.Destroy; d != nil {
		out = append(out, op.Fact{Name: "to destroy it is", Text: string(d.Class) + ": " + d.Why})
	}
	switch p := g.Provenance; {
	case p == nil:
		out = append(out, op.Fact{Name: "made by", Text: "not the gate"})
	default:
		who := p.Creator
		if p.Agent != "" {
			who = p.Agent + " (" + p.Creator + ")"
		}
		out = append(out, op.Fact{Name: "made by", Text: who + " in " + p.Job + " at " + cli.Moment(p.CreatedAt)})
		if p.Scratch {
			out = append(out, op.Fact{Name: "scratch", Text: "yes"})
		}
	}
	return slices.DeleteFunc(out, func(f op.Fact) bool { return f.Text == "" })
}
