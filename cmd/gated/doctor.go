package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/doctor"
	"gated/internal/hook"
	"gated/internal/life"
	"gated/internal/op"
)

// trialDeadline bounds one trial of a git hook.
const trialDeadline = 30 * time.Second

func (t *tool) doctorCommand() *cobra.Command {
	var scope, dir string
	var settings []string
	var backends bool
	c := t.command("doctor", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
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
			Settings: t.agentSettings(p, settings), Home: t.hookHomeOf, Env: os.Environ(), Now: time.Now, Deadline: trialDeadline}
		d.Config = func() (string, error) { return life.CheckConfig(stateDir(dir)) }
		d.Reserved = func(ctx context.Context) bool { return t.anyReserved(ctx, p) }
		run := d.Run
		if backends {
			run = d.RunBackends
		}
		r := run(c.Context())
		if t.JSON {
			err = t.Emit(r)
		} else {
			err = t.showDoctor(r)
		}
		if err == nil && !r.Sound {
			err = cli.Ended(api.ExitRefused)
		}
		return err
	})
	scopeFlag(c, &scope)
	stateFlag(c, &dir)
	c.Flags().BoolVar(&backends, "backends", false, flagDoctorBackends)
	c.Flags().StringArrayVar(&settings, "agent-settings", nil, flagDoctorSettings)
	_ = c.MarkFlagFilename("agent-settings", "json") // the flag was just added
	return c
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
func (t *tool) agentSettings(p api.Place, named []string) []string {
	list := []string{hook.SettingsOf(p.Path), hook.LocalSettingsOf(p.Path)}
	if home := t.Getenv("HOME"); filepath.IsAbs(home) {
		list = append(list, hook.SettingsOf(home))
	}
	for _, path := range named {
		if abs, err := filepath.Abs(path); err == nil {
			path = abs
		}
		list = append(list, path)
	}
	seen := map[string]bool{}
	var out []string
	for _, path := range list {
		if !seen[path] {
			seen[path] = true
			out = append(out, path)
		}
	}
	return out
}

// showDoctor prints what is wrong before what is fine.
func (t *tool) showDoctor(r doctor.Report) error {
	for _, s := range []doctor.State{doctor.Bad, doctor.Note, doctor.OK} {
		for _, f := range r.Findings {
			if f.State != s {
				continue
			}
			t.Print(wordsFinding, doctorWords[s], op.Shown(f.What), f.Detail)
			if f.Hint != "" {
				t.Print(wordsFindingHint, f.Hint)
			}
		}
	}
	if len(r.Blind) > 0 {
		t.Print(wordsBlind)
	}
	for _, b := range r.Blind {
		t.Print(wordsBlindLine, b)
	}
	switch {
	case !r.Sound:
		t.Print(wordsDoctorUnsound)
	case slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Setup != nil }):
		t.Print(wordsDoctorSound)
	default:
		t.Print(wordsDoctorNothing)
	}
	return nil
}
