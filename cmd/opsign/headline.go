package main

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// headline says in one line what a request would do, to what, on which host, and
// whether that can be undone: "DESTROY guest/web on pve1 · CANNOT BE UNDONE". Op,
// target and host are those of the bytes to sign. Of a request that has ended it
// says how.
func (q question) headline(dash string) string {
	p, r := q.payload, q.request
	_, end := q.undo()
	if !r.State.Open() {
		end = string(r.State)
	}
	return verbOf(p.Op) + " " + cli.Inline(p.Target.String()) + " on " + cli.Inline(p.Host) + dash + cli.Inline(end)
}

// undo says whether a step can be undone, and in words until when or how.
func (q question) undo() (op.Undoable, string) {
	return undoOf(q.payload.Op, q.payload.Params, q.request)
}

func undoOf(name string, params op.Params, r api.Request) (op.Undoable, string) {
	spec, _ := op.Lookup(name) // an operation of a newer gate has no row, and cannot be undone
	return spec.Undoable(params, r.Rule, r.Facts)
}

// hard says of the levels of what is not simply undone what an operator should know before a yes.
var hard = map[op.Undoable]string{op.Gone: op.CannotUndo, op.ByHandUntil: "can be undone by hand alone"}

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
