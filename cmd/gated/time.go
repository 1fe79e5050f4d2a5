package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/wire/cli"
)

func (t *tool) timeCommand() *cobra.Command {
	var dir string
	c := t.Command(cli.Words{
		Use:   "time",
		Short: "Show the gate's time beside this machine's clock, and whether the gate believes it",
		Long: "Reads the state directory, beside a running daemon or without one. Exits 1 if the clock is not " +
			"believed.",
		Example: "  gated time --state /var/lib/gated",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		s, err := life.Time(c.Context(), stateDir(dir))
		if err != nil {
			return err
		}
		if t.JSON {
			err = t.Emit(timeOf(s))
		} else {
			err = t.showTime(s)
		}
		if err == nil && !s.Believed {
			err = cli.Ended(api.ExitRefused)
		}
		return err
	})
	t.stateOf(c, &dir)
	c.AddCommand(t.timeAcceptCommand())
	return c
}

// gateTimes are the answer about a gate's time. The difference is in whole seconds,
// negative where the clock is behind.
type gateTimes struct {
	Mark     *time.Time `json:"mark,omitempty"`
	Clock    time.Time  `json:"clock"`
	Ahead    int64      `json:"ahead_s"`
	Now      time.Time  `json:"gate_time"` // what the gate goes by, also while the clock is not believed
	Believed bool       `json:"believed"`
	Why      string     `json:"why,omitempty"`
	Gate     op.GateID  `json:"gate"`
}

func timeOf(s life.TimeState) gateTimes {
	out := gateTimes{Clock: s.Clock.UTC(), Now: s.Now.UTC(), Believed: s.Believed, Why: s.Why, Gate: s.Gate}
	if !s.Mark.IsZero() {
		mark := s.Mark.UTC()
		out.Mark, out.Ahead = &mark, int64(s.Ahead()/time.Second)
	}
	return out
}

func (t *tool) showTime(s life.TimeState) error {
	if err := t.Table(timeRows(s)...); err != nil {
		return err
	}
	if s.Believed {
		t.Print("the clock is believed\n")
		return nil
	}
	t.Print("the clock is NOT believed, and signed work waits: %s\n"+
		"set the clock right, and the gate goes on by itself; or, if it is right now, stop the daemon, then:\n"+
		"  gated time accept --state %s\n", op.Shown(s.Why), op.Shown(s.StateDir))
	return nil
}

func timeRows(s life.TimeState) []string {
	mark, apart := "none yet", ""
	if !s.Mark.IsZero() {
		mark, apart = cli.Moment(s.Mark), timeApart(s.Ahead())
	}
	return []string{cli.Row("the gate's mark", mark), cli.Row("this machine", cli.Moment(s.Clock)), cli.Row("apart",
		apart),
		cli.Row("the gate goes by", cli.Moment(s.Now))}
}

// acceptedTime is the answer of an acceptance.
type acceptedTime struct {
	gateTimes
	Changed bool      `json:"changed"`
	Old     op.GateID `json:"old_gate"`
}

const flagYes = "do not ask"

func (t *tool) timeAcceptCommand() *cobra.Command {
	var dir string
	var yes bool
	c := t.Command(cli.Words{
		Use:   "accept",
		Short: "Take this machine's clock for right, where the gate does not believe it",
		Long: `For the owner of the state directory, while the daemon does not run. Shows both times and asks. The gate gets
a new id: no earlier signature counts, what waits is issued anew, agents register and reserve again. Without a
terminal, say --yes. If the gate believes the clock, this changes nothing.`,
		Example: "  gated time accept --state /var/lib/gated",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if !yes && !cli.IsTerminal(t.stdin) {
			return cli.Usage("there is no terminal to ask on: look at the times (gated time), then say --yes")
		}
		a, err := life.AcceptTime(c.Context(), life.AcceptOptions{StateDir: stateDir(dir),
			Agree: func(s life.TimeState) error {
				t.Say("%s", cli.Columns(timeRows(s)...))
				t.Say("the gate does not believe this clock: %s\n"+
					"if it is accepted, the gate gets a new id: no earlier signature counts, and a step that was\n"+
					"approved and did not run is refused. What waits has to be signed anew, agents register and reserve again, "+
					"and to\n"+
					"destroy scratch takes a signature. A guest in the trash goes when its time is over by this clock.\n",
					op.Shown(s.Why))
				return t.agree(yes, "is this machine's clock right? (yes) ", notAccepted())
			}})
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(acceptedOf(a))
		}
		if a.New == "" {
			t.Print("the clock is believed: there is nothing to accept, and nothing was changed\n")
			return t.Table(timeRows(a.TimeState)...)
		}
		t.showAccepted(a)
		return nil
	})
	t.stateOf(c, &dir)
	c.Flags().BoolVar(&yes, "yes", false, flagYes)
	return c
}

func (t *tool) showAccepted(a life.Accepted) {
	t.Print("the gate goes on from %s, new gate id %s\n"+
		"  start it:      %s\n"+
		"  each operator: opsign forget SOCKET, since opsign refuses an id that it does not know\n", cli.Moment(a.Clock),
		op.Shown(string(a.New)), t.starts(a.StateDir))
}

func acceptedOf(a life.Accepted) acceptedTime {
	out := acceptedTime{gateTimes: timeOf(a.TimeState), Changed: a.New != "", Old: a.Gate}
	if out.Changed {
		out.Gate, out.Believed, out.Why = a.New, true, ""
	}
	return out
}

// timeApart says how far two times are apart, in words.
func timeApart(d time.Duration) string {
	if d < 0 {
		return fmt.Sprintf("%s behind", cli.Span(-d))
	}
	return fmt.Sprintf("%s ahead", cli.Span(d))
}

func notAccepted() error {
	return refusal.New(refusal.Cancelled, "nothing was changed").
		WithHint("set the clock right, and the gate goes on by itself; or answer yes if it is right")
}
