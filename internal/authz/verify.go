package authz

import (
	"bytes"
	"strconv"
	"time"

	"github.com/hiddeco/sshsig"

	"gated/internal/op"
)

// Envelope is payload bytes and the armored signatures over them, 1 to
// op.MaxSignatures. Nothing in it is trusted.
type Envelope struct {
	Payload    []byte
	Signatures []string
}

// Signer is who made one signature that was verified.
type Signer struct {
	Principal string
	Role      op.Role
	Key       string // SHA256 fingerprint
	KeyType   string
	Armor     string // as it came; malleable, so neither an identity nor a key for anything
}

// Approval is a verified approval. Signers has one element for each signature,
// and may name one person or one key more than once.
type Approval struct {
	Payload op.Payload
	Bytes   []byte
	Signers []Signer
}

// Rejection is a verified rejection; Signers is as in Approval.
type Rejection struct {
	Rejection op.Rejection
	Bytes     []byte
	Signers   []Signer
}

// Verifier verifies envelopes for one gate. The zero one refuses everything.
type Verifier struct {
	Gate        op.GateID
	Host        string
	Trust       *Trust
	Skew        time.Duration // how far the signer's clock may be off
	MaxValidity time.Duration // the longest from issued_at to expires_at
}

// Approval verifies an approval at the time now. Every signature has to pass
// every stage. A refusal names its stage.
func (v Verifier) Approval(e Envelope, now time.Time) (Approval, error) {
	sigs, err := decode(e)
	if err != nil {
		return Approval{}, atStage(op.StageDecode, err)
	}
	p, err := op.DecodePayload(e.Payload)
	if err != nil {
		return Approval{}, atStage(op.StageDecode, err)
	}
	signers, err := v.verify(e.Payload, sigs, claims{p.Gate, p.Host, p.IssuedAt, p.ExpiresAt}, now)
	if err != nil {
		return Approval{}, err
	}
	return Approval{Payload: p, Bytes: e.Payload, Signers: signers}, nil
}

// Rejection verifies a rejection as Approval does an approval. The bytes of one
// are Malformed to the other.
func (v Verifier) Rejection(e Envelope, now time.Time) (Rejection, error) {
	sigs, err := decode(e)
	if err != nil {
		return Rejection{}, atStage(op.StageDecode, err)
	}
	r, err := op.DecodeRejection(e.Payload)
	if err != nil {
		return Rejection{}, atStage(op.StageDecode, err)
	}
	signers, err := v.verify(e.Payload, sigs, claims{r.Gate, r.Host, r.IssuedAt, r.ExpiresAt}, now)
	if err != nil {
		return Rejection{}, err
	}
	return Rejection{Rejection: r, Bytes: e.Payload, Signers: signers}, nil
}

// VerifyFile verifies one signature over an approval or a rejection, whichever
// the payload says it is, as opsign verify needs it: the key has to be valid at
// now, but for which gate the payload is and whether its own time has passed is
// not asked.
func VerifyFile(payload []byte, armored string, trust *Trust, now time.Time) (Signer, error) {
	sigs, err := decode(Envelope{Payload: payload, Signatures: []string{armored}})
	if err != nil {
		return Signer{}, atStage(op.StageDecode, err)
	}
	// "type" sorts last, so the canonical form of a rejection ends like this.
	if bytes.HasSuffix(payload, []byte(`"type":"`+op.TypeRejection+`"}`)) {
		_, err = op.DecodeRejection(payload)
	} else {
		_, err = op.DecodePayload(payload)
	}
	if err != nil {
		return Signer{}, atStage(op.StageDecode, err)
	}
	signers, err := authenticate(payload, sigs, trust, now)
	if err != nil {
		return Signer{}, err
	}
	return signers[0], nil
}

// claims is what approvals and rejections both say about where and when.
type claims struct {
	gate            op.GateID
	host            string
	issued, expires time.Time
}

// verify runs the stages after decode, each over all signatures before the
// next, so that the cheap ones come first.
func (v Verifier) verify(payload []byte, sigs []signature, c claims, now time.Time) ([]Signer, error) {
	signers, err := authenticate(payload, sigs, v.Trust, now)
	if err != nil {
		return nil, err
	}
	if err := v.checkTarget(c); err != nil {
		return nil, atStage(op.StageTarget, err)
	}
	if err := v.checkTime(c, now); err != nil {
		return nil, atStage(op.StageTime, err)
	}
	return signers, nil
}

// authenticate is the part that asks who signed: namespace, allow-list, crypto.
func authenticate(payload []byte, sigs []signature, trust *Trust, now time.Time) ([]Signer, error) {
	roles, err := checkNamespaces(sigs)
	if err != nil {
		return nil, atStage(op.StageNamespace, err)
	}
	lines, err := checkListed(sigs, roles, trust, now)
	if err != nil {
		return nil, atStage(op.StageAllowList, err)
	}
	if err := checkCrypto(payload, sigs, lines); err != nil {
		return nil, atStage(op.StageCrypto, err)
	}
	signers := make([]Signer, len(sigs))
	for i, l := range lines {
		signers[i] = Signer{Principal: l.Principal, Role: roles[i], Key: l.Key, KeyType: l.KeyType, Armor: sigs[i].armor}
	}
	return signers, nil
}

