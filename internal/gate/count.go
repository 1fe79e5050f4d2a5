package gate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/audit"
	"gated/internal/log/journal"
	"gated/internal/nonce"
)

// counts refuses a signature that the requirement does not ask for.
func counts(need op.Requirement, s op.Signed) error {
	if err := inRole(need, s); err != nil {
		return err
	}
	if err := single(need, s); err != nil {
		return err
	}
	if err := browsed(need, s); err != nil {
		return err
	}
	return touched(need, s)
}

// single refuses, as NotAllowed, a batch's signature where each request is signed alone.
func single(need op.Requirement, s op.Signed) error {
	if s.Batch != nil && !need.TakesBatch(s.Role) {
		return refusal.New(refusal.NotAllowed, "%s signed a batch, and this request takes no batch", op.ShownName(s.Principal)).
			At(refusal.StagePolicy).WithHint("sign it alone: opsign approve")
	}
	return nil
}

// browsed refuses, as NotAllowed, a passkey's signature where a rule refuses passkeys. If it were kept and met nothing, the
// person could not sign with another key, because each person counts once.
func browsed(need op.Requirement, s op.Signed) error {
	if s.Attested.Passkey() && need.NoPasskey(s.Role) {
		return refusal.New(refusal.NotAllowed, "%s signed with the passkey %s, and a rule refuses passkeys for this", op.ShownName(s.Principal), s.Key).
			At(refusal.StagePolicy).WithHint("sign with a key that is no passkey: opsign approve")
	}
	return nil
}

// apart refuses, as NotAllowed, the signature of a person who may be one of the requesters, where a rule takes none of those.
func (inForce *rules) apart(need op.Requirement, by []op.Requester, s op.Signed) error {
	if !need.Apart(s.Role) {
		return nil
	}
	return inForce.policy.People.Apart(s.Principal, by)
}

// apartFrom is apart as a check of each.
func (inForce *rules) apartFrom(by ...op.Requester) func(op.Requirement, op.Signed) error {
	return func(need op.Requirement, s op.Signed) error { return inForce.apart(need, by, s) }
}

// inRole refuses, as RoleDenied, a signature in a role that no demand names.
func inRole(need op.Requirement, s op.Signed) error {
	if !need.Accepts(s.Role) {
		return refusal.New(refusal.RoleDenied, "%s signed as %s, a role that does not count for this",
			op.ShownName(s.Principal), s.Role).At(refusal.StageRole)
	}
	return nil
}

// touched refuses, as TouchRequired, a signature whose key did not attest what the
// demands of its role ask for.
func touched(need op.Requirement, s op.Signed) error {
	if touch := need.Touch(s.Role); !s.Attested.Touch().Satisfies(touch) {
		return refusal.New(refusal.TouchRequired, "%s signed with the key %s, and this needs a security key with %s",
			op.ShownName(s.Principal), s.Key, touchWords[touch]).
			At(refusal.StagePolicy).WithHint("sign with a security key (ssh-keygen -t ed25519-sk); opsign keys shows yours")
	}
	return nil
}

var touchWords = map[op.Touch]string{op.TouchPresent: "a touch", op.TouchVerified: "a touch and a PIN or fingerprint"}

// each checks every signer of an envelope against a requirement.
func each(signers []authz.Signer, need op.Requirement, check func(op.Requirement, op.Signed) error) error {
	for _, s := range signers {
		if err := check(need, signedBy(s, time.Time{})); err != nil {
			return err
		}
	}
	return nil
}

func signedBy(s authz.Signer, at time.Time) op.Signed {
	return op.Signed{Principal: s.Principal, Role: s.Role, Key: s.Key, CA: s.CA, Armor: s.Armor, Attested: s.Attested, Batch: s.Batch, At: at}
}

// stillCounted checks the stored signatures against the trust and policy in force.
func stillCounted(inForce *rules, need op.Requirement, r op.Request, now time.Time) *refusal.Refusal {
	kept, last := split(inForce, need, r, now)
	if need.Met(kept) {
		return nil
	}
	if last != nil {
		return refusal.As(last)
	}
	return refusal.New(refusal.ThresholdUnmet, "%s has %d of the signatures that it needs, and %d are missing now", r.ID,
		len(kept), need.Missing(kept)).
		At(refusal.StagePolicy)
}

