package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

const (
	watchEvery = 2 * time.Second // a new screen
	watchBack  = 200             // entries of the log among which the last decisions are
	watchDone  = 6               // of these are shown, in a quarter of the screen at most
)

// watched is what one screen shows.
type watched struct {
	status api.Status
	open   []api.Job   // what waits, then what runs
	done   []api.Entry // the last ones about steps, the newest first
}

// watch shows what waits, what runs and what was decided, until the context ends.
func (t *tool) watch(ctx context.Context) error {
	to, ok := t.Stdout.(*os.File)
	term := t.Getenv("TERM")
	if t.JSON || !ok || !cli.IsTerminal(to) || term == "" || term == "dumb" {
		return cli.Usage("--watch needs a terminal: gated events --follow prints what is decided, also with --json")
	}
	cl, err := t.Client()
	if err != nil {
		return err
	}
	defer cl.Close()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		w, err := look(ctx, cl)
		switch {
		case ctx.Err() != nil:
			return nil // this is how one stops watching
		case err != nil:
			return err
		}
		rows, cols := cli.Size(to)
		text := strings.Join(w.screen(time.Now(), rows-1, cols-1, cli.Ellipsis(t.Getenv)), "\x1b[K\n")
		if _, err := io.WriteString(to, "\x1b[H"+text+"\x1b[K\n\x1b[J"); err != nil { // over the screen before, and the rest of it away
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look asks the daemon for what a screen shows.
func look(ctx context.Context, cl *client.Client) (w watched, err error) {
	if w.status, err = cl.Status(ctx); err != nil {
		return w, err
	}
	for _, state := range []op.State{op.StatePending, op.StateAuthorized, op.StateDispatched} {
		page, err := cl.Jobs(ctx, client.JobQuery{State: state})
		if err != nil {
			return w, err
		}
		w.open = append(w.open, page.Jobs...)
	}
	err = cl.Events(ctx, max(w.status.AuditHead.Seq-watchBack, 0), false, func(e api.Entry) error {
		if e.Step != "" {
			w.done = append(w.done, e)
		}
		return nil
	})
	slices.Reverse(w.done)
	return w, err
}

// screen returns the lines of a screen: what is wrong first, the last decisions below, and between them what fits.
func (w watched) screen(now time.Time, rows, cols int, ellipsis string) []string {
	head := fmt.Sprintf("%s at %s: %d waiting, %s running\n", op.Shown(w.status.Host), cli.Moment(now), w.status.Waiting,
		cli.Count(w.status.Running, "step"))
	for _, h := range w.status.Health {
		if !h.OK {
			head += fmt.Sprintf("%s BAD  %s\n", op.Shown(h.Name), op.Shown(h.Detail))
		}
	}
	top := cli.Wrapped(head, cols)
	if len(w.open) > 0 {
		open := make([][]string, len(w.open))
		for i, j := range w.open {
			name, target, what := doneFirst(j)
			open[i] = []string{j.ID, string(j.State), name, target, what, strings.Join(j.RequestedBy, ","), cli.ReasonsInLine(j.Reason, j.Reasons)}
		}
		top = append(top, linesOf(cli.Table(cols, ellipsis, []cli.Column{{Head: "ID"}, {Head: "STATE", Rank: 1}, {Head: "OP"}, {Head: "TARGET"},
			{Head: "WHAT", Rank: 2}, {Head: "FOR", Rank: 3}, {Head: "REASON", Rank: 4}}, open))...)
	}
	var done [][]string
	for _, e := range w.done[:min(len(w.done), watchDone, rows/4)] {
		done = append(done, []string{cli.Moment(e.Time), e.Kind, e.Step, cli.OpInLine(e.Op), e.Target, e.By})
	}
	end := []string{"Ctrl-C ends"}
	if len(done) > 0 {
		last := linesOf("\n" + cli.Table(cols, ellipsis, []cli.Column{{Head: "DECIDED", Rank: 2, Least: 20}, {Head: "WHAT", Rank: 1}, {Head: "STEP"},
			{Head: "OP"}, {Head: "TARGET"}, {Head: "BY", Rank: 3}}, done))
		end = append(last[:min(len(last), rows/4+2)], end...) // a wide row takes several lines
	}
	if room := max(rows-len(end), 2); len(top) > room {
		top = append(top[:room-1], "more: opsign list, gated jobs")
	}
	return append(top, end...)
}

func linesOf(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }
