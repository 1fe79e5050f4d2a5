// Package setup makes a gate ready on a host that has the programs: the state, the accounts, the service. It plans steps
// first, each with its way back. A step that is done already changes nothing, so that a set-up that was interrupted goes
// on where it was.
package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/host/signers"
	"gated/internal/host/state"
	"gated/internal/people/pubkey"
)

// Step is one thing that a set-up does.
type Step struct {
	What string `json:"what"` // "the account gated"
	Undo string `json:"undo"` // a line of a shell that takes it back; empty if nothing has to
	Done bool   `json:"done"` // it was so before

	do func(context.Context) error
}

// Choice says what a gate has to be.
type Choice struct {
	StateDir  string
	Host      string // the name of what it guards; empty means the hostname
	Operators []pubkey.Arg
	Recovery  []pubkey.Arg
	Group     string   // whose members may connect, where no socket unit says it; empty means the default
	Libvirt   string   // the socket of the libvirtd that has the guests; empty means directories and processes
	Users     []string // who may ask: members of the group gated
}

// Apply does the steps that are not done, in order, and tells said of each before and after. It stops at the first that
// fails; the ones before stay.
func Apply(ctx context.Context, steps []Step, said func(s Step, begins bool)) error {
	for i := range steps {
		s := &steps[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.Done {
			said(*s, false)
			continue
		}
		said(*s, true)
		if err := s.do(ctx); err != nil {
			if r := (*refusal.Refusal)(nil); errors.As(err, &r) || ctx.Err() != nil {
				return err
			}
			return fmt.Errorf("%s: %w", s.What, err)
		}
		said(*s, false)
	}
	return nil
}

// Check reads the keys of a choice, and returns what the list of signers would have of them. Refusals are those of
// signers.Initial.
func (c Choice) Check() ([]authz.Listed, error) {
	if len(c.Operators)+len(c.Recovery) == 0 {
		return nil, nil
	}
	list, err := signers.Initial(map[op.Role][]pubkey.Arg{op.Operational: c.Operators, op.Recovery: c.Recovery})
	if err != nil {
		return nil, err
	}
	return list.Trust.Signers(), nil
}

// Made reports whether the state directory has a gate, as far as this user can see.
func (c Choice) Made() bool {
	made, _ := Choice{StateDir: c.StateDir}.made()
	return made
}

// made reports whether the state directory has a gate. Conflict: it has one, whose list does not have a key of the
// choice in its role. A set-up never changes who may sign.
func (c Choice) made() (bool, error) {
	database := filepath.Join(c.StateDir, state.DatabaseName)
	_, err := os.Lstat(database)
	switch {
	case store.Blank(database):
		return false, state.NotNew(c.StateDir, "is empty")
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	}
	if err != nil || len(c.Operators)+len(c.Recovery) == 0 {
		return err == nil, err
	}
	path := filepath.Join(c.StateDir, state.SignersName)
	text, err := os.ReadFile(path)
	if err != nil {
		return true, fmt.Errorf("read who may sign: %w", err)
	}
	trust, err := signers.Load(path, text)
	if err != nil {
		return true, err
	}
	wanted, err := c.Check()
	if err != nil {
		return true, err
	}
	listed := map[string]bool{}
	for _, l := range trust.Signers() {
		for _, role := range l.Roles {
			listed[l.Key+" "+string(role)] = true
		}
	}
	for _, w := range wanted {
		for _, role := range w.Roles {
			if !listed[w.Key+" "+string(role)] {
				return true, refusal.New(refusal.Conflict, "%s has a gate, whose list of signers does not have %s of %s as %s",
					op.Shown(c.StateDir), w.Key, op.Shown(w.Principal), role).
					WithHint("a new key is a rotation, which an operator signs: gated trust rotate. "+
						"To see who may sign now: gated trust show --state %s", op.ShellWords(c.StateDir))
			}
		}
	}
	return true, nil
}

// exists reports whether a path is there.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
