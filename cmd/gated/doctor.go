package main

import (
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/api"
	"gated/internal/cli"
	"gated/internal/doctor"
	"gated/internal/op"
)

// trialDeadline bounds one trial of a git hook.
const trialDeadline = 30 * time.Second

func (t *tool) doctorCommand() *cobra.Command {
	var scope string
	var settings []string
	c := t.command("doctor", cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		p, err := place(c, scope)
		if err != nil {
			return err
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		d := doctor.Doctor{Place: p, Gate: cl, Socket: func() string { return string(cl.Address()) }, As: t.holder,
			Settings: t.agentSettings(p, settings), Home: t.hookHome(), Env: os.Environ(), Now: time.Now, Deadline: trialDeadline}
		r := d.Run(c.Context())
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
	c.Flags().StringArrayVar(&settings, "agent-settings", nil, flagDoctorSettings)
	_ = c.MarkFlagFilename("agent-settings", "json") // the flag was just added
	return c
}

// holder returns a client that calls as the agent of a token.
func (t *tool) holder(token string) (doctor.Holder, error) { return t.clientWith(token) }

// agentSettings are the files of settings that count in a place: those that
// were named, and those that agents read there by themselves.
func (t *tool) agentSettings(p api.Place, named []string) []string {
	list := []string{filepath.Join(p.Path, ".claude", "settings.json"), filepath.Join(p.Path, ".claude", "settings.local.json")}
	if home := t.Getenv("HOME"); filepath.IsAbs(home) {
		list = append(list, filepath.Join(home, ".claude", "settings.json"))
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
	t.Print(wordsBlind)
	for _, b := range r.Blind {
		t.Print(wordsBlindLine, b)
	}
	if r.Sound {
		t.Print(wordsDoctorSound)
	} else {
		t.Print(wordsDoctorUnsound)
	}
	return nil
}
