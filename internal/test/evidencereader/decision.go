package evidencereader

import (
	"slices"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/log/audit"
	"gated/internal/log/evidence"
	"gated/internal/log/journal"
)

// decided is steps 9 to 13. Of a step that was approved and then rejected, the rejection alone is the decision.
func (r *reading) decided() {
	switch d := r.newest(audit.Approved, audit.Rejected); {
	case d.Kind == audit.Approved:
		r.approved(d, r.signatures(d, r.Payload, r.Signatures))
	case d.Rejection.Payload != "" || len(d.Rejection.Signatures) > 0: // a rejection that was too long is not in the log
		r.rejected(d)
	}
}

// rejected is step 13.
func (r *reading) rejected(d audit.Entry) {
	payload := []byte(d.Rejection.Payload)
	no := get(op.DecodeRejection(payload))
	must(op.SHA256(payload) == d.Payload && no.PayloadSHA256 == r.last.Payload && no.Request == r.id && no.Gate == d.Gate && no.Host == r.Host,
		"the rejection is of something else")
	must(within(d.Time, no.IssuedAt, no.ExpiresAt), "the rejection was not in time")
	var sigs []evidence.Signature
	for _, armor := range d.Rejection.Signatures {
		sigs = append(sigs, evidence.Signature{Armor: armor})
	}
	r.signatures(d, payload, sigs)
}

// within reports whether a time is one of a signed text, of which clocks may differ by 60 seconds. Whole seconds count.
func within(t, from, until time.Time) bool {
	t = t.Truncate(time.Second)
	return !t.Before(from.Add(-time.Minute)) && !t.After(until.Add(time.Minute))
}

// signers is step 9. It returns the list of signers, and the fingerprints of the keys that were revoked.
func (r *reading) signers(d audit.Entry) (list *authz.Trust, revoked []string) {
	must(r.Signers != nil, "the evidence has no list of signers")
	trust := get(authz.LoadTrust([]byte(r.Signers.Text)))
	var loaded, listed audit.Entry
	for _, e := range r.entries {
		if e.Seq >= d.Seq {
			break
		}
		if e.Kind == audit.Started || e.Kind == audit.Trusted {
			loaded = e
		}
		if e.SignersFile.Epoch > 0 {
			listed = e
		}
	}
	force, older := d.InForce, d.InForce == audit.InForce{}
	if older {
		force = audit.InForce{Epoch: listed.SignersFile.Epoch, SHA256: listed.SignersFile.SHA256}
	}
	must(force.Epoch == r.Signers.Epoch && force.SHA256 == trust.Digest(), "the list of signers is not the one in force then")
	if older {
		return trust, nil
	}
	must(loaded.Revoked == force.Revoked, "the revoked keys shown are not those in force then")
	if force.Revoked == authz.RevokedUnreadable {
		must(d.Kind == audit.Rejected, "nobody could approve while the list of revoked keys could not be read")
		return trust, nil
	}
	return trust, loaded.RevokedKeys
}

// signatures is steps 9 and 10 of an approval or a rejection.
func (r *reading) signatures(d audit.Entry, payload []byte, sigs []evidence.Signature) (out []op.Signed) {
	trust, revoked := r.signers(d)
	left := slices.Clone(d.Signers)
	for _, s := range sigs {
		over, in := payload, (*op.Inclusion)(nil)
		if s.Batch != nil {
			over, in = s.Batch.Payload, &op.Inclusion{Batch: s.Batch.Payload, Index: int(s.Batch.Index)}
			for _, text := range s.Batch.Path {
				hash, ok := op.ParseDigest(text)
				must(ok, "the path of a batch is not one of hashes")
				in.Path = append(in.Path, hash)
			}
		}
		by := get(authz.VerifyFile(over, s.Armor, trust, d.Time))
		must(!slices.Contains(revoked, by.Key) && !slices.Contains(revoked, by.CA), "a key that signed was revoked then")
		signed := op.Signed{Principal: by.Principal, Role: by.Role, Key: by.Key, CA: by.CA, Attested: by.Attested, Batch: in}
		at := slices.Index(left, signed.String())
		must(at >= 0, "a signature is not by a key that the log names, or is there twice")
		left = slices.Delete(left, at, at+1)
		if in != nil {
			batch := get(op.DecodeBatch(over))
			hold(authz.Included(batch, *in, payload))
			first := r.moves[slices.IndexFunc(r.moves, func(e audit.Entry) bool { return slices.Contains(e.Signers, signed.String()) })]
			must(within(first.Time, batch.IssuedAt, batch.ExpiresAt), "the batch was not in time")
		}
		out = append(out, signed)
	}
	must(len(left) == 0 && len(out) > 0, "a signature that the log names is not in the evidence")
	return out
}

// approved is steps 11 and 12.
func (r *reading) approved(d audit.Entry, signed []op.Signed) {
	people, keys := map[string]bool{}, map[string]bool{}
	for _, s := range signed {
		must(!people[s.Principal] && !keys[s.Key], "a person or a key signed twice")
		people[s.Principal], keys[s.Key] = true, true
	}
	var need op.Requirement // that of an older entry is not recorded
	if d.InForce != (audit.InForce{}) {
		need = get(journal.DecodeNeed(d.InForce.Need))
		signed = slices.DeleteFunc(signed, func(s op.Signed) bool { return s.Batch != nil && !need.TakesBatch(s.Role) })
		must(need.Met(signed), "the signatures are not all that was needed")
	}
	p := get(op.DecodePayload(r.Payload))
	must(within(d.Time, p.IssuedAt, p.ExpiresAt), "the payload was not in time")
	if ran := r.newest(audit.Dispatched); ran.Seq > d.Seq {
		begin := d.Time.Add(need.Wait(signed)).Truncate(time.Second)
		must(!ran.Time.Before(begin), "it ran before its wait was over")
		must(within(ran.Time, p.IssuedAt, p.ExpiresAt), "it ran after the payload had expired")
	}
}
