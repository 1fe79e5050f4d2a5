package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// cannotUndo ends the headline of a step that nothing takes back.
const cannotUndo = "CANNOT BE UNDONE"

// losesNothing ends the headline of a step that waits only because a rule of the
// configuration asks for a signature.
const losesNothing = "loses no data"

// canChangeBack ends the headline of a step that the same operation takes back.
const canChangeBack = "can be changed back"

// canUndo begins the text of a fact by which a driver says that its trash keeps
// what a step takes, and until when.
const canUndo = "can be undone until "

// headline says in one line what a request would do, to what, on which host, and
// whether that can be undone: "DESTROY guest/web on pve1 · CANNOT BE UNDONE". Op,
// target and host are those of the bytes to sign. Of a request that has ended it
// says how.
func (q question) headline(dash string) string {
	p, r := q.payload, q.request
	end := q.undo()
	if !r.State.Open() {
		end = string(r.State)
	}
	return verbOf(p.Op) + " " + cli.Inline(p.Target.String()) + " on " + cli.Inline(p.Host) + dash + cli.Inline(end)
}

// undo says whether a step can be undone, by what its driver says of it. A step
// of which the driver does not say that it can, cannot.
func (q question) undo() string { return undoOf(q.payload.Op, q.payload.Params, q.request) }

func undoOf(name string, params op.Params, r api.Request) string {
	said := ""
	for _, f := range r.Facts {
		switch {
		case !slices.Contains(operations(f), verbIn(name)):
		case !strings.HasPrefix(f.Text, canUndo), said != "" && said != f.Text:
			return cannotUndo
		default:
			said = f.Text
		}
	}
	_, another := params["command"] // another program works on the data as it likes
	switch {
	case said != "":
		return said
	case name == "guest.set-config" && !another:
		return canChangeBack
	case harmless(r):
		return losesNothing
	}
	return cannotUndo
}

// harmless reports whether a request is for a step that can lose no data. The gate
// says that a rule of its configuration alone asks for the signature, and the
// operation is one that starts or stops a guest, or takes nothing.
func harmless(r api.Request) bool {
	spec, err := op.Lookup(r.Op)
	return err == nil && r.Rule == op.SignedByRule && (spec.Runtime || spec.Takes == "")
}

// irreversible reports whether a step cannot be undone.
func (q question) irreversible() bool { return q.undo() == cannotUndo }

// verb returns what an operation is called among those of its kind: "destroy".
func (q question) verb() string { return verbIn(q.payload.Op) }

func verbIn(name string) string {
	_, verb, _ := strings.Cut(name, ".")
	return verb
}

// operations returns the operations on guests of which a fact says whether they can
// be undone: those that its name lists, as in "wipe, restore, snapshot-delete". There
// are none if the fact says anything else.
func operations(f op.Fact) []string {
	if !strings.HasPrefix(f.Text, canUndo) && !strings.HasPrefix(f.Text, "cannot be undone") {
		return nil
	}
	verbs := strings.Split(f.Name, ", ")
	for _, v := range verbs {
		if _, err := op.Lookup("guest." + v); err != nil {
			return nil
		}
	}
	return verbs
}

// aboutOthers reports whether a fact is about other operations than the
// question's alone.
func (q question) aboutOthers(f op.Fact) bool {
	verbs := operations(f)
	return len(verbs) > 0 && !slices.Contains(verbs, q.verb())
}

// verbs are the operations that read better in other words than their names.
var verbs = map[string]string{
	"guest.set-config":      "CHANGE",
	"guest.clone":           "CLONE TO",
	"guest.snapshot-delete": "DELETE A SNAPSHOT OF",
	"guest.restore":         "RESTORE A SNAPSHOT ONTO",
	"guest.disk-create":     "ADD A DISK TO",
	"guest.disk-resize":     "RESIZE A DISK OF",
	"guest.disk-wipe":       "WIPE A DISK OF",
	"guest.disk-detach":     "DETACH A DISK OF",
	"guest.disk-delete":     "DELETE A DISK OF",
	"guest.backup":          "BACK UP",
	"guest.backup-restore":  "RESTORE A BACKUP ONTO",
	"guest.backup-delete":   "DELETE A BACKUP OF",
	op.ReleaseAll:           "TAKE AWAY ALL RESERVATIONS OF",
	op.ForceTransfer:        "TAKE AWAY A RESERVATION OF",
	op.Rotate:               "ROTATE",
}

