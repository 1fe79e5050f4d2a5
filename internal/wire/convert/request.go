package convert

import (
	"slices"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
)

// RequestOf puts a request on the wire. It reads host and gate from the payload, so that they are what would be signed.
func RequestOf(r op.Request) (api.Request, error) {
	gate, host, err := op.OriginOf(r.Payload)
	if err != nil {
		return api.Request{}, err
	}
	out := api.Request{ID: r.ID.String(), Job: r.ID.Job.String(), Op: r.Step.Op, Host: host, Gate: gate,
		Target: r.Step.Target.String(), Incarnation: r.Step.Incarnation, StateFingerprint: r.Step.Fingerprint,
		Params: params(r.Step.Params), RequestedBy: requesters(r.Requesters), Reason: r.Reason,
		Reasons: reasons(r.Reasons), TimesRejected: r.TimesRejected, Rejections: rejections(r.Rejections),
		CreatedAt: r.CreatedAt.UTC(), IssuedAt: r.IssuedAt.UTC(), ExpiresAt: r.ExpiresAt.UTC(), State: r.Step.State,
		Class: r.Step.Verdict.Class, Rule: r.Step.Verdict.Rule, Why: r.Step.Verdict.Why, Facts: r.Facts, FactsAt: r.FactsAt.UTC(), Labels: r.Labels, Roles: r.Need.Roles(), Batch: append([]op.Role{}, r.Need.BatchRoles()...),
		Signatures: make([]api.Signature, 0, len(r.Signatures)), Needed: r.Need.Needed(), Missing: r.Missing(),
		Demands: demands(r), Owed: append([]string{}, r.Owed...), CoolOff: int64(r.Need.Wait(r.Signatures) / time.Second),
		Windows:       append([]op.Window{}, r.Need.Windows...),
		PayloadSHA256: op.SHA256(r.Payload), Offline: r.Offline, Detail: r.Step.Detail, Error: stepError(r.Step)}
	for _, s := range r.Signatures {
		out.Signatures = append(out.Signatures, signatureOf(s))
	}
	if !r.AuthorizedAt.IsZero() {
		at := r.AuthorizedAt.UTC()
		from := at.Add(r.Need.Wait(r.Signatures))
		out.AuthorizedAt, out.RunsAt = &at, &from
	}
	return out, nil
}

func reasons(rs []op.Reason) []api.Reason {
	out := make([]api.Reason, 0, len(rs))
	for _, r := range rs {
		out = append(out, api.Reason(r))
	}
	return out
}

func rejections(rs []op.Rejected) []api.Rejection {
	out := make([]api.Rejection, 0, len(rs))
	for _, r := range rs {
		out = append(out, api.Rejection{Request: r.Request.String(), By: r.By, Words: r.Words, At: r.At.UTC(), RequestedBy: r.AskedBy})
	}
	return out
}

func signatureOf(s op.Signed) api.Signature {
	out := api.Signature{Principal: s.Principal, Role: s.Role, Fingerprint: s.Key, CA: s.CA, Touch: s.Attested.Touch(),
		Armor: s.Armor, SignedAt: s.At.UTC(), Batch: BatchedOf(s.Batch), Reason: s.Reason}
	if s.Attested != nil {
		out.Counter, out.Origin = &s.Attested.Counter, s.Attested.Origin
	}
	return out
}

// demands puts every demand on the wire, with the people who could still meet it, if that is known.
func demands(r op.Request) []api.Demand {
	out := []api.Demand{}
	for _, w := range r.Need.Ways {
		for _, d := range w.Demands {
			out = append(out, api.Demand{Rule: d.Rule, Way: w.Name, Delay: int64(w.Delay / time.Second), Roles: d.Roles, Threshold: d.Threshold,
				Have: d.Have(r.Signatures), Touch: d.Touch, NoPasskey: d.NoPasskey, NotRequester: d.Apart, Could: could(r, d.Roles)})
		}
	}
	return out
}

func could(r op.Request, roles []op.Role) []string {
	out := []string{}
	for _, role := range roles {
		for _, who := range r.Could[role] {
			if !slices.Contains(out, who) {
				out = append(out, who)
			}
		}
	}
	return out
}
