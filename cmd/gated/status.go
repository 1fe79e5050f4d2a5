package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/hostgate"
	"gated/internal/base/op"
	"gated/internal/host/setup"
	"gated/internal/wire/cli"
)

func (t *tool) statusCommand() *cobra.Command {
	var check, watch bool
	c := t.Command(cli.Words{
		Use:   "status",
		Short: "Show the host, its isolation, what is wrong and how many requests wait",
		Long: `With --check it prints one line for a monitor, and its exit codes are those of monitoring plugins: 0 ok, 1
degraded, 2 bad, 3 no gate answered. With --watch it shows what waits, what runs and what was decided on a terminal, and
makes that anew every two seconds.`,
		Example: "  gated status\n" +
			"  gated status --watch\n" +
			"  gated status --check",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		switch {
		case check && watch:
			return cli.Usage("--check prints one line and --watch goes on: say one")
		case check:
			return t.statusCheck(c.Context())
		case watch:
			return t.watch(c.Context())
		}
		return t.With(func(cl *client.Client) error {
			s, err := cl.Status(c.Context())
			if err != nil {
				return err
			}
			if t.JSON {
				return t.Emit(s)
			}
			if err := t.showStatus(s); err != nil {
				return err
			}
			if cl.Address() == client.UnixAddress(client.SystemSocket) {
				t.sayShadows(s.Version)
			}
			return nil
		})
	})
	c.Flags().BoolVar(&check, "check", false, "print one line for a monitor, with exit code 0, 1, 2 or 3")
	c.Flags().BoolVar(&watch, "watch", false, "go on showing what waits, runs and was decided, on a terminal")
	return c
}

// sayShadows says of programs and units of this host that hide others.
func (t *tool) sayShadows(version string) {
	self, err := os.Executable()
	if err != nil {
		return
	}
	for _, s := range setup.Shadows(self, t.Getenv("PATH"), hostgate.Units) {
		t.Say("note: %s (the daemon says version %s)\n  %s\n", s.What, op.Shown(version), s.Hint)
	}
}

// showStatus prints a status.
func (t *tool) showStatus(s api.Status) error {
	_, err := io.WriteString(t.Stdout, cli.Told(statusText(s), t.Stdout))
	return err
}

// statusText says what is wrong before what is fine, and ends with what an operator
// has to do.
func statusText(s api.Status) string {
	text := fmt.Sprintf("gated %s on %s, gate %s, uid %d, since %s\nisolation: %s\n", op.Shown(s.Version), op.Shown(s.Host),
		op.Shown(string(s.Gate)), s.UID, cli.Moment(s.StartedAt), op.Shown(s.Isolation))
	for _, r := range s.Remedies {
		text += fmt.Sprintf("  remedy: %s\n", op.Shown(r))
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
	text += cli.Columns(rows...) +
		fmt.Sprintf("%s, %s running; limits: %s; audit log at %d %s\n", cli.Count(s.Guests, "guest"), cli.Count(s.Running, "step"),
			enforced(split(s.Limits)), s.AuditHead.Seq, op.Shown(s.AuditHead.Hash)) +
		fmt.Sprintf("%s, %s in force\n", cli.Count(s.Agents, "registered agent"), cli.Count(s.Reserved, "reservation"))
	if s.Hub != nil {
		text += hubText(*s.Hub)
	}
	text += backupText(s.LastBackup)
	if s.Waiting == 0 {
		return text + "0 waiting\n"
	}
	if s.OldestWait != nil {
		text += "the oldest request waits since " + cli.Moment(*s.OldestWait) + "\n"
	}
	return text + fmt.Sprintf("%d waiting: opsign list\n", s.Waiting)
}

// backupText says when copies of the state were handed out. An older daemon does not say it.
func backupText(b *api.LastBackup) string {
	switch {
	case b == nil:
		return "no backup known\n"
	case b.Verified == nil:
		return fmt.Sprintf("last backup %s, none checked\n", cli.Moment(b.At))
	case b.Verified.Equal(b.At):
		return fmt.Sprintf("last backup %s, checked\n", cli.Moment(b.At))
	}
	return fmt.Sprintf("last backup %s, not checked; the last checked one %s\n", cli.Moment(b.At), cli.Moment(*b.Verified))
}

// hubText says how the gate stands with its hub. What does not work is among what is
// wrong.
func hubText(h api.Hub) string {
	const never = "never"
	return fmt.Sprintf("hub %s: revision %s, read %s; %d operations relayed, %d refused, %d not tried yet; last report %s\n",
		op.Shown(h.URL), op.Shown(cmp.Or(h.Revision, "none")), cmp.Or(momentOr(h.ReadAt), never),
		h.Relayed, h.Refused, h.Untried, cmp.Or(momentOr(h.ReportedAt), never))
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

// sourceState says how the last read of a source of desired state went.
func sourceState(s api.SourceStatus) string {
	text := cli.Count(s.Sets, "set") + ", not read yet"
	switch {
	case s.Error != nil:
		text = s.Error.Detail
	case s.ReadAt != nil:
		text = cli.Count(s.Sets, "set") + ", read " + cli.Moment(*s.ReadAt)
	}
	return text
}

func okOrBad(ok bool) string {
	if ok {
		return "ok"
	}
	return "BAD"
}

func standsOrNot(ok bool) string {
	if ok {
		return "ok"
	}
	return "none"
}

// enforced lists the limits that the driver can hold guests to, and those that
// it cannot.
func enforced(has, lacks []string) string {
	text := strings.Join(has, ", ")
	if text == "" {
		text = "none"
	}
	if len(lacks) > 0 {
		text += " (not here: " + strings.Join(lacks, ", ") + ")"
	}
	return op.Shown(text)
}

func (t *tool) canaryCommand() *cobra.Command {
	return t.Group(cli.Words{
		Use:     "canary",
		Short:   "Accept a change of the gate's decisions",
		Example: "  gated canary accept 812",
	}, "say accept", t.canaryAcceptCommand())
}

func (t *tool) canaryAcceptCommand() *cobra.Command {
	return t.Asking(cli.Words{
		Use:     "accept ENTRY",
		Short:   "End the alert about an audit entry: the new decision is right",
		Long:    "For admins. gated status shows the alert, how to go back, and the entry.",
		Example: "  gated canary accept 812",
	}, cobra.ExactArgs(1), func(c *cobra.Command, cl *client.Client, args []string) error {
		change, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil || change < 1 {
			return cli.Usage("an alert is named by the number of the entry that it is about: gated status shows it")
		}
		if err := cl.AcceptAlert(c.Context(), change); err != nil {
			return err
		}
		return t.Answer(struct {
			Change int64 `json:"change"`
		}{change}, "the alert about entry %d has ended; the audit log has it\n", change)
	})
}
