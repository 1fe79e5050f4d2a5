package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gated/internal/audit"
	"gated/internal/authz"
	"gated/internal/crashpoint"
	"gated/internal/journal"
	"gated/internal/op"
	"gated/internal/policy"
	"gated/internal/store"
)

// rules is one consistent set of trust and policy. A decision that was verified
// under one set commits only while that set still holds.
type rules struct {
	trust  *authz.Trust
	epoch  int64 // of the trust file
	policy policy.Policy
}

// errRulesMoved says that trust or policy changed while a decision was under
// way: it is verified again.
var errRulesMoved = errors.New("trust or policy changed")

// Trust returns the signers in force.
func (g *Gate) Trust() *authz.Trust { return g.rules.Load().trust }

// Epoch returns the number of the trust file in force, from 1.
func (g *Gate) Epoch() int64 { return g.rules.Load().epoch }

// InForce returns the signers in force and the number of their file, of one and
// the same moment.
func (g *Gate) InForce() (*authz.Trust, int64) {
	held := g.rules.Load()
	return held.trust, held.epoch
}

// Policy returns the policy in force.
func (g *Gate) Policy() policy.Policy { return g.rules.Load().policy }

// InForceEntry begins an entry that says by what is decided: the digests of
// policy, signers and revoked keys.
func (g *Gate) InForceEntry(kind audit.Kind) audit.Entry { return g.rules.Load().entry(kind) }

func (held *rules) entry(kind audit.Kind) audit.Entry {
	revokes := held.trust.Revokes()
	return audit.Entry{Kind: kind, Epoch: held.epoch, Digest: held.trust.Digest(), Policy: held.policy.Digest(),
		Revoked: held.trust.RevokedDigest(), Revokes: &revokes}
}

// Reload replaces the policy and the list of revoked keys together, after
// writing so to the audit log. A policy that is looser than the built-in one is
// refused. Once it has returned, nothing is decided by the old ones any more.
func (g *Gate) Reload(ctx context.Context, revoked *authz.Revoked, p policy.Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	g.changing.Lock()
	defer g.changing.Unlock()
	held := g.rules.Load()
	next := rules{trust: held.trust.WithRevoked(revoked), epoch: held.epoch, policy: p}
	e := next.entry(audit.Trusted)
	e.Detail = fmt.Sprintf("%d keys revoked", revoked.Count())
	if sum := revoked.Digest(); sum != "" {
		e.Detail += ", sha256:" + sum
	}
	if is, was := p.Digest(), held.policy.Digest(); is != was {
		e.Detail += fmt.Sprintf("; policy %.12s in force, was %.12s", is, was)
	}
	if err := next.trust.Blocked(); err != nil {
		e.Detail = op.AsRefusal(err).Detail // nobody knows how many
	}
	if err := g.Log(ctx, e); err != nil {
		return err
	}
	return g.replace(ctx, next)
}

// Rotate makes what the step of a used permit asks for the trust file in force:
// the new version and the audit entry are one transaction. Once it has returned,
// nothing is decided by the old file any more. A permit that was not used, or is
// for something else, is NotAllowed; a file that changed meanwhile is BadParams.
func (g *Gate) Rotate(ctx context.Context, p Permit) (authz.Rotation, error) {
	if p.core == nil || p.core.gate != g || !p.core.dispatched.Load() || p.core.step.Op != op.Rotate {
		return authz.Rotation{}, op.Refuse(op.NotAllowed, "there is no used permit for this rotation")
	}
	g.changing.Lock()
	defer g.changing.Unlock()
	held, s := g.rules.Load(), p.core.step
	next, err := held.rotation(s.Params, g.clock.Now().Now)
	if err != nil {
		return next, err
	}
	v := journal.TrustVersion{Epoch: held.epoch + 1, Text: next.Text, How: s.ID.String()}
	e := RotatedEntry("gate", next, v)
	e.Job, e.Step, e.Target = s.ID.Job.String(), s.ID.String(), s.Target.String()
	err = g.update(ctx, func(tx *store.Tx) error {
		v.At = g.clock.Now().Now
		err := errors.Join(journal.AddTrust(tx, v), g.append(tx, e))
		crashpoint.Here(crashpoint.RotateWritten)
		return err
	})
	if err != nil {
		return next, g.machine(err)
	}
	crashpoint.Here(crashpoint.RotateKept)
	err = g.replace(ctx, rules{trust: next.Trust, epoch: v.Epoch, policy: held.policy})
	crashpoint.Here(crashpoint.RotateInForce)
	return next, err
}