// split returns the signatures of a request that count by the rules in force. last is why the
// last of the others does not count.
func split(inForce *rules, need op.Requirement, r op.Request, now time.Time) (kept []op.Signed, last error) {
	for _, s := range r.Signatures {
		err := inForce.trust.Still(s, now)
		if err == nil {
			err = inForce.policy.Passkeys.Allow(s.Attested)
		}
		if err == nil {
			err = counts(need, s)
		}
		if err == nil {
			err = inForce.apart(need, r.Requesters, s)
		}
		if err == nil {
			kept = append(kept, s)
		} else {
			last = err
		}
	}
	return kept, last
}

// count adds the envelope's signatures to a request that was read in this
// transaction. The last signature that is needed authorizes the step. count first
// removes signatures that no longer count, so that the same people can sign again.
func (g *Gate) count(tx *store.Tx, a approval, r op.Request) (op.Request, error) {
	now := g.clock.Now().Now
	need, err := a.rules.requirement(r, now)
	if err != nil {
		return r, err
	}
	if r.Signatures, err = g.uncount(tx, a.rules, need, r, now); err != nil {
		return r, err
	}
	added, err := addSigned(tx, need, a, &r, now)
	if err != nil {
		return r, err
	}
	if added {
		if err := journal.Show(tx, r.ID, now, showingPause); err != nil {
			return r, err
		}
	}
	r.Need = need
	if !added {
		return r, refusal.New(refusal.ThresholdUnmet, "the envelope adds no person and no key that is not counted yet").
			At(refusal.StagePolicy).About(r.ID, r.Step.State)
	}
	e := signedEntry(a, r)
	if !need.Met(r.Signatures) {
		g.present(a.rules, &r, now)
		return r, g.append(tx, e)
	}
	if err := errors.Join(a.rules.proved(r, now), g.openIncident(tx, a.rules, r)); err != nil {
		return r, err
	}
	return g.authorize(tx, r, e, now)
}

// addSigned stores the new signatures and proofs of the envelope, and reports
// whether there were any.
func addSigned(tx *store.Tx, need op.Requirement, a approval, r *op.Request, now time.Time) (added bool, err error) {
	for _, s := range a.Signers {
		signed := signedBy(s, now)
		signed.Reason = a.reason
		if err := replaced(tx, need, r, signed); err != nil {
			return false, err
		}
		isNew, err := journal.AddSignature(tx, r.ID, signed)
		if err != nil {
			return false, err
		}
		if isNew {
			added = true
			r.Signatures = append(r.Signatures, signed)
		}
	}
	for _, s := range a.Proofs {
		signed := signedBy(s, now)
		isNew, err := journal.AddProof(tx, r.ID, signed)
		if err != nil {
			return false, err
		}
		if isNew {
			added = true
			r.Proofs = append(r.Proofs, signed)
		}
	}
	return added, nil
}

// replaced removes a person's signature in another role if the new signature is
// worth more. Otherwise the only manager who is an operator too would lock the
// request by signing as an operator first.
func replaced(tx *store.Tx, need op.Requirement, r *op.Request, s op.Signed) error {
	i := slices.IndexFunc(r.Signatures, func(old op.Signed) bool { return old.Principal == s.Principal })
	if i < 0 || r.Signatures[i].Role == s.Role {
		return nil
	}
	others := slices.Delete(slices.Clone(r.Signatures), i, i+1)
	if need.Missing(append(slices.Clone(others), s)) >= need.Missing(r.Signatures) {
		return nil
	}
	r.Signatures = others
	return journal.DropSignature(tx, r.ID, s.Principal)
}

// uncount removes the signatures that no longer count from a request, and returns
// the rest.
func (g *Gate) uncount(tx *store.Tx, inForce *rules, need op.Requirement, r op.Request, now time.Time) ([]op.Signed, error) {
	kept, why := split(inForce, need, r, now)
	if why == nil {
		return kept, nil
	}
	refused := refusal.As(why)
	e := about(audit.Uncounted, "gate", r.Step)
	e.Code, e.Stage, e.Detail = refused.Code, refused.Stage, refused.Detail
	for _, s := range r.Signatures {
		if slices.Contains(kept, s) {
			continue
		}
		e.Signers = append(e.Signers, s.String())
		if err := journal.DropSignature(tx, r.ID, s.Principal); err != nil {
			return nil, err
		}
	}
	return kept, g.append(tx, e)
}

// proved refuses, as BadParams, a rotation that adds a key if the key's holder did
// not sign it in the role of that key.
func (inForce *rules) proved(r op.Request, now time.Time) error {
	owed, err := inForce.owed(r, now)
	if err != nil || len(owed) == 0 {
		return err
	}
	return refusal.New(refusal.BadParams,
		"the new key %s did not sign this as %s, so it is not proved that its holder has it", owed[0].Key, owed[0].Role).
		At(refusal.StagePolicy).
		WithHint("its holder signs the same request first: opsign approve %s --role %s --key FILE", r.ID, owed[0].Role)
}

// owed returns the proofs of possession that a request still needs.
func (inForce *rules) owed(r op.Request, now time.Time) ([]authz.Owed, error) {
	if r.Step.Op != op.Rotate {
		return nil, nil
	}
	rotation, err := inForce.rotation(r.Step.Params, now)
	if err != nil {
		return nil, err
	}
	signed := append(slices.Clone(r.Proofs), r.Signatures...)
	return slices.DeleteFunc(rotation.Owed(), func(o authz.Owed) bool {
		return slices.ContainsFunc(signed, func(s op.Signed) bool { return s.Key == o.Key && s.Role == o.Role && s.CA == "" })
	}), nil
}

// signedEntry is the audit entry of signatures that counted.
func signedEntry(a approval, r op.Request) audit.Entry {
	e := about(audit.Signed, a.by.String(), r.Step)
	e.PID, e.Payload, e.Reason = a.by.PID, a.sha, a.reason
	e.InForce = a.rules.inForce(r.Need)
	for _, s := range r.Signatures {
		e.Signers = append(e.Signers, s.String())
	}
	for _, s := range r.Proofs {
		e.Keys = append(e.Keys, "proof "+s.String())
	}
	return e
}

func (g *Gate) authorize(tx *store.Tx, r op.Request, e audit.Entry, now time.Time) (op.Request, error) {
	t := op.TransitionOf(string(audit.Approved))
	if err := nonce.Spend(tx, r.Nonce, nonce.Fate(t.Nonce)); err != nil {
		return r, err
	}
	moved, err := journal.Move(tx, r.ID, op.StatePending, t, t.Code, "", now)
	if err != nil {
		return r, err
	}
	if !moved {
		return r, refusal.New(refusal.Replayed, "%s was decided already", r.ID).At(refusal.StageNonce)
	}
	r.Step.State, r.AuthorizedAt = t.To, now
	e.Kind = audit.Approved
	return r, g.append(tx, e)
}

// distinct returns the signatures that count: one for each person and key.
func distinct(signers []authz.Signer, now time.Time) []op.Signed {
	var out []op.Signed
	people, keys := map[string]bool{}, map[string]bool{}
	for _, s := range signers {
		if people[s.Principal] || keys[s.Key] {
			continue
		}
		people[s.Principal], keys[s.Key] = true, true
		out = append(out, signedBy(s, now))
	}
	return out
}

// addDistinct stores signatures and proofs of a request that has none yet.
func addDistinct(tx *store.Tx, r op.Request) error {
	for _, signed := range r.Signatures {
		if isNew, err := journal.AddSignature(tx, r.ID, signed); err != nil || !isNew {
			return cmp.Or(err, fmt.Errorf("a signature of %s is counted twice", r.ID))
		}
	}
	for _, signed := range r.Proofs {
		if _, err := journal.AddProof(tx, r.ID, signed); err != nil {
			return err
		}
	}
	return nil
}
