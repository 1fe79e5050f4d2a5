package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/life"
	"gated/internal/op"
)

func (t *tool) timeCommand() *cobra.Command {
	var dir string
	c := t.command("time", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
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
		t.Print(wordsTimeBelieved)
		return nil
	}
	t.Print(wordsTimeDoubted, op.Shown(s.Why), op.Shown(s.StateDir))
	return nil
}

func timeRows(s life.TimeState) []string {
	mark, apart := wordsNoMark, ""
	if !s.Mark.IsZero() {
		mark, apart = cli.Moment(s.Mark), timeApart(s.Ahead())
	}
	return []string{cli.Row(wordsMark, mark), cli.Row(wordsClock, cli.Moment(s.Clock)), cli.Row(wordsApart, apart),
		cli.Row(wordsGateTime, cli.Moment(s.Now))}
}

// acceptedTime is the answer of an acceptance.
type acceptedTime struct {
	gateTimes
	Changed bool      `json:"changed"`
	Old     op.GateID `json:"old_gate"`
}

func (t *tool) timeAcceptCommand() *cobra.Command {
	var dir string
	var yes bool
	c := t.command("time accept", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if !yes && !cli.IsTerminal(t.stdin) {
			return cli.Usage(wordsAcceptNeedsYes)
		}
		a, err := life.AcceptTime(c.Context(), life.AcceptOptions{StateDir: stateDir(dir), Agree: func(s life.TimeState) error {
			t.Say("%s", cli.Columns(timeRows(s)...))
			t.Say(wordsAccepts, op.Shown(s.Why))
			return t.agree(yes, wordsAcceptAgree, notAccepted())
		}})
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(acceptedOf(a))
		}
		if a.New == "" {
			t.Print(wordsNotNeeded)
			return t.Table(timeRows(a.TimeState)...)
		}
		t.Print(wordsAcceptedTime, cli.Moment(a.Clock), op.Shown(string(a.New)), op.Shown(a.StateDir))
		return nil
	})
	t.stateOf(c, &dir)
	c.Flags().BoolVar(&yes, "yes", false, flagYes)
	return c
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
		return fmt.Sprintf(wordsBehind, cli.Span(-d))
	}
	return fmt.Sprintf(wordsAhead, cli.Span(d))
}
