package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/life"
	"gated/internal/wire/cli"
)

// defaultStateDir is life.DefaultStateDir, which the stories replace: a host's own gate is not theirs.
var defaultStateDir = life.DefaultStateDir

// instead runs ask, which asks the daemon, if the default state directory is not this user's to read, or has no gate.
// done is false if the directory has to be read: it was named, it can be read, or no daemon answers.
func instead(ctx context.Context, named string, ask func(context.Context) error) (done bool, err error) {
	if named != "" {
		return false, nil
	}
	if f, err := os.Open(filepath.Join(defaultStateDir(), "gated.db")); err == nil {
		return false, f.Close()
	}
	var gone *client.Unreachable
	if err = ask(ctx); errors.As(err, &gone) {
		return false, nil
	}
	return true, err
}

// asked asks the daemon what the state directory would say, and warns that nobody but the daemon says so.
func asked[T any](ctx context.Context, t *tool, ask func(*client.Client, context.Context) (T, error)) (out T, err error) {
	cl, err := t.Client()
	if err != nil {
		return out, err
	}
	defer cl.Close()
	if out, err = ask(cl, ctx); err == nil {
		t.Say("note: the daemon says so itself: you cannot read its state directory, or it is not the default one (--state)\n")
	}
	return out, err
}

// trustAsked is trust show for those who cannot read the state directory.
func (t *tool) trustAsked(ctx context.Context) error {
	in, err := asked(ctx, t, (*client.Client).Trust)
	if err != nil {
		return err
	}
	if in.Blocked {
		t.Say("warning: the daemon cannot read its revocation file, so that it refuses each signature\n")
	}
	for _, key := range in.Revoked {
		t.Say("warning: %s is revoked\n", op.Shown(key))
	}
	if t.JSON {
		out := trustVersion{Epoch: in.Epoch, Digest: in.SHA256, How: in.How, At: in.At.UTC(), Signers: []signer{}}
		for _, s := range in.Signers {
			out.Signers = append(out.Signers, signer(s))
		}
		return t.Emit(out)
	}
	if op.SHA256([]byte(in.Text)) != in.SHA256 {
		return refusal.New(refusal.Internal, "the daemon's list of signers is not the one that it names")
	}
	_, err = t.Stdout.Write([]byte(in.Text)) // its own bytes, to be put where ssh-keygen reads them
	return err
}

// auditAsked is audit verify for those who cannot read the state directory: what the daemon's own check found last.
func (t *tool) auditAsked(ctx context.Context) error {
	v, err := asked(ctx, t, (*client.Client).AuditVerified)
	if err != nil {
		return err
	}
	switch {
	case t.JSON:
		err = t.Emit(v)
	case v.At != nil && v.OK:
		if v.NotRead > 0 {
			t.Print("the daemon found its audit log whole from entry %d on at %s, %s ago: %d entries, head %s\n", v.NotRead+1, cli.Moment(*v.At),
				cli.Span(time.Since(*v.At)), v.Entries-v.NotRead, op.Shown(v.Hash))
			t.Print("entries 1 to %d are archived and were NOT read; the hashes of their tiles fit\n", v.NotRead)
		} else {
			t.Print("the daemon found its audit log whole at %s, %s ago: %d entries, head %s\n", cli.Moment(*v.At), cli.Span(time.Since(*v.At)),
				v.Entries, op.Shown(v.Hash))
		}
		t.Say("note: opsign proves at each call that the log goes on from what you saw of it\n")
	default:
		t.Print("the daemon's check of its audit log: %s\n", op.Shown(v.Detail))
	}
	if err == nil && (!v.OK || v.At == nil) {
		err = cli.Ended(api.ExitRefused)
	}
	return err
}

// ofState are the daemon's checks that are about its state.
var ofState = []string{"audit_log", "database", "journal", "state"}

// fsckAsked is fsck --quick for those who cannot read the state directory.
func (t *tool) fsckAsked(ctx context.Context) error {
	h, err := asked(ctx, t, (*client.Client).Health)
	if err != nil {
		return err
	}
	out := api.HealthReport{State: api.HealthOK, Checks: []api.HealthCheck{}}
	var rows []string
	for _, c := range h.Checks {
		if !slices.Contains(ofState, c.Name) {
			continue
		}
		out.Checks = append(out.Checks, c)
		rows = append(rows, cli.Row(c.Name, c.State, c.Detail))
		if c.State != api.HealthOK {
			out.State = api.HealthBad
		}
	}
	if len(out.Checks) < len(ofState) {
		out.State = api.HealthBad // a check that is not there found nothing
	}
	if t.JSON {
		err = t.Emit(out)
	} else {
		err = t.Table(rows...)
	}
	if err == nil && out.State != api.HealthOK {
		err = cli.Ended(api.ExitRefused)
	}
	return err
}
