package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"gated/internal/base/op"
)

// Pairs collects -p NAME=VALUE as they are typed.
type Pairs []string

// String returns the pairs with spaces between them.
func (p *Pairs) String() string { return strings.Join(*p, " ") }

// Type names the value in help texts.
func (p *Pairs) Type() string { return "NAME=VALUE" }

// Set refuses what has no "=", which is a usage error.
func (p *Pairs) Set(s string) error {
	if name, _, ok := strings.Cut(s, "="); !ok || name == "" {
		return errors.New("not NAME=VALUE")
	}
	*p = append(*p, s)
	return nil
}

// ParamFlag adds -p with completion of the operation's parameter names. Of an
// operation whose parameters its target names, named completes them, if not nil.
func ParamFlag(c *cobra.Command, to *Pairs, named func(target string) ([]string, cobra.ShellCompDirective)) {
	c.Flags().VarP(to, "param", "p", "a parameter of the operation; may be given again")
	// It fails only for a flag that is not there.
	_ = c.RegisterFlagCompletionFunc("param", completeParams(named))
}

// Target reads NAME, which may be written with its kind, as the tools print it.
// It refuses what names nothing as Malformed.
func Target(kind, name string) (op.Target, error) {
	if !strings.Contains(name, "/") {
		name = kind + "/" + name
	}
	return op.ParseTarget(name)
}
