package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/agents/hook"
	"gated/internal/base/refusal"
	"gated/internal/wire/cli"
)

// products are the names of agent products that --for has.
type products []string

// everyProduct stands for the products that are used in the checkout or by the user.
const everyProduct = "auto"

// add adds the flag --for, with the names that it has unless it is given.
func (p *products) add(c *cobra.Command, names ...string) {
	known := append(hook.DialectNames(), everyProduct)
	c.Flags().StringSliceVar((*[]string)(p), "for", names,
		"the agent `PRODUCT`: "+strings.Join(known, ", ")+" (those found here or in your home); may be given again")
	_ = c.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(known, cli.NoFiles)) // the flag was just added
}

// find returns the products that were named, each once, for a checkout with that top level and a user's environment.
func (p products) find(top string, getenv func(string) string) ([]hook.Dialect, error) {
	var out []hook.Dialect
	for _, name := range p {
		add := hook.Found(top, getenv)
		switch {
		case name != everyProduct:
			d, err := hook.DialectOf(name)
			if err != nil {
				return nil, cli.Usage(err.Error())
			}
			add = []hook.Dialect{d}
		case len(add) == 0:
			return nil, cli.Usage("no agent product is found in the checkout or in your home: name one with --for")
		}
		for _, d := range add {
			if !slices.Contains(out, d) {
				out = append(out, d)
			}
		}
	}
	return out, nil
}

// butOthers adds to a refusal for one of several products how the others are named, because no file was changed.
func butOthers(err error, refused hook.Dialect, all []hook.Dialect) error {
	var r *refusal.Refusal
	var others []string
	for _, d := range all {
		if d != refused {
			others = append(others, d.Name())
		}
	}
	if len(others) == 0 || !errors.As(err, &r) {
		return err
	}
	hint := "for the other products: --for " + strings.Join(others, ",")
	if r.Hint != "" {
		hint = r.Hint + "; " + hint
	}
	return refusal.New(r.Code, "%s", r.Detail).WithHint("%s", hint)
}
