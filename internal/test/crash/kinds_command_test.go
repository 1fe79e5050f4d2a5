package crash

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"gated/client/api"
	"gated/internal/base/op"
)

// commandConf is a catalogue of commands that leave a line each time they run. The
// file is the last word (the third of newMachineOf), after the daemon's directory.
const commandConf = `commands:
  mark:
    argv: [/bin/sh, -c, 'echo "$1" >>"$2" && echo did "$1"', sh, "{name}", %[3]s]
    probe: [/bin/cat, %[3]s]
    params: {name: {type: string, pattern: '[a-z0-9]+'}}
  note:
    argv: [/bin/sh, -c, 'echo "$1" >>"$2" && echo did "$1"', sh, "{name}", %[3]s]
    benign: true
    params: {name: {type: string, pattern: '[a-z0-9]+'}}
`

func commandKinds() []kind {
	return []kind{
		{name: op.Run, do: command("mark"), check: ranOnce},
		{name: "run a benign command", do: command("note"), check: ran},
	}
}

// marks is the file in which commands leave their lines.
func (m *machine) marks() string { return filepath.Join(m.dir, "marks") }

func command(name string) func(context.Context, *bench, *cell) error {
	return func(ctx context.Context, b *bench, c *cell) error {
		return b.ask(ctx, c, true, api.Ask{Op: op.Run, Target: op.KindCommand + "/" + name, Params: op.Params{"name": c.name}})
	}
}

// ranTimes is how often the cell's command ran.
func (b *bench) ranTimes(c *cell) (n int) {
	for line := range strings.Lines(string(read(b.m().marks()))) {
		if strings.TrimSpace(line) == c.name {
			n++
		}
	}
	return n
}

// ran says that a command which succeeded has not run, that one which nobody was
// told of has, or that what it printed is not kept.
func ran(ctx context.Context, b *bench, c *cell) []string {
	wrong, n := ended(ctx, b, c), b.ranTimes(c)
	if c.job == "" {
		return wrong // a benign one runs when it is accepted, whether or not anybody was told
	}
	j, err := b.client().Job(ctx, c.job)
	switch {
	case err != nil:
		wrong = append(wrong, fmt.Sprintf("%s: %v", c.job, err))
	case j.State == op.StateSucceeded && n == 0:
		wrong = append(wrong, c.job+" succeeded, and its command did not run")
	case j.State == op.StateSucceeded && j.Steps[0].Output != "did "+c.name+"\n":
		wrong = append(wrong, fmt.Sprintf("%s succeeded, and printed %q", c.job, j.Steps[0].Output))
	case j.State != op.StateSucceeded && j.State != op.StateInterrupted && c.done:
		wrong = append(wrong, fmt.Sprintf("%s is %s", c.job, j.State))
	}
	return wrong
}

// ranOnce says beyond ran that a destructive command ran more than once, or before
// anybody signed it.
func ranOnce(ctx context.Context, b *bench, c *cell) []string {
	wrong, n := ran(ctx, b, c), b.ranTimes(c)
	if n > 1 {
		wrong = append(wrong, fmt.Sprintf("%s is destructive and ran twice, or more often: %d times", c.name, n))
	}
	if state := b.state(ctx, c); n > 0 && (state == "" || state == op.StatePending || state == op.StateRefused) {
		wrong = append(wrong, fmt.Sprintf("%s ran, and its step is %q", c.name, state))
	}
	return wrong
}
