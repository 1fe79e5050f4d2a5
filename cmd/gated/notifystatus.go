package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/notify"
	"gated/internal/notify/outbox"
	"gated/internal/notify/settings"
	"gated/internal/wire/cli"
)

func (t *tool) notifyStatusCommand() *cobra.Command {
	var file notifyFile
	c := t.Command(cli.Words{
		Use:   "status",
		Short: "Show for each sink what it took last, what waits, the next try, and dead letters",
		Long: `Reads the outbox, also while gated notify runs. A dead letter is a message that was given up; gated notify replay
sends it again.`,
		Example: "  gated notify status",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		s, err := file.load(t)
		if err != nil {
			return err
		}
		path := notify.DatabaseIn(s.State)
		if _, err := os.Stat(path); err != nil {
			return noOutbox(err, s.State)
		}
		box, err := outbox.OpenReadOnly(c.Context(), path)
		if err != nil {
			return err
		}
		defer func() { _ = box.Close() }() // it was only read
		reports, err := box.Report(c.Context(), names(s))
		if err != nil {
			return err
		}
		return t.showNotify(reports)
	})
	file.add(c)
	return c
}

func names(s settings.Settings) []string {
	out := make([]string, len(s.Sinks))
	for i, one := range s.Sinks {
		out[i] = one.Name
	}
	return out
}

func (t *tool) showNotify(reports []outbox.Report) error {
	if t.JSON {
		return cli.Each(&t.Tool, nil, reports...)
	}
	rows := []string{cli.Row("SINK", "LAST DELIVERED", "QUEUED", "HELD", "NEXT TRY", "DEAD", "WHY")}
	for _, r := range reports {
		rows = append(rows, cli.Row(r.Sink, momentOr(r.Delivered), strconv.Itoa(r.Queued), strconv.Itoa(r.Held), momentOr(r.NextTry),
			strconv.Itoa(r.DeadCount), r.Why))
	}
	if err := t.Table(rows...); err != nil {
		return err
	}
	for _, r := range reports {
		for _, l := range r.Dead {
			t.Print("dead letter of %s: %s (%s) of %s after %s: %s\n", cli.Inline(r.Sink), cli.Inline(l.ID), cli.Inline(l.Kind),
				cli.Moment(l.Made), tried(l.Tries), cli.Inline(l.Why))
		}
	}
	return nil
}

func tried(n int) string {
	if n == 1 {
		return "1 try"
	}
	return strconv.Itoa(n) + " tries"
}

// replayed is what gated notify replay says with --json.
type replayed struct {
	Queued int64 `json:"queued"`
}

func (t *tool) notifyReplayCommand() *cobra.Command {
	var file notifyFile
	var all bool
	c := t.Command(cli.Words{
		Use:   "replay ID|--all [SINK]",
		Short: "Queue dead letters again",
		Long: `ID is a dead letter's, as gated notify status prints it. With SINK, only those of that sink. End gated notify run
before, because one process alone may write the outbox; started again, it sends them. opsign list says whether the
request of a letter still waits.`,
		Example: "  gated notify replay --all ops-chat",
	}, cobra.MaximumNArgs(2), func(c *cobra.Command, args []string) error {
		id := ""
		if !all {
			if len(args) == 0 {
				return cli.Usage("say the ID of a dead letter, or --all")
			}
			id, args = args[0], args[1:]
		}
		s, err := file.load(t)
		if err != nil {
			return err
		}
		only := ""
		switch {
		case len(args) > 1:
			return cli.Usage("with --all there is at most a SINK")
		case len(args) == 1 && s.Find(args[0]) == nil:
			return noSink(args[0])
		case len(args) == 1:
			only = args[0]
		}
		n, err := replay(c.Context(), s.State, id, only)
		switch {
		case err != nil:
			return err
		case n == 0:
			return refusal.New(refusal.UnknownTarget, "there is no such dead letter").WithHint("gated notify status lists them")
		case t.JSON:
			return t.Emit(replayed{n})
		}
		t.Print("%s queued again\n", op.Shown(cli.Count(int(n), "message")))
		return nil
	})
	file.add(c)
	c.Flags().BoolVar(&all, "all", false, "every dead letter, of SINK if it is named")
	return c
}

// replay queues the dead letter id again, or every one if it is empty; of the sink only, if that is not.
func replay(ctx context.Context, state, id, only string) (int64, error) {
	path := notify.DatabaseIn(state)
	if _, err := os.Stat(path); err != nil {
		return 0, noOutbox(err, state)
	}
	// The outbox has one writer. A second one would end the process that follows the gate.
	unlock, err := notify.Lock(ctx, state)
	if err != nil {
		return 0, err
	}
	defer unlock()
	box, err := outbox.Open(ctx, path, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = box.Close() }() // an acknowledged change is on disk
	return box.Replay(ctx, id, only, time.Now())
}
