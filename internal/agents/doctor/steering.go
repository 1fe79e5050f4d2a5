package doctor

import (
	"context"
	"errors"
	"os/exec"
	"strings"

	"gated/internal/agents/hook"
)

// judgeSteering runs a hook with a line that the gate steers away from, and with the line true.
func (t trial) judgeSteering(ctx context.Context, r *Report, gate Gate) {
	asked, cancel := context.WithTimeout(ctx, asks)
	list, err := gate.Steering(asked)
	cancel()
	if err != nil {
		t.add(r, Bad, "cannot be tried: the daemon does not say what it steers away from: %s", short(err))
		return
	}
	line, from := hook.SteeredLine(list)
	if line == "" {
		t.add(r, Note, wordsNoRules)
		r.Findings[len(r.Findings)-1].hint(hintNoRules)
		return
	}
	first, err := t.once(ctx, line)
	var second verdict
	if err == nil && first.denied {
		second, err = t.once(ctx, "true")
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		t.add(r, Bad, "did not end within %s; the program that starts it goes on without it", t.limit)
	case err != nil:
		t.add(r, Bad, "cannot be run: %s", short(err))
	case first.failed || !first.denied:
		t.add(r, Bad, wordsSteersNot+"%s", line, from, withWords("", first.said))
	case second.denied || second.failed:
		t.add(r, Bad, "%s", withWords(wordsSteersAll, second.said))
	default:
		t.add(r, OK, wordsSteers, line, from)
	}
}

// shellTrial runs this program as the hook of an agent's settings, with a call of a shell.
func (d Doctor) shellTrial(setup hook.Setup, tool string) func(context.Context, string) (verdict, error) {
	return func(ctx context.Context, line string) (verdict, error) {
		call, err := hook.SampleShell(setup.Dialect(), tool, d.Place.Path, line)
		if err != nil {
			return verdict{}, err
		}
		return d.asTool(ctx, setup, call)
	}
}

// asTool runs this program as the hook of an agent's settings, in the directory, with a call on standard input. It
// never runs the line in the settings.
func (d Doctor) asTool(ctx context.Context, setup hook.Setup, call []byte) (verdict, error) {
	cmd := exec.CommandContext(ctx, d.Program, setup.Args("pre-tool-use")...)
	cmd.Dir, cmd.Env = d.Place.Path, append(d.environment(), "CLAUDE_PROJECT_DIR="+d.Place.Path)
	cmd.Stdin = strings.NewReader(string(call))
	out, err := start(ctx, cmd)
	if err != nil {
		return verdict{}, err
	}
	return toolVerdict(setup.Dialect(), out), nil
}
