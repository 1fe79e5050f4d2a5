package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/agents/doctor"
	"gated/internal/agents/hook"
	"gated/internal/base/hostgate"
	"gated/internal/base/op"
	"gated/internal/host/life"
	"gated/internal/host/setup"
	"gated/internal/wire/cli"
)

// trialDeadline bounds one trial of a git hook.
const trialDeadline = 30 * time.Second

func (t *tool) doctorCommand() *cobra.Command {
	var scope, dir string
	var settings []string
	var backends bool
	c := t.Command(cli.Words{
		Use: "doctor",
		Short: "Say whether the hooks that are installed would block, by trying, and how the daemon's back ends and " +
			"its hub are",
		Long: `The daemon checks its back ends and, if it polls one, its hub. Then doctor reserves a path that does not
exist, under a name of its own. It tries each installed hook with that path and with a free path, and removes what it
made.

It changes no file of yours and runs no program that a file names. If a hook is exactly what gated hook install
writes, gated runs itself as that hook. In a checkout that another user could have written to, it does what --backends
does, and says so. It reads gated.yaml of your own gate as the daemon does.

Exits 1 if a hook does not block, if paths are reserved and no hook is installed, if a back end or the hub is away, or
if the configuration is refused.`,
		Example: "  gated doctor\n" +
			"  gated doctor --backends",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		p, err := place(c, scope)
		if err != nil {
			return err
		}
		where, err := t.Where()
		if err != nil {
			return err
		}
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		d := doctor.Doctor{Place: p, Program: self, Socket: where.Socket, Connect: t.doctorGate, Caller: t.caller,
			Home: t.hookHomeOf, Env: os.Environ(), Now: time.Now, Deadline: trialDeadline}
		d.Settings = t.agentSettings(p, settings)
		d.Config = func() (string, error) { return life.CheckConfig(stateDir(dir)) }
		d.Reserved = func(ctx context.Context) bool { return t.anyReserved(ctx, p) }
		run := d.Run
		if backends {
			run = d.RunBackends
		}
		r := t.withShadows(run(c.Context()), self)
		if err := t.showDoctor(r); err != nil {
			return err
		}
		if !r.Sound {
			return cli.Ended(api.ExitRefused)
		}
		return nil
	})
	scopeFlag(c, &scope)
	stateFlag(c, &dir)
	c.Flags().BoolVar(&backends, "backends", false, "look at the daemon's back ends alone")
	c.Flags().StringArrayVar(&settings, "agent-settings", nil,
		"a `FILE` of agents' settings to try, beside the usual ones; may be given again")
	_ = c.MarkFlagFilename("agent-settings", "json") // the flag was just added
	return c
}

// withShadows adds which programs and units of this host hide others.
func (t *tool) withShadows(r doctor.Report, self string) doctor.Report {
	for _, s := range setup.Shadows(self, t.Getenv("PATH"), hostgate.Units) {
		r.Findings = append(r.Findings, doctor.Finding{What: "programs and units", State: doctor.Note, Detail: s.What, Hint: s.Hint})
	}
	return r
}

// doctorGate is a daemon as the doctor asks it.
type doctorGate struct{ *client.Client }

// Where returns where it answered last.
func (g doctorGate) Where() string { return string(g.Address()) }

// doctorGate returns the daemon of a socket, or of the environment, asked as the
// agent of a token or as this process.
func (t *tool) doctorGate(socket, token string) (doctor.Gate, error) {
	cl, err := client.New(client.Options{Socket: socket, Getenv: t.Getenv, Token: token})
	return doctorGate{cl}, err
}

// caller asks the daemon for whom it takes this process, with the token that it
// was given.
func (t *tool) caller(ctx context.Context) (api.Caller, error) {
	cl, err := t.Client()
	if err != nil {
		return api.Caller{}, err
	}
	defer cl.Close()
	return cl.Self(ctx)
}

// anyReserved reports whether anybody holds anything in a place, as far as the
// daemon says.
func (t *tool) anyReserved(ctx context.Context, p api.Place) bool {
	cl, err := t.Client()
	if err != nil {
		return false
	}
	defer cl.Close()
	list, err := cl.Reservations(ctx, client.ReservationQuery{Scope: p.Path, Limit: 1})
	return err == nil && len(list.Reservations) > 0
}

// agentSettings are the files of settings that count in a place: those that
// were named, and those that agents read there by themselves.
func (t *tool) agentSettings(p api.Place, named []string) []hook.Settings {
	list := hook.SettingsThatCount(p.Path, t.Getenv)
	for _, path := range named {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		list = append(list, hook.Settings{Path: path})
	}
	seen := map[string]bool{}
	var out []hook.Settings
	for _, s := range list {
		if !seen[s.Path] {
			seen[s.Path] = true
			out = append(out, s)
		}
	}
	return out
}

// showDoctor prints what is wrong before what is fine.
func (t *tool) showDoctor(r doctor.Report) error {
	if t.JSON {
		return t.Emit(r)
	}
	for _, s := range []doctor.State{doctor.Bad, doctor.Note, doctor.OK} {
		for _, f := range r.Findings {
			if f.State != s {
				continue
			}
			t.Print("%-5s %s: %s\n", doctorWords[s], op.Shown(f.What), f.Detail)
			if f.Hint != "" {
				t.Print("        hint: %s\n", f.Hint)
			}
		}
	}
	if len(r.Blind) > 0 {
		t.Print("what no hook can see:\n")
	}
	for _, b := range r.Blind {
		t.Print("  - %s\n", b)
	}
	switch {
	case !r.Sound:
		t.Print("NOT everything is right: see above\n")
	case slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Setup != nil }):
		t.Print("everything that is installed blocks\n")
	default:
		t.Print("nothing is wrong\n")
	}
	return nil
}

// doctorWords name the states of a finding.
var doctorWords = map[doctor.State]string{doctor.OK: "ok", doctor.Note: "note", doctor.Bad: "BAD"}
