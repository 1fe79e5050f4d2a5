package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strings"
	"syscall"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/hostgate"
	"gated/internal/base/op"
	"gated/internal/base/ownfile"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/host/setup"
	"gated/internal/people/pubkey"
	"gated/internal/wire/cli"
)

// person is who types: behind sudo, the user that called it.
type person struct {
	name, home string
}

func (t *tool) person() person {
	if name := t.Getenv("SUDO_USER"); os.Geteuid() == 0 && name != "" {
		if u, err := user.Lookup(name); err == nil {
			return person{u.Username, u.HomeDir}
		}
	}
	return person{home: ownfile.Home(t.Getenv)}
}

// environmentOf is the environment of a person, as far as it is known: behind sudo, the home alone.
func (t *tool) environmentOf(p person) func(string) string {
	return func(name string) string {
		switch {
		case name == "HOME":
			return p.home
		case p.name != "":
			return ""
		}
		return t.Getenv(name)
	}
}

// agentKeys are the lines of the ssh-agent's keys.
func (t *tool) agentKeys(ctx context.Context) []string {
	if t.Getenv("SSH_AUTH_SOCK") == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ssh-add", "-L").Output()
	if err != nil {
		return nil // an agent without keys exits with 1
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// system is this host.
func (t *tool) system() setup.System {
	return setup.System{User: life.ServiceUser, Socket: api.SystemSocket, ClientFile: client.SystemFile, Units: hostgate.Units, Booted: hostgate.Host{}.Booted(),
		Run: runProgram, InitAs: initAs, On: serviceIsOn, Healthy: t.healthy}
}

// serviceIsOn reports whether systemd says that both units are enabled and run.
func serviceIsOn() bool {
	for _, verb := range []string{"is-enabled", "is-active"} {
		if exec.Command("systemctl", "--quiet", verb, "gated.socket").Run() != nil ||
			exec.Command("systemctl", "--quiet", verb, "gated.service").Run() != nil {
			return false
		}
	}
	return true
}

// runProgram runs a program of the host's; its error has what the program said.
func runProgram(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, op.Shown(strings.TrimSpace(string(out))))
	}
	return nil
}

// initAs runs gated init as the daemon's user, so that nothing of the state is ever root's.
func initAs(ctx context.Context, uid, gid uint32, c setup.Choice) error {
	args := []string{"init", "--json", "--state", c.StateDir}
	if c.Host != "" {
		args = append(args, "--host", c.Host)
	}
	if c.Group != "" {
		args = append(args, "--socket-group", c.Group)
	}
	if c.Libvirt != "" {
		args = append(args, "--libvirt", c.Libvirt)
	}
	for flag, keys := range map[string][]pubkey.Arg{"--operator": c.Operators, "--recovery": c.Recovery} {
		for _, k := range keys {
			arg := k.Path
			if k.Principal != "" {
				arg += ":" + k.Principal
			}
			args = append(args, flag, arg)
		}
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it leaves nothing half made
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var refused struct {
			Error api.Error `json:"error"`
		}
		if api.DecodeAnswer(out.Bytes(), &refused) == nil && refused.Error.Code != "" {
			return refusal.New(refused.Error.Code, "%s", refused.Error.Detail).WithHint("%s", refused.Error.Hint)
		}
		return fmt.Errorf("%w: %s", err, op.Shown(strings.TrimSpace(said.String())))
	}
	return nil
}

// healthTime is how long a gate may take to start and to find itself well.
const healthTime = time.Minute

// healthy waits for the gate of the host.
func (t *tool) healthy(ctx context.Context) error {
	cl, err := client.New(client.Options{Socket: api.SystemSocket, Getenv: func(string) string { return "" }})
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(ctx, healthTime)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	why := unanswered
	for {
		s, err := cl.Status(ctx)
		if ctx.Err() == nil {
			why = unwell(s, err)
		}
		if why == "" {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			if err := context.Cause(ctx); err != context.DeadlineExceeded {
				return err
			}
			return refusal.New(refusal.Unavailable, "the gate is not well after %s: %s", healthTime, why).
				WithHint("gated status and journalctl -u gated say more")
		}
	}
}

const unanswered = "it does not answer"

// unwell says why a gate that was asked for its status is not well, "" if it is. One that cannot start says why itself.
func unwell(s api.Status, err error) string {
	var r *refusal.Refusal
	switch {
	case errors.As(err, &r):
		return r.Detail
	case err != nil:
		return unanswered
	}
	return sick(s)
}

// sick says what a gate finds wrong with itself.
func sick(s api.Status) string {
	var out []string
	for _, h := range s.Health {
		if !h.OK {
			out = append(out, h.Name+": "+h.Detail)
		}
	}
	return strings.Join(out, "; ")
}

