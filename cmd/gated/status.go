package main

import (
	"cmp"
	"sort"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/op"
)

func (t *tool) statusCommand() *cobra.Command {
	return t.command("status", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		s, err := cl.Status(c.Context())
		if err != nil {
			return t.initFirst(err, stateDir(""))
		}
		if t.JSON {
			return t.Emit(s)
		}
		return t.showStatus(s)
	})
}

// initFirst adds, where no gate was named and the state directory dir has none,
// how one is made.
func (t *tool) initFirst(err error, dir string) error {
	if t.Socket != "" || t.Getenv("GATED_SOCKET") != "" || hasDatabase(dir) {
		return err
	}
	return cli.Unanswered(err, wordsInitFirst, "")
}

// showStatus prints what is wrong before what is fine, and ends with what an
// operator has to do.
func (t *tool) showStatus(s api.Status) error {
	t.Print(wordsStatus, op.Shown(s.Version), op.Shown(s.Host), op.Shown(string(s.Gate)), s.UID, cli.Moment(s.StartedAt))
	t.Print("isolation: %s\n", op.Shown(s.Isolation))
	for _, r := range s.Remedies {
		t.Print(wordsRemedy, op.Shown(r))
	}
	var rows []string
	for _, h := range s.Health {
		rows = append(rows, cli.Row(h.Name, okOrBad(h.OK), h.Detail))
	}
	for _, src := range s.Sources {
		rows = append(rows, cli.Row("desired state from "+src.Name, okOrBad(src.Error == nil), sourceState(src)))
	}
	for _, l := range s.Layers {
		rows = append(rows, cli.Row("guests' "+l.Name, standsOrNot(l.Stands), l.Detail))
	}
	if err := t.Table(rows...); err != nil {
		return err
	}
	t.Print(wordsCounts, count(s.Guests, "guest"), count(s.Running, "step"), enforced(split(s.Limits)), s.AuditHead.Seq, op.Shown(s.AuditHead.Hash))
	t.Print(wordsAgentsCount, count(s.Agents, "registered agent"), count(s.Reserved, "reservation"))
	if s.Hub != nil {
		t.showHub(*s.Hub)
	}
	if s.Waiting == 0 {
		t.Print(wordsNoneWaits)
		return nil
	}
	t.Print(wordsWaiting, s.Waiting)
	return nil
}

// showHub prints how the gate stands with its hub. What does not work is among
// what is wrong.
func (t *tool) showHub(h api.Hub) {
	t.Print(wordsHubStands, op.Shown(h.URL), op.Shown(cmp.Or(h.Revision, wordsHubNone)), cmp.Or(momentOr(h.ReadAt), wordsHubNever),
		h.Relayed, h.Refused, h.Untried, cmp.Or(momentOr(h.ReportedAt), wordsHubNever))
}

// split sorts names by whether they are true.
func split(m map[string]bool) (has, lacks []string) {
	for name, ok := range m {
		if ok {
			has = append(has, name)
		} else {
			lacks = append(lacks, name)
		}
	}
	sort.Strings(has)
	sort.Strings(lacks)
	return has, lacks
}

// momentOr shows a time, "" for none.
func momentOr(at *time.Time) string {
	if at == nil {
		return ""
	}
	return cli.Moment(*at)
}
