package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/wire/cli"
)

// The exit codes of status --check are those of monitoring plugins, and not those of the other commands.
const (
	checkOK       = 0
	checkWarning  = 1 // degraded
	checkCritical = 2 // bad
	checkUnknown  = 3 // no gate answered
)

// checkTime bounds the question: monitors ask again.
const checkTime = 10 * time.Second

// monitored is the answer of status --check with --json.
type monitored struct {
	State  string            `json:"state"` // of the health report, or unknown
	Exit   int               `json:"exit"`
	Detail string            `json:"detail"`
	Checks []api.HealthCheck `json:"checks"`
}

// statusCheck says in one line how the gate is, for a monitor.
func (t *tool) statusCheck(ctx context.Context) error {
	out := t.monitored(ctx)
	if err := t.Answer(out, "%s: %s\n", checkWords[out.Exit], op.Shown(out.Detail)); err != nil {
		return err
	}
	return cli.Ended(out.Exit)
}

var checkWords = []string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

func (t *tool) monitored(ctx context.Context) monitored {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	out := monitored{State: "unknown", Exit: checkUnknown, Checks: []api.HealthCheck{}}
	cl, err := t.Client()
	if err != nil {
		out.Detail = oneLine(err)
		return out
	}
	defer cl.Close()
	h, err := cl.Health(ctx)
	if err != nil {
		out.Detail = oneLine(err)
		return out
	}
	fine := fmt.Sprintf("%d checks", len(h.Checks))
	out.State, out.Checks, out.Exit, out.Detail = h.State, h.Checks, exitOf(h.State), fine
	// The worst first: a pager shows the begin of a line.
	for _, state := range []string{api.HealthDegraded, api.HealthBad} {
		var wrong []string
		for _, c := range h.Checks {
			if c.State == state {
				wrong = append(wrong, fmt.Sprintf("%s (%s)", c.Name, c.Detail))
			}
		}
		switch {
		case len(wrong) > 0 && out.Detail == fine:
			out.Detail = strings.Join(wrong, "; ")
		case len(wrong) > 0:
			out.Detail = strings.Join(wrong, "; ") + "; " + out.Detail
		}
	}
	return out
}

// exitOf returns the exit code of a state. One that this program does not know counts as unknown.
func exitOf(state string) int {
	switch state {
	case api.HealthOK:
		return checkOK
	case api.HealthDegraded:
		return checkWarning
	case api.HealthBad:
		return checkCritical
	}
	return checkUnknown
}

// oneLine is the text of an error without line breaks.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
