package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gated/internal/cli"
	"gated/internal/client"
	"gated/internal/op"
	"gated/internal/witness"
)

func (t *tool) witnessCommand() *cobra.Command {
	c := t.command("witness", cobra.NoArgs, func(*cobra.Command, []string) error { return t.listWitnesses() })
	c.AddCommand(t.witnessExportCommand(), t.witnessCheckCommand(), t.witnessReplaceCommand())
	return c
}

// remembered is what is remembered of one gate.
type remembered struct {
	Gate           op.GateID        `json:"gate"`
	Host           string           `json:"host"`
	Addresses      []client.Address `json:"addresses"` // at which it is known
	Entries        int64            `json:"entries"`
	Root           string           `json:"root"`
	Seen           time.Time        `json:"seen"`
	Contradictions int              `json:"contradictions"`
	File           string           `json:"file"`
}

func (t *tool) listWitnesses() error {
	all, unread := t.witnesses().List()
	gates, err := client.KnownGatesOf(t.Getenv).List()
	if err != nil {
		return err
	}
	rows, contradicted := []string{wordsWitnessHead}, false
	for _, m := range all {
		r := rememberedOf(m, gates)
		contradicted = contradicted || r.Contradictions > 0
		if !t.JSON {
			rows = append(rows, r.row())
		} else if err := t.Emit(r); err != nil {
			return err
		}
	}
	switch {
	case t.JSON || len(all) == 0 && unread != nil:
		return unread
	case len(all) == 0:
		t.Print(wordsNoneRemembered)
		return nil
	case contradicted:
		t.Say(wordsContradicted)
	}
	if err := t.Table(rows...); err != nil {
		return err
	}
	return unread
}

func rememberedOf(m witness.Memory, gates []client.KnownGate) remembered {
	head := m.Head.Head()
	r := remembered{Gate: m.Head.Gate, Host: m.Head.Host, Addresses: []client.Address{}, Entries: head.Size, Root: head.Root.String(),
		Seen: m.Head.Seen, Contradictions: len(m.Contradictions), File: m.Path}
	for _, k := range gates {
		if k.Gate == r.Gate {
			r.Addresses = append(r.Addresses, k.Address)
		}
	}
	return r
}

func (r remembered) row() string {
	at := make([]string, len(r.Addresses))
	for i, a := range r.Addresses {
		at[i] = string(a)
	}
	contradicted := ""
	if r.Contradictions > 0 {
		contradicted = sprint(wordsTimes, r.Contradictions)
	}
	return cli.Row(string(r.Gate), r.Host, strings.Join(at, ","), sprint("%d", r.Entries), r.Root, cli.Moment(r.Seen), contradicted)
}

func (t *tool) witnessExportCommand() *cobra.Command {
	c := t.command("witness export", cobra.MaximumNArgs(1), func(_ *cobra.Command, args []string) error {
		var all []witness.Memory
		var unread error // the sound files are evidence all the same
		if len(args) == 0 {
			all, unread = t.witnesses().List()
		} else {
			all, unread = t.witnessOf(op.GateID(args[0]))
		}
		if len(all) == 0 && unread == nil {
			return nothingRemembered()
		}
		text, err := witness.Export(all...)
		if err == nil {
			_, err = t.Stdout.Write(text)
		}
		if err != nil {
			return err
		}
		return unread
	})
	c.ValidArgsFunction = t.completeRemembered
	return c
}

// completeRemembered completes the ids of the gates of which something is
// remembered.
func (t *tool) completeRemembered(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cli.NoFiles
	}
	return cli.CompleteFrom(func(context.Context) (out []string, err error) {
		all, err := t.witnesses().List()
		for _, m := range all {
			out = append(out, string(m.Head.Gate)+"\t"+m.Head.Host)
		}
		return out, err
	})
}

// witnessReplaceCommand holds a gate to the key that its operator read on its
// host.
func (t *tool) witnessReplaceCommand() *cobra.Command {
	var key string
	c := t.command("witness replace", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		gate := op.GateID(args[0])
		if !gate.Valid() {
			return noGateID(args[0])
		}
		if key == "" {
			return cli.Usage(wordsNoGateKey)
		}
		was, is, err := t.witnesses().Replace(c.Context(), gate, key)
		var not *witness.NotKept
		if errors.As(err, &not) {
			return op.Refuse(op.NotAllowed, "%v", not)
		}
		if err != nil {
			return err
		}
		if t.JSON {
			return t.Emit(is)
		}
		head, old := is.Head(), was.Head()
		t.Print(wordsReplaced, gate, op.Shown(is.Key), head.Size, head.Root, op.Shown(was.Address), old.Size, old.Root)
		return nil
	})
	c.Flags().StringVar(&key, "key", "", flagGateKey)
	c.ValidArgsFunction = t.completeRemembered
	return c
}

// witnessOf returns what is remembered of one gate, none if nothing is.
func (t *tool) witnessOf(gate op.GateID) ([]witness.Memory, error) {
	if !gate.Valid() {
		return nil, noGateID(string(gate))
	}
	m, err := t.witnesses().Remembered(gate)
	if err != nil || m == nil {
		return nil, err
	}
	return []witness.Memory{*m}, nil
}
