package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"

	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
)

// System is the host on which root sets the gate of all users up.
type System struct {
	User       string   // the daemon's, and the group of those who may ask
	Socket     string   // where clients look
	ClientFile string   // the host's client.yaml
	Units      []string // the directories of units, the first wins
	Booted     bool     // systemd runs (sd_booted(3))

	// Run runs a program as root. InitAs runs gated init as the user, in its own process.
	Run    func(ctx context.Context, argv ...string) error
	InitAs func(ctx context.Context, uid, gid uint32, c Choice) error
	// On reports whether the units are enabled and run.
	On func() bool
	// Healthy waits until the gate answers and finds nothing wrong with itself.
	Healthy func(ctx context.Context) error
}

// serviceUnits are the units of the package and of contrib/systemd.
var serviceUnits = []string{"gated.socket", "gated.service"}

// Steps plans the gate of the host. BadParams: a user does not exist, or the units are not installed.
func (s System) Steps(c Choice) ([]Step, error) {
	made, err := c.made()
	if err != nil {
		return nil, err
	}
	steps := []Step{s.account(), s.stateDir(c), {What: "the gate in " + op.Shown(c.StateDir), Done: made,
		Undo: op.ShellWords("rm", "-r", c.StateDir) + "    # the gate and its guests",
		do: func(ctx context.Context) error {
			uid, gid, err := lookUp(s.User)
			if err != nil {
				return err
			}
			if !s.Booted {
				c.Group = s.User
			}
			return s.InitAs(ctx, uid, gid, c)
		}}, s.clientFile()}
	for _, name := range c.Users {
		step, err := s.member(name, s.User)
		if err != nil {
			return nil, err
		}
		steps = append(steps, step)
	}
	if c.Libvirt != "" {
		if g, err := user.LookupGroup("libvirt"); err == nil {
			step := Step{What: "the daemon may use libvirt (group " + g.Name + ")", Done: isMember(s.User, g.Gid),
				Undo: "gpasswd -d " + s.User + " " + g.Name,
				do:   func(ctx context.Context) error { return s.Run(ctx, "usermod", "-aG", g.Name, s.User) }}
			steps = append(steps, step)
		}
	}
	service, err := s.service()
	if err != nil {
		return nil, err
	}
	return append(steps, service...), nil
}

// account is the daemon's own user and its group.
func (s System) account() Step {
	_, err := user.Lookup(s.User)
	return Step{What: "the account " + s.User, Done: err == nil, Undo: "userdel " + s.User,
		do: func(ctx context.Context) error {
			return s.Run(ctx, "useradd", "--system", "--user-group", "--no-create-home", "--home-dir", life.SystemStateDir,
				"--shell", "/usr/sbin/nologin", "--comment", "gated", s.User)
		}}
}

// stateDir is the directory that the daemon's user fills.
func (s System) stateDir(c Choice) Step {
	return Step{What: "the directory " + op.Shown(c.StateDir), Done: exists(c.StateDir),
		do: func(context.Context) error {
			uid, gid, err := lookUp(s.User)
			if err != nil {
				return err
			}
			if err := os.Mkdir(c.StateDir, 0o700); err != nil {
				return err
			}
			return os.Lchown(c.StateDir, int(uid), int(gid))
		}}
}

// member lets a user ask for changes.
func (s System) member(name, group string) (Step, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return Step{}, refusal.New(refusal.BadParams, "there is no user %s", op.Shown(name)).
			WithHint("name users of this host with --who-may-ask")
	}
	g, err := user.LookupGroup(group)
	return Step{What: fmt.Sprintf("%s may ask, from the next login on (group %s)", op.Shown(u.Username), group), Done: err == nil && isMember(name, g.Gid),
		Undo: op.ShellWords("gpasswd", "-d", u.Username, group),
		do:   func(ctx context.Context) error { return s.Run(ctx, "usermod", "-aG", group, u.Username) }}, nil
}

// service starts the daemon, now and at each boot, and waits until it is well.
func (s System) service() ([]Step, error) {
	if !s.Booted {
		return nil, nil
	}
	for _, name := range serviceUnits {
		if !slices.ContainsFunc(s.Units, func(dir string) bool { return exists(filepath.Join(dir, name)) }) {
			return nil, refusal.New(refusal.BadParams, "%s is not installed", name).
				WithHint("install the package, or copy the units as the README of contrib/systemd says")
		}
	}
	started := Step{What: "the service, now and at each boot", Done: s.On(), Undo: "systemctl disable --now gated.socket gated.service",
		do: func(ctx context.Context) error {
			if err := s.Run(ctx, "systemctl", "daemon-reload"); err != nil {
				return err
			}
			return s.Run(ctx, "systemctl", "enable", "--now", "gated.socket", "gated.service")
		}}
	well := Step{What: "the gate answers, and finds nothing wrong with itself", do: s.Healthy}
	return []Step{started, well}, nil
}

func lookUp(name string) (uid, gid uint32, err error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	id, err := strconv.ParseUint(u.Uid, 10, 32)
	group, groupErr := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(id), uint32(group), errors.Join(err, groupErr)
}

// isMember reports whether a user is in a group.
func isMember(name, gid string) bool {
	u, err := user.Lookup(name)
	return err == nil && ownfile.InGroup(u, gid)
}
