package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"gated/client"
	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/witness"
	"gated/internal/wire/cli"
)

// knownGate asks the gate who it is, and refuses one that is not the gate that
// is known at its address (TargetMismatch), or whose audit log does not go on
// from what is remembered of it (BindingMismatch). One that is met first is
// pinned, with a line that says so. Everything that shows or signs what a gate
// says asks this first, and compares what it signs with the answer's gate and
// host.
func (t *tool) knownGate(ctx context.Context, cl *client.Client) (api.Status, error) {
	s, _, err := t.witnessedGate(ctx, cl)
	return s, err
}

// witnessedGate is knownGate with what was checked of the gate's log, nil of a
// gate that signs no head of it.
func (t *tool) witnessedGate(ctx context.Context, cl *client.Client) (api.Status, *witness.Checked, error) {
	s, err := cl.Status(ctx)
	if err != nil {
		return api.Status{}, nil, err
	}
	at, file := cl.Address(), client.KnownGatesOf(t.Getenv)
	known, err := file.Known(at, s)
	if err == nil && !known && at.Remote() && t.unasked {
		err = metUnasked(at, s)
	}
	if err != nil {
		return api.Status{}, nil, err
	}
	of := witness.Gate{ID: s.Gate, Host: s.Host, Address: string(at)}
	if !known {
		if of, err = t.new(file, at, s); err != nil {
			return api.Status{}, nil, err
		}
	}
	checked, say, err := t.witness(ctx, cl, of)
	if err == nil && of.Meet != nil { // also where there is nothing to remember
		err = of.Meet()
	}
	if err != nil {
		return api.Status{}, nil, err
	}
	t.sayOnce(say)
	return s, checked, nil
}

// new is a gate that is met first at an address. It is pinned once its log was
// compared, since one that is refused is no reason to know its gate, and before
// the log is remembered.
func (t *tool) new(file client.KnownGates, at client.Address, s api.Status) (witness.Gate, error) {
	of := witness.Gate{ID: s.Gate, Host: s.Host, Address: string(at)}
	elsewhere, err := file.Elsewhere(at, s.Gate)
	if len(elsewhere) > 0 {
		of.Known = string(elsewhere[0].Address)
	}
	of.Meet = sync.OnceValue(func() error { return t.meet(file, at, s) })
	return of, err
}

// meet pins a gate that is not known yet. That of another host is met by a
// person: whoever is on the way there can pass on another gate's requests and
// show what they like beside them, so a program that signs what it finds at a
// new address was refused (NotAllowed) before.
func (t *tool) meet(file client.KnownGates, at client.Address, s api.Status) error {
	pinned, err := file.Check(at, s)
	var not *client.NotPinned
	switch {
	case errors.As(err, &not) && at.Remote():
		return cannotPin(at, not)
	case errors.As(err, &not):
		// Who listens on a socket of this host, the kernel has said already.
		t.Say("warning: at %s: %s\n", op.Shown(string(at)), op.Shown(not.Error()))
	case err != nil:
		return err
	case pinned:
		t.sayOnce(fmt.Sprintf("gate %s on %s is met first at %s: pinned in %s\n", s.Gate, op.Shown(s.Host), at, op.Shown(file.Path)))
	}
	elsewhere, err := file.Elsewhere(at, s.Gate)
	for _, k := range elsewhere {
		t.Say("warning: gate %s is known at %s already. A relay at %s could show its requests beside other facts: "+
			"go on only if both addresses are your own ways to that one gate\n", s.Gate, k.Address, at)
	}
	return err
}

func (t *tool) knownCommand() *cobra.Command {
	return t.Command(cli.Words{
		Use:   "known",
		Short: "List the gates that were met, by address",
		Long: `opsign pins a gate when it meets it first, in $XDG_CONFIG_HOME/gated/known_gates or
~/.config/gated/known_gates. It refuses another gate at the same address.`,
		Example: "  opsign known",
	}, cobra.NoArgs, func(*cobra.Command, []string) error {
		gates, err := client.KnownGatesOf(t.Getenv).List()
		if err != nil {
			return err
		}
		if t.JSON {
			return cli.Each(&t.Tool, nil, gates...)
		}
		if len(gates) == 0 {
			t.Print("no gate is known yet\n")
			return nil
		}
		var rows [][]string
		for _, k := range gates {
			rows = append(rows, []string{string(k.Address), k.Host, string(k.Gate)})
		}
		return t.List([]cli.Column{{Head: "ADDRESS"}, {Head: "HOST", Rank: 1}, {Head: "GATE", Rank: 2}}, rows)
	})
}

func (t *tool) forgetCommand() *cobra.Command {
	c := t.Command(cli.Words{
		Use:   "forget ADDRESS",
		Short: "Forget the gate of an address, so that the one that answers next is pinned",
		Long: `Ask the gate's administrator first, and compare the new id with what gated status prints on its host. What
opsign showed of the gate's requests goes, too, unless the gate is known at another address. What it remembers of the
gate's audit log stays, as evidence (opsign witness).`,
		Example: "  opsign forget ssh://alice@pve1",
	}, cobra.ExactArgs(1), func(_ *cobra.Command, args []string) error {
		at, err := client.ParseAddress(args[0])
		if err != nil {
			return err
		}
		gone, err := t.forget(client.KnownGatesOf(t.Getenv), at)
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(gone)
		}
		t.Print("forgot gate %s on %s, known at %s\n", gone.Gate, op.Shown(gone.Host), gone.Address)
		if m, err := t.witnesses().Remembered(gone.Gate); err == nil && m != nil {
			t.Say("what is remembered of its audit log stays, in %s\n", op.Shown(m.Path))
		}
		return nil
	})
	c.ValidArgsFunction = cli.CompleteFirst(func() ([]string, cobra.ShellCompDirective) {
		return cli.CompleteFrom(func(context.Context) (out []string, err error) {
			gates, err := client.KnownGatesOf(t.Getenv).List()
			for _, k := range gates {
				out = append(out, string(k.Address)+"\t"+k.Host)
			}
			return out, err
		})
	})
	return c
}

// forget takes a gate off an address and, if it is known at no other, removes what was shown of its requests. A failure to remove is no
// reason to keep the gate.
func (t *tool) forget(file client.KnownGates, at client.Address) (client.KnownGate, error) {
	gone, err := file.Forget(at)
	if err != nil {
		return gone, err
	}
	elsewhere, err := file.Elsewhere(at, gone.Gate)
	if err == nil && len(elsewhere) == 0 {
		err = t.shownDir().Forget(gone.Gate)
	}
	if err != nil {
		t.Say("warning: what was shown of its requests stays: %s\n", cli.Inline(cli.ProblemOf(err).Detail))
	}
	return gone, nil
}

func cannotPin(at client.Address, not *client.NotPinned) error {
	return refusal.New(refusal.NotAllowed, "%s is met first: %v", at, not).
		WithHint("make known_gates writable, or set XDG_CONFIG_HOME to a directory where it may be")
}

func metUnasked(at client.Address, s api.Status) error {
	return refusal.New(refusal.NotAllowed,
		"%s is met first, as gate %s on %s, and --yes does not accept a new gate: nothing was "+
			"signed", at, s.Gate, cli.Inline(s.Host)).
		WithHint("compare the id with what gated status prints on that host, and pin it: opsign -H %s list; opsign "+
			"known lists what is pinned", at)
}
