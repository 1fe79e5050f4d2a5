package question

import (
	"slices"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// CannotUndo ends the headline of a step that nothing takes back.
const CannotUndo = "CANNOT BE UNDONE"

// losesNothing ends the headline of a step that waits only because a rule of the
// configuration asks for a signature.
const losesNothing = "loses no data"

// canUndo begins the text of a fact by which a driver says that its trash keeps
// what a step takes, and until when.
const canUndo = "can be undone until "

// Headline says in one line what a request would do, to what, on which host, and
// whether that can be undone: "DESTROY guest/web on pve1 · CANNOT BE UNDONE". Op,
// target and host are those of the bytes to sign. Of a request that has ended it
// says how. dash stands between its parts.
func (q Question) Headline(dash string) string {
	p := q.Payload
	return verbOf(p.Op) + " " + cli.Inline(p.Target.String()) + " on " + cli.Inline(p.Host) + dash + q.end()
}

// end says whether an open request can be undone, and how one ended that has.
func (q Question) end() string {
	if !q.Request.State.Open() {
		return cli.Inline(string(q.Request.State))
	}
	return cli.Inline(q.Undo())
}

// Undo says whether a step can be undone, by what its driver says of it. A step
// of which the driver does not say that it can, cannot. A drill changes nothing, and
// says what it rehearses. A review changes no data.
func (q Question) Undo() string {
	if q.Payload.Op == op.Drill {
		return "rehearses " + op.Rehearses(q.Payload.Params)
	}
	if q.Payload.Op == op.Review {
		return losesNothing
	}
	said := ""
	for _, f := range q.Request.Facts {
		switch {
		case !slices.Contains(operations(f), q.verb()):
		case !strings.HasPrefix(f.Text, canUndo), said != "" && said != f.Text:
			return CannotUndo
		default:
			said = f.Text
		}
	}
	_, another := q.Payload.Params["command"] // another program works on the data as it likes
	switch {
	case said != "":
		return said
	case q.Payload.Op == "guest.set-config" && !another:
		return "can be changed back"
	case harmless(q.Request):
		return losesNothing
	}
	return CannotUndo
}

// harmless reports whether a request is for a step that can lose no data. The gate
// says that a rule of its configuration alone asks for the signature, and the
// operation is one that starts or stops a guest, or takes nothing.
func harmless(r api.Request) bool {
	spec, err := op.Lookup(r.Op)
	return err == nil && r.Rule == op.SignedByRule && (spec.Runtime || spec.Takes == "")
}

// Irreversible reports whether a step cannot be undone.
func (q Question) Irreversible() bool { return q.Undo() == CannotUndo }

// verb returns what an operation is called among those of its kind: "destroy".
func (q Question) verb() string {
	_, verb, _ := strings.Cut(q.Payload.Op, ".")
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
func (q Question) aboutOthers(f op.Fact) bool {
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
	op.Review:               "CLOSE AFTER A LOOK:",
	op.Drill:                "DRILL: nothing will be changed; sign",
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
