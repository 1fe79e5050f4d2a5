package main

import (
	"gated/internal/cli"
	"gated/internal/op"
)

// ask reads OP NAME and parameters, and checks them against the catalogue: there
// may be no gate to do so. The name may be written with its kind, as gated
// prints it.
func ask(name, target string, given cli.Pairs) (op.Spec, op.Ask, error) {
	spec, err := op.Lookup(name)
	if err != nil {
		return spec, op.Ask{}, err
	}
	to, err := cli.Target(spec.Kind, target)
	if err != nil {
		return spec, op.Ask{}, err
	}
	p, err := spec.ParseArgs(given)
	if err != nil {
		return spec, op.Ask{}, err
	}
	return spec, op.Ask{Op: name, Target: to, Params: p}, spec.Check(to, p)
}