// RotatedEntry is the audit entry of a new version of the trust file.
func RotatedEntry(by string, next authz.Rotation, v journal.TrustVersion) audit.Entry {
	e := audit.Entry{Kind: audit.Rotated, By: by, Epoch: v.Epoch, Digest: next.Trust.Digest(), Detail: v.How}
	for _, l := range next.Added {
		e.Keys = append(e.Keys, "+ "+l.String())
	}
	for _, l := range next.Removed {
		e.Keys = append(e.Keys, "- "+l.String())
	}
	return e
}

// replace swaps the rules and waits until nothing is decided by the old ones.
func (g *Gate) replace(ctx context.Context, next rules) error {
	g.rules.Store(&next)
	g.checked.Store(false)
	// A group that began before this line may have decided by the old set. The
	// writer takes the next one when that one has ended, either way.
	err := g.store.Update(context.WithoutCancel(ctx), func(*store.Tx) error { return errBarrier })
	if !errors.Is(err, errBarrier) {
		return g.machine(err)
	}
	return nil
}

// errBarrier ends a transaction that was only to wait for those before it.
var errBarrier = errors.New("nothing to write")

// asks returns what the policy asks of a step on a target with these labels.
// It refuses, as BadParams, a rotation that cannot be.
func (held *rules) asks(spec op.Spec, s op.Step, labels map[string]string, now time.Time) (op.Requirement, error) {
	subject := policy.Subject{Spec: spec, Target: s.Target, Params: s.Params, Labels: labels}
	if spec.Name == op.Rotate {
		r, err := held.rotation(s.Params, now)
		if err != nil {
			return op.Requirement{}, err
		}
		subject.Rotation = &policy.Rotation{Roles: r.Roles, Reserved: r.Reserved}
	}
	return held.policy.Requirement(subject), nil
}

// requirement is the stricter of what the request was made with and what holds
// now.
func (held *rules) requirement(r op.Request, now time.Time) (op.Requirement, error) {
	spec, err := op.Lookup(r.Step.Op)
	if err != nil {
		return op.Requirement{}, err
	}
	need, err := held.asks(spec, r.Step, r.Labels, now)
	if err != nil {
		return op.Requirement{}, err
	}
	return r.Need.Stricter(need), nil
}

// rotation checks the parameters of a trust.rotate against the file in force.
func (held *rules) rotation(p op.Params, now time.Time) (authz.Rotation, error) {
	if n := p.Int("epoch"); n != held.epoch+1 {
		return authz.Rotation{}, op.Refuse(op.BadParams, "the rotation makes epoch %d, and the file is at %d", n, held.epoch).
			WithHint("the epoch goes up by one: %d", held.epoch+1)
	}
	r, err := held.trust.Rotate(p.Lines("add"), p.Lines("remove"), now)
	if err != nil {
		return r, err
	}
	for _, l := range r.Added {
		for _, role := range l.Roles {
			if !role.BuiltIn() && !slices.Contains(held.policy.Roles, role) {
				return r, op.Refuse(op.BadParams, "the rotation adds a key for %s, and this gate has no such role", role.Namespace()).
					WithHint("name the role under policy.roles first")
			}
		}
	}
	return r, nil
}
