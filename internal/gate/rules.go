package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gated/internal/authz"
	"gated/internal/base/crashpoint"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/people/policy"
)

// rules has the trust and the policy of one moment. A decision that was verified
// under one set commits only while that set is in force.
type rules struct {
	trust  *authz.Trust
	epoch  int64 // number of the trust file
	policy policy.Policy
}

// errRulesMoved says that trust or policy changed during a decision. The gate then
// verifies again.
var errRulesMoved = errors.New("trust or policy changed")

// Trust returns the signers in force.
func (g *Gate) Trust() *authz.Trust { return g.rules.Load().trust }

// Epoch returns the number of the trust file in force, from 1.
func (g *Gate) Epoch() int64 { return g.rules.Load().epoch }

// InForce returns the signers in force and the number of their file, both of the
// same moment.
func (g *Gate) InForce() (*authz.Trust, int64) {
	inForce := g.rules.Load()
	return inForce.trust, inForce.epoch
}

// Policy returns the policy in force.
func (g *Gate) Policy() policy.Policy { return g.rules.Load().policy }

// InForceEntry begins an entry with the rules in force: the digests of policy,
// signers and revoked keys.
func (g *Gate) InForceEntry(kind audit.Kind) audit.Entry { return g.rules.Load().entry(kind) }

func (inForce *rules) entry(kind audit.Kind) audit.Entry {
	revokes := inForce.trust.Revokes()
	e := audit.Entry{Kind: kind, Policy: inForce.policy.Digest(),
		Revoked: inForce.trust.RevokedDigest(), Revokes: &revokes,
		Parts: audit.Parts{SignersFile: audit.SignersFile{Epoch: inForce.epoch, SHA256: inForce.trust.Digest()}}}
	if keys := inForce.trust.RevokedKeys(); len(keys) <= audit.MaxRevokedKeys {
		e.RevokedKeys = keys
	}
	return e
}

// inForce is what an entry says of the rules by which signatures counted.
func (inForce *rules) inForce(need op.Requirement) audit.InForce {
	return audit.InForce{Epoch: inForce.epoch, SHA256: inForce.trust.Digest(), Revoked: inForce.trust.RevokedDigest(),
		Need: journal.EncodeNeed(need)}
}

// Reload replaces the policy and the list of revoked keys together, and writes that
// to the audit log first. It refuses a policy that is looser than the built-in one.
// Once it has returned, no decision uses the old ones.
func (g *Gate) Reload(ctx context.Context, revoked *authz.Revoked, p policy.Policy) error {
	if err := p.Validate(); err != nil {
		return err
	}
	g.changing.Lock()
	defer g.changing.Unlock()
	inForce := g.rules.Load()
	next := rules{trust: inForce.trust.WithRevoked(revoked), epoch: inForce.epoch, policy: p}
	e := next.entry(audit.Trusted)
	e.Detail = fmt.Sprintf("%d keys revoked", revoked.Count())
	if sum := revoked.Digest(); sum != "" {
		e.Detail += ", sha256:" + sum
	}
	if is, was := p.Digest(), inForce.policy.Digest(); is != was {
		e.Detail += fmt.Sprintf("; policy %.12s in force, was %.12s", is, was)
	}
	if err := next.trust.Blocked(); err != nil {
		e.Detail = refusal.As(err).Detail // the gate cannot tell how many
	}
	if err := g.Log(ctx, e); err != nil {
		return err
	}
	return g.replace(ctx, next)
}

// Follow takes over the list of signers that another member of the gate wrote, with the revoked keys that are known here,
// for the gate of a standby. It writes nothing.
func (g *Gate) Follow(trust *authz.Trust, epoch int64) {
	g.changing.Lock()
	defer g.changing.Unlock()
	inForce := g.rules.Load()
	g.rules.Store(&rules{trust: trust, epoch: epoch, policy: inForce.policy})
}

// Rotate applies the step of a used permit to the trust file in force. One
// transaction writes the new version and the audit entry. Once it has returned, no
// decision uses the old file. A permit that is unused or for another operation is
// NotAllowed. If the file changed meanwhile, it is BadParams.
func (g *Gate) Rotate(ctx context.Context, p Permit) (authz.Rotation, error) {
	if !p.allows(g, op.Rotate) {
		return authz.Rotation{}, refusal.New(refusal.NotAllowed, "there is no used permit for this rotation")
	}
	g.changing.Lock()
	defer g.changing.Unlock()
	inForce, s := g.rules.Load(), p.core.step
	next, err := inForce.rotation(s.Params, g.clock.Now().Now)
	if err != nil {
		return next, err
	}
	v := journal.TrustVersion{Epoch: inForce.epoch + 1, Text: next.Text, How: s.ID.String()}
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
	err = g.replace(ctx, rules{trust: next.Trust, epoch: v.Epoch, policy: inForce.policy})
	crashpoint.Here(crashpoint.RotateInForce)
	return next, err
}

// RotatedEntry is the audit entry of a new version of the trust file.
func RotatedEntry(by string, next authz.Rotation, v journal.TrustVersion) audit.Entry {
	e := audit.Entry{Kind: audit.Rotated, By: by, Detail: v.How,
		Parts: audit.Parts{SignersFile: audit.SignersFile{Epoch: v.Epoch, SHA256: next.Trust.Digest(), How: v.How}}}
	for _, l := range next.Added {
		e.Keys = append(e.Keys, "+ "+l.String())
	}
	for _, l := range next.Removed {
		e.Keys = append(e.Keys, "- "+l.String())
	}
	return e
}

// replace swaps the rules and waits until no decision uses the old ones.
func (g *Gate) replace(ctx context.Context, next rules) error {
	g.rules.Store(&next)
	g.checked.Store(false)
	// A group that began before this line may have decided by the old set. The
	// writer starts the next group only when that one has ended, with or without
	// success.
	err := g.store.Update(context.WithoutCancel(ctx), func(*store.Tx) error { return errBarrier })
	if !errors.Is(err, errBarrier) {
		return g.machine(err)
	}
	return nil
}

// errBarrier ends a transaction that only waits for those before it.
var errBarrier = errors.New("nothing to write")

// asks returns what the policy asks for a step on a target with these labels. It
// refuses, as BadParams, a rotation that does not fit the trust file. For a drill that
// is what the policy asks for the operation that it rehearses.
func (inForce *rules) asks(spec op.Spec, s op.Step, labels map[string]string, now time.Time) (op.Requirement, error) {
	subject := policy.Subject{Spec: spec, Target: s.Target, Params: s.Params, Labels: labels}
	if spec.Name == op.Drill {
		as, at, err := op.Rehearsed(s.Params)
		if err != nil {
			return op.Requirement{}, err
		}
		subject = policy.Subject{Spec: as, Target: at}
	}
	if spec.Name == op.Rotate {
		r, err := inForce.rotation(s.Params, now)
		if err != nil {
			return op.Requirement{}, err
		}
		subject.Rotation = &policy.Rotation{Roles: r.Roles, Reserved: r.Reserved}
	}
	return inForce.policy.Requirement(subject), nil
}

// requirement is the stricter of the requirement at the request and the one in
// force.
func (inForce *rules) requirement(r op.Request, now time.Time) (op.Requirement, error) {
	spec, err := op.Lookup(r.Step.Op)
	if err != nil {
		return op.Requirement{}, err
	}
	need, err := inForce.asks(spec, r.Step, r.Labels, now)
	if err != nil {
		return op.Requirement{}, err
	}
	need = r.Need.Stricter(need)
	// Who may sign, and what was looked at after break-glass, is decided for itself.
	need.Single = need.Single || spec.Kind == op.KindTrust || spec.Kind == op.KindIncident
	return need, nil
}

// rotation checks the parameters of a trust.rotate against the file in force.
func (inForce *rules) rotation(p op.Params, now time.Time) (authz.Rotation, error) {
	if n := p.Int("epoch"); n != inForce.epoch+1 {
		return authz.Rotation{}, refusal.New(refusal.BadParams, "the rotation makes epoch %d, and the file is at %d", n,
			inForce.epoch).
			WithHint("the epoch goes up by one: %d", inForce.epoch+1)
	}
	r, err := inForce.trust.Rotate(p.Lines("add"), p.Lines("remove"), now)
	if err != nil {
		return r, err
	}
	for _, l := range r.Added {
		for _, role := range l.Roles {
			if !role.BuiltIn() && !slices.Contains(inForce.policy.Roles, role) {
				return r, refusal.New(refusal.BadParams, "the rotation adds a key for %s, and this gate has no such role",
					role.Namespace()).
					WithHint("name the role under policy.roles first")
			}
		}
	}
	return r, nil
}
