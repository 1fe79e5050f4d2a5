package gate

import (
	"context"

	"gated/internal/authz"
)

// ReplaceTrust puts another file in force, as a rotation does. Tests use it that are
// about the consequences.
func (g *Gate) ReplaceTrust(ctx context.Context, trust *authz.Trust) error {
	g.changing.Lock()
	defer g.changing.Unlock()
	held := g.rules.Load()
	return g.replace(ctx, rules{trust: trust, epoch: held.epoch + 1, policy: held.policy})
}

// The gate's words for a target that is not the one that was meant.
var (
	Stale     = stale
	Overtaken = overtaken
)

// Machine is what callers hear of a failure of the machine.
func (g *Gate) Machine(err error) error { return g.machine(err) }