// decode is the first stage, but for the payload itself: the limits, before any
// work, then the form of every signature.
func decode(e Envelope) ([]signature, error) {
	switch n := len(e.Signatures); {
	case n == 0:
		return nil, op.Refuse(op.Malformed, "the envelope has no signature")
	case n > op.MaxSignatures:
		return nil, op.Refuse(op.Oversized, "the envelope has %d signatures, more than %d", n, op.MaxSignatures)
	case len(e.Payload) > op.MaxPayload:
		return nil, op.Refuse(op.Oversized, "the payload has %d bytes, more than %d", len(e.Payload), op.MaxPayload)
	}
	sigs := make([]signature, len(e.Signatures))
	for i, armored := range e.Signatures {
		s, err := parseSignature(armored)
		if err != nil {
			return nil, ofSignature(i, len(sigs), err)
		}
		sigs[i] = s
	}
	return sigs, nil
}

// checkNamespaces is the second stage: which role was each signature made in.
func checkNamespaces(sigs []signature) ([]op.Role, error) {
	roles := make([]op.Role, len(sigs))
	for i, s := range sigs {
		role, ok := op.RoleOfNamespace(s.namespace)
		if !ok {
			err := op.Refuse(op.NamespaceMismatch, "the signature's namespace %.64q is not that of a role", s.namespace).
				WithHint("sign with ssh-keygen -Y sign -n %s", op.Operational.Namespace())
			return nil, ofSignature(i, len(sigs), err)
		}
		roles[i] = role
	}
	return roles, nil
}

// checkListed is the third stage: the line that lists each key for its role now.
func checkListed(sigs []signature, roles []op.Role, trust *Trust, now time.Time) ([]entry, error) {
	lines := make([]entry, len(sigs))
	for i, s := range sigs {
		if s.barred != nil {
			return nil, ofSignature(i, len(sigs), s.barred)
		}
		line, err := trust.find(s.key, roles[i], now)
		if err != nil {
			return nil, ofSignature(i, len(sigs), err)
		}
		lines[i] = line
	}
	return lines, nil
}

// checkCrypto is the fourth stage. It verifies with the key of the line, and
// with the hash that the signature names, which is part of what was signed.
func checkCrypto(payload []byte, sigs []signature, lines []entry) error {
	for i, s := range sigs {
		parsed := &sshsig.Signature{Version: 1, PublicKey: s.key, Namespace: s.namespace, HashAlgorithm: s.hash, Signature: s.inner}
		if err := sshsig.Verify(bytes.NewReader(payload), parsed, lines[i].public, s.hash, s.namespace); err != nil {
			refusal := op.Refuse(op.BadSignature, "the signature by %s is not one over these bytes", lines[i].Key).
				WithHint("sign exactly the bytes that are sent, without a newline at the end")
			return ofSignature(i, len(sigs), refusal)
		}
	}
	return nil
}

// checkTarget is the fifth stage: is this payload for this gate.
func (v Verifier) checkTarget(c claims) error {
	switch {
	case c.host != v.Host:
		return op.Refuse(op.TargetMismatch, "the payload is for host %q, this is %q", c.host, v.Host).
			WithHint("send it to the gate of that host")
	case c.gate != v.Gate:
		return op.Refuse(op.TargetMismatch, "the payload is for gate %s, this is %s", c.gate, v.Gate).
			WithHint("a restored or new gate has a new id: sign the request as it is now")
	default:
		return nil
	}
}

// checkTime is the sixth stage. Both ends are inclusive, with the skew added.
func (v Verifier) checkTime(c claims, now time.Time) error {
	switch validity := c.expires.Sub(c.issued); {
	case validity > v.MaxValidity:
		return op.Refuse(op.ValidityTooLong, "the payload is valid for %s, more than %s", validity, v.MaxValidity).
			WithHint("sign one with an earlier expires_at")
	case now.Before(c.issued.Add(-v.Skew)):
		return op.Refuse(op.NotYetValid, "the payload is issued at %s", c.issued.Format(time.RFC3339)).
			WithHint("compare the clocks of the signer and of this host")
	case now.After(c.expires.Add(v.Skew)):
		return op.Refuse(op.Expired, "the payload expired at %s", c.expires.Format(time.RFC3339)).
			WithHint("sign the request as it is now")
	default:
		return nil
	}
}

// atStage names the stage of a refusal.
func atStage(s op.Stage, err error) error {
	r := *op.AsRefusal(err)
	return r.At(s)
}

// ofSignature says which of several signatures a refusal is about.
func ofSignature(i, n int, err error) error {
	r := *op.AsRefusal(err)
	if n > 1 {
		r.Detail = "signature " + strconv.Itoa(i+1) + ": " + r.Detail
	}
	return &r
}
