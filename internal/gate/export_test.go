package gate

import (
	"context"

	"gated/internal/authz"
)

// ReplaceTrust puts another file in force, as a rotation does, for tests that
// are about what follows from that.
func (g *Gate) ReplaceTrust(ctx context.Context, trust *authz.Trust) error {
	g.changing.Lock()
	defer g.changing.Unlock()
	held := g.rules.Load()
	return g.replace(ctx, rules{trust: trust, epoch: held.epoch + 1, policy: held.policy})
}

// How the gate words that a target is not what was meant.
var (
	Stale     = stale
	Overtaken = overtaken
)
