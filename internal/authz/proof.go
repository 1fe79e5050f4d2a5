package authz

import (
	"errors"
	"slices"

	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// additions are the lines that a payload asks to add to the file. Nil adds nothing.
type additions struct {
	lines  []string
	parsed bool
	byKey  map[string][]entry // the key's wire encoding → its lines
}

// additionsOf returns what a payload adds. Its params are not checked yet, so they
// may have any value.
func additionsOf(p op.Payload) *additions {
	if p.Op != op.Rotate {
		return nil
	}
	return &additions{lines: p.Params.Lines("add")}
}

// proves reports whether a refused signature proves that its signer has a key that
// the payload adds, in the role of the new line. A certificate proves nothing, and
// neither does a revoked key. For a CA's line, the CA's own key gives the proof.
func (a *additions) proves(s signature, role op.Role, refused error) (entry, bool) {
	if a == nil || s.barred != nil || s.cert != nil {
		return entry{}, false
	}
	if !errors.Is(refused, refusal.UnknownSigner) && !errors.Is(refused, refusal.SignerExpired) {
		return entry{}, false
	}
	a.parse()
	for _, e := range a.byKey[string(s.blob)] {
		if slices.Contains(e.Roles, role) {
			return e, true
		}
	}
	return entry{}, false
}

// parse reads the lines once, when a signature needs them. A line that does not load
// adds nothing; Rotate refuses it later.
func (a *additions) parse() {
	if a.parsed {
		return
	}
	a.parsed, a.byKey = true, map[string][]entry{}
	for _, line := range a.lines {
		if e, err := addition(line); err == nil {
			blob := string(e.public.Marshal())
			a.byKey[blob] = append(a.byKey[blob], e)
		}
	}
}

// VerifyStored returns nil if a stored signature is a signature over the payload, or
// over a batch with the payload in it, and the stored facts beside it are true. These are the role, the key, what a security
// key attested, and of a certificate the CA and the person. It refuses with the
// failing stage, as an approval would be refused.
//
// It uses neither a list of signers nor a clock, because the audit log has the
// signers that were listed when a signature counted. A plain key does not name its
// person, so any principal passes without a certificate. A stored signature without
// an attestation passes too. Proofs of possession are stored without it, and so were
// older signatures.
//
// Of a passkey it checks all but what a gate's configuration says, because that may have
// been another one when the signature counted.
func VerifyStored(payload []byte, stored op.Signed) error {
	e := Envelope{Payload: payload, Signatures: []string{stored.Armor}, Batch: stored.Batch}
	sigs, err := decode(e)
	if err != nil {
		return atStage(refusal.StageDecode, err)
	}
	over, err := stated(e)
	if err != nil {
		return atStage(refusal.StageDecode, err)
	}
	s := sigs[0]
	if _, err := checkNamespaces(sigs, over, func(r op.Role) bool { return r == stored.Role }); err != nil {
		return atStage(refusal.StageNamespace, err)
	}
	if err := s.isOf(stored); err != nil {
		return atStage(refusal.StageAllowList, err)
	}
	if err := s.checkCrypto(over.signed); err != nil {
		return atStage(refusal.StageCrypto, err)
	}
	if err := over.checkInclusion(e); err != nil {
		return atStage(refusal.StageInclusion, err)
	}
	// Only a verified signature tells what its key attested.
	if said := attestedBy(s.key, s.inner); stored.Attested != nil && (said == nil || *said != *stored.Attested) {
		err := refusal.New(refusal.BadSignature, "the key %s attested something else than is stored", stored.Key)
		return atStage(refusal.StageCrypto, err)
	}
	return nil
}

// isOf refuses, as UnknownSigner, a signature by another key, CA or person than the
// stored one.
func (s signature) isOf(stored op.Signed) error {
	if s.barred != nil {
		return s.barred
	}
	if key := ssh.FingerprintSHA256(s.key); key != stored.Key {
		return refusal.New(refusal.UnknownSigner, "the signature is by the key %s, and is stored as one by %s",
			key, op.Shown(stored.Key))
	}
	if s.cert == nil {
		if stored.CA != "" {
			return refusal.New(refusal.UnknownSigner, "the signature by key %s holds no certificate, and is stored with one",
				stored.Key)
		}
		return nil
	}
	switch principal, err := s.cert.principal(); {
	case err != nil:
		return err
	case s.cert.caPrint != stored.CA:
		return refusal.New(refusal.UnknownSigner, "the certificate of key %s is by the CA %s, and is stored as one by %q",
			stored.Key, s.cert.caPrint, op.Shown(stored.CA))
	case principal != stored.Principal:
		return refusal.New(refusal.UnknownSigner, "the certificate of key %s is for %q, and is stored as one for %q",
			stored.Key, principal, op.Shown(stored.Principal))
	default:
		return nil
	}
}