// verbOf returns the verb of a headline. An operation of a newer gate is its name.
func verbOf(name string) string {
	if v, ok := verbs[name]; ok {
		return v
	}
	if _, err := op.Lookup(name); err != nil {
		return cli.Inline(name)
	}
	_, verb, _ := strings.Cut(name, ".")
	return strings.ToUpper(verb)
}

// lostText says what would be lost, whole, and when the gate saw it so. now is
// this machine's clock.
func lostText(r api.Request, now time.Time) string {
	if len(r.Facts) == 0 {
		return ""
	}
	words := "  what would be lost, as the gate saw it%s:\n"
	switch {
	case r.Op == op.Run:
		words = "  what would run, and what its probe says, as the gate saw it%s:\n"
	case r.Op == op.Rotate:
		words = "  who comes and who goes, and who is listed now, as the gate saw it%s:\n"
	case harmless(r):
		words = "  what the target holds, as the gate saw it%s:\n"
	case slices.ContainsFunc(r.Facts, op.Fact.IsChange):
		words = "  what would change, and what the target holds, as the gate saw it%s:\n"
	}
	text := fmt.Sprintf(words, seenAt(r.FactsAt, now)) + cli.Facts("    ", r.Facts)
	if labels := labelsText(r.Labels); labels != "" {
		text += "    " + wordsLabels + ": " + labels + "\n"
	}
	return text
}

// labelsText lists the labels of a target, each value in quotes: none of them can
// pass for another label.
func labelsText(labels map[string]string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, cli.Inline(name)+" "+op.ShownQuoted(labels[name]))
	}
	return strings.Join(out, ", ")
}

// seenAt says when something was seen: at which time of the day, and of what is
// an hour old or more, how long ago. It is empty where nothing is known.
func seenAt(at, now time.Time) string {
	age := now.Sub(at)
	switch {
	case at.IsZero():
		return ""
	case age >= 48*time.Hour:
		return fmt.Sprintf(" %d days ago", int(age/(24*time.Hour)))
	case age >= time.Hour:
		return fmt.Sprintf(" %s ago", cli.Span(age.Truncate(time.Minute)))
	}
	return fmt.Sprintf(" at %s", at.UTC().Format("15:04:05Z"))
}

// stampPattern finds the times in a fact.
var stampPattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
})

// driftOfStamps is how far a time that lies ahead may have moved on more or less
// than the time of the look did and still say the same.
const driftOfStamps = time.Minute

// sameFact reports whether two looks at a target, each at its time, saw the same.
// Until when something could be undone moves on from look to look, and is no
// change.
func sameFact(x op.Fact, seen time.Time, y op.Fact, seenLater time.Time) bool {
	return x == y || x.Name == y.Name && stampPattern().ReplaceAllString(x.Text,
		"") == stampPattern().ReplaceAllString(y.Text, "") &&
		slices.EqualFunc(stampPattern().FindAllString(x.Text, -1), stampPattern().FindAllString(y.Text, -1), func(s,
			t string) bool {
			return s == t || movedOn(s, seen, t, seenLater)
		})
}

// movedOn reports whether two times each lie ahead of their look, by as much.
func movedOn(s string, seen time.Time, later string, seenLater time.Time) bool {
	from, err := time.Parse(time.RFC3339, s)
	to, err2 := time.Parse(time.RFC3339, later)
	return err == nil && err2 == nil && from.After(seen) && to.After(seenLater) &&
		(to.Sub(seenLater)-from.Sub(seen)).Abs() <= driftOfStamps
}
