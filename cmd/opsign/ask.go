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
func paramFlag(c *cobra.Command, to *pairs) {
	c.Flags().VarP(to, "param", "p", flagParam)
	// It fails only for a flag that is not there.
	_ = c.RegisterFlagCompletionFunc("param", completeParams)
}

// ask reads OP NAME and parameters, and checks them against the catalogue: there
// may be no gate to do so. The name may be written with its kind, as gated
// prints it.
func ask(name, target string, given pairs) (op.Spec, op.Ask, error) {
	spec, err := op.Lookup(name)
	if err != nil {
		return spec, op.Ask{}, err
	}
	if !strings.Contains(target, "/") {
		target = spec.Kind + "/" + target
	}
	to, err := op.ParseTarget(target)
	if err != nil {
		return spec, op.Ask{}, err
	}
	p, err := spec.ParseArgs(given)
	if err != nil {
		return spec, op.Ask{}, err
	}
	return spec, op.Ask{Op: name, Target: to, Params: p}, spec.Check(to, p)
}
