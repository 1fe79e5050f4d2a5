package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
)

// Own is the place of a gate of one user's own.
type Own struct {
	Program string                                          // gated itself, an absolute path
	Units   string                                          // the directory of the user's units; empty for no service
	Run     func(ctx context.Context, argv ...string) error // systemctl; needed with Units
}

// userUnit is the unit of a user's own gate. Guests outlive the daemon, as under contrib/systemd.
const userUnit = `# Made by gated setup. Guests outlive the daemon: a stop signals the daemon alone.
[Unit]
Description=gated, this user's own gate

[Service]
Type=notify
NotifyAccess=main
ExecStart=%s serve --state %s
ExecReload=%s reload
Restart=on-failure
RestartSec=2s
RestartPreventExitStatus=1 2
KillMode=process
WatchdogSec=3min

[Install]
WantedBy=default.target
`

// Steps plans a gate of the user's own. Refusals are those of Choice.Check, and Conflict for another gate in the state
// directory.
func (o Own) Steps(c Choice) ([]Step, error) {
	made, err := c.made()
	if err != nil {
		return nil, err
	}
	steps := []Step{{What: "the gate in " + op.Shown(c.StateDir), Done: made,
		Undo: op.ShellWords("rm", "-r", c.StateDir) + "    # the gate and its guests",
		do: func(ctx context.Context) error {
			_, err := life.Init(ctx, life.InitOptions{StateDir: c.StateDir, Host: c.Host, Operators: c.Operators, Recovery: c.Recovery,
				Libvirt: c.Libvirt})
			return err
		}}}
	if o.Units == "" {
		return steps, nil
	}
	unit := filepath.Join(o.Units, "gated.service")
	if op.ShellWords(o.Program, c.StateDir) != o.Program+" "+c.StateDir {
		return nil, refusal.New(refusal.BadParams, "a unit cannot name %s and %s", op.Shown(o.Program), op.Shown(c.StateDir)).
			WithHint("leave --service away, and start gated serve yourself")
	}
	return append(steps, Step{What: "the service of the user, " + op.Shown(unit), Done: exists(unit),
		Undo: "systemctl --user disable --now gated && " + op.ShellWords("rm", unit),
		do: func(ctx context.Context) error {
			if err := os.MkdirAll(o.Units, 0o700); err != nil {
				return err
			}
			text := fmt.Sprintf(userUnit, o.Program, c.StateDir, o.Program)
			if err := ownfile.ReplaceAs(unit, []byte(text), func(f *os.File) error { return f.Chmod(0o644) }); err != nil {
				return err
			}
			if err := o.Run(ctx, "systemctl", "--user", "daemon-reload"); err != nil {
				return err
			}
			return o.Run(ctx, "systemctl", "--user", "enable", "--now", "gated.service")
		}}), nil
}
