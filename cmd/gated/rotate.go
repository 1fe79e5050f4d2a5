package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
	"gated/internal/host/signers"
	"gated/internal/wire/api"
	"gated/internal/wire/cli"
	"gated/internal/wire/client"
)

// rotation is what the flags of gated trust rotate say.
type rotation struct {
	keys    map[op.Role]*[]string // KEY.pub[:PRINCIPAL]
	add     []string
	remove  []string
	reason  string
	wait    bool
	signers []signers.NewSigner // of keys
}

func (t *tool) trustRotateCommand() *cobra.Command {
	r := rotation{keys: map[op.Role]*[]string{}}
	c := t.Command(cli.Words{
		Use:   "rotate",
		Short: "Ask for a change of who may sign",
		Long: `Adds and removes keys in one step, which waits for signatures: exit code 3. It prints who signs with which
key. The holder of a new key signs first, which proves that the holder has it. Then operators sign, or recovery alone.
With --wait, it waits until the step is done.`,
		Example: "  gated trust rotate --operator new.pub:alice@example.com --remove " +
			"SHA256:+ox65xycKUu6FNtc6/r+23nb5c9/mQN0EmnZVnxkwuE",
	}, cobra.NoArgs, func(c *cobra.Command, _ []string) error {
		if err := op.CheckText("reason", r.reason); err != nil {
			return err
		}
		if err := r.read(); err != nil {
			return err
		}
		if len(r.add)+len(r.signers)+len(r.remove) == 0 {
			return cli.Usage("say which keys to add (--operator, --recovery, --coordinator, --add) or to --remove")
		}
		cl, err := t.Client()
		if err != nil {
			return err
		}
		defer cl.Close()
		return t.rotate(c.Context(), cl, r)
	})
	for _, f := range []struct {
		role       op.Role
		name, text string
	}{{op.Operational, "operator", flagOperator}, {op.Recovery, "recovery", flagRecovery}, {op.Coordination,
		"coordinator", flagCoordinator}} {
		r.keys[f.role] = c.Flags().StringArray(f.name, nil, f.text)
		_ = c.MarkFlagFilename(f.name, "pub") // the flag was just added
	}
	c.Flags().StringArrayVar(&r.add, "add", nil, "a whole `LINE` of allowed_signers to add; may be given again")
	c.Flags().StringArrayVar(&r.remove, "remove", nil,
		"the `SHA256:...` fingerprint of a key to remove, every line of it; may be given again")
	c.Flags().StringVar(&r.reason, "reason", "", flagReason)
	c.Flags().BoolVar(&r.wait, "wait", false, "wait until it was signed and is done")
	return c
}

// read makes lines of the keys.
func (r *rotation) read() error {
	for _, role := range op.Roles {
		for _, k := range keyArgs(*r.keys[role]) {
			s, err := signers.SignerOf(k, role)
			if err != nil {
				return err
			}
			r.signers = append(r.signers, s)
		}
	}
	return nil
}

// params are those of the step that makes the given epoch.
func (r *rotation) params(epoch int64) op.Params {
	var add []any
	for _, s := range r.signers {
		add = append(add, s.Line)
	}
	for _, line := range r.add {
		add = append(add, line)
	}
	p := op.Params{"epoch": epoch}
	if add != nil {
		p["add"] = add
	}
	if len(r.remove) > 0 {
		remove := make([]any, len(r.remove))
		for i, key := range r.remove {
			remove[i] = key
		}
		p["remove"] = remove
	}
	return p
}

// rotate asks for the next epoch. Two who do so at once ask for the same one: it
// is made once, and the other rotation is refused.
func (t *tool) rotate(ctx context.Context, cl *client.Client, r rotation) error {
	status, err := cl.Status(ctx)
	if err != nil {
		return err
	}
	ask := op.Ask{Op: op.Rotate, Target: op.Signers, Params: r.params(status.Epoch + 1)}
	job, err := submitted(ctx, cl, api.SubmitOf(r.reason, ask))
	if err != nil {
		return err
	}
	if !waits(job) || job.Request == nil {
		return t.jobEnd(job)
	}
	request, err := cl.Request(ctx, *job.Request)
	if err != nil {
		return err
	}
	t.sayWhoSigns(request, r.signers)
	if r.wait {
		if job, err = awaited(ctx, cl, job, func(j api.Job) bool { return !j.State.Open() }); err != nil {
			return err
		}
		return t.jobEnd(job)
	}
	if t.JSON {
		if err := t.Emit(job); err != nil {
			return err
		}
	}
	return cli.Ended(api.ExitWaits)
}

// sayWhoSigns says who signs the rotation with which key: the holders of the new
// keys first, since the rotation is made with the last signature that counts.
func (t *tool) sayWhoSigns(r api.Request, keys []signers.NewSigner) {
	t.Say("%s trust.rotate waits for signatures\n", op.Shown(r.ID))
	for _, s := range keys {
		owed := s.Key + " " + string(s.Role)
		if i := slices.Index(r.Owed, owed); i >= 0 {
			t.Say("  first, the holder of the new key %s: opsign approve %s --role %s --key %s\n",
				op.Shown(s.Key), op.Shown(r.ID), op.Shown(string(s.Role)), op.Shown(strings.TrimSuffix(s.Path, ".pub")))
			r.Owed = slices.Delete(slices.Clone(r.Owed), i, i+1)
		}
	}
	for line := range strings.Lines(cli.Needed(r)) {
		t.Say("  %s", line)
	}
	t.Say("  then each operator: opsign approve %s\n", op.Shown(r.ID))
}