// confirm asks for what no flag says of a new gate: whose keys may sign, and who may ask.
func (t *tool) confirm(ctx context.Context, in *bufio.Reader, asks bool, p person, keys []setup.FoundKey, f *setupFlags) (err error) {
	if len(f.operators) == 0 {
		if f.operators, err = t.confirmKeys(ctx, in, asks, keys); err != nil {
			return err
		}
	}
	return t.confirmUser(ctx, in, asks, p, f)
}

// confirmKeys returns the keys of which the person says that they may sign.
func (t *tool) confirmKeys(ctx context.Context, in *bufio.Reader, asks bool, keys []setup.FoundKey) ([]string, error) {
	if len(keys) == 0 || !asks {
		if len(keys) == 0 {
			t.Say("usage: setup needs the public key of an operator, and found none\n" +
				"  ssh-keygen -t ed25519\n  gated setup --operator ~/.ssh/id_ed25519.pub\n")
		} else {
			t.Say("usage: setup needs the public key of an operator; type for example:\n  gated setup --operator %s\n", op.Shown(keys[0].Arg))
		}
		return nil, cli.Ended(api.ExitUsage)
	}
	var out []string
	for _, k := range keys {
		yes, err := t.asked(ctx, in, fmt.Sprintf("May %s sign destructive steps, with %s? [y/N]", cli.Person(k.Principal),
			op.Shown(k.Fingerprint)))
		if err != nil {
			return nil, err
		}
		if yes {
			out = append(out, k.Arg)
		}
	}
	if len(out) == 0 {
		t.Say("nothing was done: a gate needs an operator's key; name one with --operator\n")
		return nil, cli.Ended(api.ExitRefused)
	}
	return out, nil
}

// confirmUser adds the user behind sudo to those who may ask, if no flag names any and the person agrees. Without such a
// user, root alone could reach the new gate.
func (t *tool) confirmUser(ctx context.Context, in *bufio.Reader, asks bool, p person, f *setupFlags) error {
	if !asks || f.own || len(f.users) > 0 || p.name == "" {
		return nil
	}
	yes, err := t.asked(ctx, in, fmt.Sprintf("May %s ask the gate for steps (group %s)? [y/N]", op.Shown(p.name), life.ServiceUser))
	if yes {
		f.users = []string{p.name}
	}
	return err
}

// asked reports whether the person says yes. It ends with ctx, because a person who presses Ctrl-C types nothing more.
func (t *tool) asked(ctx context.Context, in *bufio.Reader, question string) (bool, error) {
	t.Say("%s ", strings.TrimSuffix(cli.Told(question, t.Stderr), "\n"))
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() {
		text, err := in.ReadString('\n')
		read <- line{text, err}
	}()
	select {
	case <-ctx.Done():
		t.Say("\nnothing was done\n")
		return false, ctx.Err()
	case l := <-read:
		answer := strings.ToLower(strings.TrimSpace(l.text))
		return l.err == nil && (answer == "y" || answer == "yes"), nil
	}
}

// showFound says what there is.
func (t *tool) showFound(f setupFound) {
	t.Print("found:\n")
	for _, k := range f.Keys {
		t.Print("  key of %s, %s, in %s\n", cli.Person(k.Principal), op.Shown(k.Fingerprint), op.Shown(k.From))
	}
	if f.Libvirt != "" {
		t.Print("  libvirt at %s\n", op.Shown(f.Libvirt))
	}
	if len(f.Agents) > 0 {
		t.Print("  agents: %s\n", op.Shown(strings.Join(f.Agents, ", ")))
	}
	for _, s := range f.Shadows {
		t.Print("  note: %s\n    %s\n", s.What, s.Hint)
	}
	if len(f.Keys)+len(f.Agents)+len(f.Shadows) == 0 && f.Libvirt == "" {
		t.Print("  nothing that it could use\n")
	}
}

// saysStep says of each step what happens to it.
func (t *tool) saysStep(s setup.Step, begins bool) {
	switch {
	case t.JSON:
	case begins:
		t.Say("... %s\n", s.What)
	case s.Done:
		t.Print("there was  %s\n", s.What)
	default:
		t.Print("done       %s\n", s.What)
	}
}

// showSetup ends a set-up: how to undo it, and what to type next.
func (t *tool) showSetup(d setupDone, dry bool) error {
	if t.JSON {
		return t.Emit(d)
	}
	if dry {
		for _, s := range d.Steps {
			if s.Done {
				t.Print("is there   %s\n", s.What)
			} else {
				t.Print("would do   %s\n", s.What)
			}
		}
	}
	t.showUndo(d.Steps)
	t.Print("next:\n")
	for _, line := range d.Next {
		t.Print("  %s\n", line)
	}
	return nil
}

// showUndo says how to take back what this run did. What was there before may be of other people, so no line removes it.
func (t *tool) showUndo(steps []setup.Step) {
	heading := "to undo it, line by line:\n"
	for _, s := range slices.Backward(steps) {
		if !s.Done && s.Undo != "" {
			t.Print(heading+"  %s\n", s.Undo)
			heading = ""
		}
	}
}
