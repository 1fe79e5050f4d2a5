package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/op"
)

// pairs collects -p NAME=VALUE as they are typed.
type pairs []string

func (p *pairs) String() string { return strings.Join(*p, " ") }

// Type names the value in help texts.
func (p *pairs) Type() string { return "NAME=VALUE" }

// Set refuses what has no "=", which is a usage error.
func (p *pairs) Set(s string) error {
	if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
		return errors.New(wordsNotPair)
	}
	*p = append(*p, s)
	return nil
}

// paramFlag adds -p with completion of the operation's parameter names.
func (t *tool) paramFlag(c *cobra.Command, to *pairs) {
	c.Flags().VarP(to, "param", "p", flagParam)
	// It fails only for a flag that is not there.
	_ = c.RegisterFlagCompletionFunc("param", completeParams)
}

// ask reads OP NAME and parameters. The name may be written with its kind, as
// gated prints it. What the catalogue does not know is left for the gate to
// refuse, so that its audit log has it.
func ask(name, target string, given pairs) (op.Ask, error) {
	kind, _, ok := strings.Cut(name, ".")
	if !ok {
		return op.Ask{}, notAnOp(name)
	}
	spec, unknown := op.Lookup(name)
	if !strings.Contains(target, "/") {
		target = kind + "/" + target
	}
	to, err := op.ParseTarget(target)
	if err != nil && unknown != nil {
		return op.Ask{}, unknown
	}
	if err != nil {
		return op.Ask{}, err
	}
	p, err := spec.ParseArgs(given)
	if err != nil {
		return op.Ask{}, err
	}
	return op.Ask{Op: name, Target: to, Params: p}, nil
}
