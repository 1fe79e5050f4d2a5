package authz

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// Envelope is payload bytes and the armored signatures over them, 1 to
// op.MaxSignatures. With a batch, the signatures are over the batch, and the payload is
// a leaf of it. Nothing in it is checked yet.
type Envelope struct {
	Payload    []byte
	Signatures []string
	Batch      *op.Inclusion // nil: the payload itself is signed
	// Reason is why the person approves, in the words of the caller that hands the signatures in. No signature covers it, and
	// nothing is decided by it.
	Reason string
}

// Signer is the person and the key of one verified signature.
type Signer struct {
	Principal string
	Role      op.Role
	Key       string // SHA256 fingerprint of the key that signed, certified or not
	KeyType   string
	CA        string        // fingerprint of the key that signed the certificate; empty for a plain key
	Serial    uint64        // of the certificate
	Attested  *op.Attested  // what a security key attests; nil for another key
	Armor     string        // as it was sent; it can be changed and stay valid, so it identifies nothing
	Batch     *op.Inclusion // the batch that was signed; nil if it was the payload
}

// Approval is a verified approval. Signers has one element for each signature that
// may count. A person or a key may be there more than once.
type Approval struct {
	Payload op.Payload
	Bytes   []byte
	Signers []Signer
	// Proofs are the signatures over a rotation by keys that it adds. They are
	// verified, and count for no demand.
	Proofs []Signer
	Batch  *op.Batch // that the signatures are over; nil if they are over the payload
}

// Rejection is a verified rejection; Signers is as in Approval.
type Rejection struct {
	Rejection op.Rejection
	Bytes     []byte
	Signers   []Signer
}

// Verifier verifies envelopes for one gate. The zero Verifier refuses everything.
type Verifier struct {
	Gate        op.GateID
	Host        string
	Trust       *Trust
	Roles       []op.Role     // the roles that this gate has beside the built-in ones
	Skew        time.Duration // how far the signer's clock may be off
	MaxValidity time.Duration // the longest time from issued_at to expires_at
	Passkeys    op.Passkeys   // whose WebAuthn signatures count
}

// Approval verifies an approval at the time now. Every signature must pass every
// stage. A refusal names its stage.
func (v Verifier) Approval(e Envelope, now time.Time) (Approval, error) {
	sigs, err := decode(e)
	if err != nil {
		return Approval{}, atStage(refusal.StageDecode, err)
	}
	p, err := op.DecodePayload(e.Payload)
	if err != nil {
		return Approval{}, atStage(refusal.StageDecode, err)
	}
	over, err := stated(e)
	if err != nil {
		return Approval{}, atStage(refusal.StageDecode, err)
	}
	adds := additionsOf(p)
	if over.batch != nil {
		adds = nil // a batch proves no possession of a key
	}
	parties, err := v.verify(e, over, sigs, claims{p.Gate, p.Host, p.IssuedAt, p.ExpiresAt}, adds, now)
	if err != nil {
		return Approval{}, err
	}
	out := Approval{Payload: p, Bytes: e.Payload, Batch: over.batch}
	for _, by := range parties {
		if by.proof {
			out.Proofs = append(out.Proofs, by.Signer)
		} else {
			out.Signers = append(out.Signers, by.Signer)
		}
	}
	return out, nil
}

// Rejection verifies a rejection as Approval does an approval. Each refuses the
// other's bytes as Malformed, and Rejection refuses a batch so.
func (v Verifier) Rejection(e Envelope, now time.Time) (Rejection, error) {
	sigs, err := decode(e)
	if err == nil && e.Batch != nil {
		err = refusal.New(refusal.Malformed, "a batch approves and never rejects")
	}
	if err != nil {
		return Rejection{}, atStage(refusal.StageDecode, err)
	}
	r, err := op.DecodeRejection(e.Payload)
	if err != nil {
		return Rejection{}, atStage(refusal.StageDecode, err)
	}
	parties, err := v.verify(e, statement{signed: e.Payload}, sigs, claims{r.Gate, r.Host, r.IssuedAt, r.ExpiresAt}, nil, now)
	if err != nil {
		return Rejection{}, err
	}
	out := Rejection{Rejection: r, Bytes: e.Payload}
	for _, by := range parties {
		out.Signers = append(out.Signers, by.Signer)
	}
	return out, nil
}

// VerifyFile verifies one signature over an approval, a rejection or a batch, for
// opsign verify. The key must be valid at now. VerifyFile does not check the payload's
// gate, the gate's roles or the payload's own time. Of a passkey it checks all but what
// a gate's configuration says: which pages may ask, and whether a vault may copy the key.
func VerifyFile(payload []byte, armored string, trust *Trust, now time.Time) (Signer, error) {
	sigs, err := decode(Envelope{Payload: payload, Signatures: []string{armored}})
	if err != nil {
		return Signer{}, atStage(refusal.StageDecode, err)
	}
	over := statement{signed: payload}
	switch {
	case isOfType(payload, op.TypeRejection):
		_, err = op.DecodeRejection(payload)
	case isOfType(payload, op.TypeBatch):
		var b op.Batch
		b, err = op.DecodeBatch(payload)
		over.batch = &b
	default:
		_, err = op.DecodePayload(payload)
	}
	if err != nil {
		return Signer{}, atStage(refusal.StageDecode, err)
	}
	parties, err := authenticate(over, sigs, trust, op.Role.Valid, nil, now)
	if err != nil {
		return Signer{}, err
	}
	return parties[0].Signer, nil
}

// isOfType reports how the bytes end. "type" sorts last, so the canonical form of a
// payload of that type ends so.
func isOfType(payload []byte, typ string) bool {
	return bytes.HasSuffix(payload, []byte(`"type":"`+typ+`"}`))
}

// claims is what approvals and rejections both say about gate, host and time.
type claims struct {
	gate            op.GateID
	host            string
	issued, expires time.Time
}

// party is the signer of a signature by the allow-list.
type party struct {
	Signer
	proof bool // it proves possession of an added key, and counts for no demand
}

// verify runs the stages after decode, each over all signatures before the next, so
// that cheap stages come first.
func (v Verifier) verify(e Envelope, over statement, sigs []signature, c claims, adds *additions, now time.Time) ([]party, error) {
	parties, err := authenticate(over, sigs, v.Trust, v.has, adds, now)
	if err != nil {
		return nil, err
	}
	for i, by := range parties {
		if err := v.Passkeys.Allow(by.Attested); err != nil {
			return nil, atStage(refusal.StageCrypto, ofSignature(i, len(sigs), err))
		}
	}
	if err := over.checkInclusion(e); err != nil {
		return nil, atStage(refusal.StageInclusion, err)
	}
	if err := v.checkTarget(c); err != nil {
		return nil, atStage(refusal.StageTarget, err)
	}
	err = over.checkTime(v, now)
	if err == nil {
		err = v.checkTime("the payload", c, now)
	}
	if err != nil {
		return nil, atStage(refusal.StageTime, err)
	}
	for i := range parties {
		parties[i].Batch = e.Batch
	}
	return parties, nil
}

func (v Verifier) has(role op.Role) bool { return role.BuiltIn() || slices.Contains(v.Roles, role) }

// authenticate finds out which person signed: namespace, allow-list, crypto.
func authenticate(over statement, sigs []signature, trust *Trust, has func(op.Role) bool, adds *additions, now time.Time) ([]party, error) {
	uses, err := checkNamespaces(sigs, over, has)
	if err != nil {
		return nil, atStage(refusal.StageNamespace, err)
	}
	parties, err := checkListed(sigs, uses, trust, adds, now)
	if err != nil {
		return nil, atStage(refusal.StageAllowList, err)
	}
	for i, s := range sigs {
		if err := s.checkCrypto(over.signed); err != nil {
			return nil, atStage(refusal.StageCrypto, ofSignature(i, len(sigs), err))
		}
		by := &parties[i]
		by.Role, by.Armor, by.Attested = uses[i].role, s.armor, attestedBy(s.key, s.inner)
		if s.cert != nil {
			by.CA, by.Serial = s.cert.caPrint, s.cert.serial
		}
	}
	return parties, nil
}

// decode is the first stage, without the payload: it checks the limits before any
// work, then the form of every signature.
func decode(e Envelope) ([]signature, error) {
	switch n := len(e.Signatures); {
	case n == 0:
		return nil, refusal.New(refusal.Malformed, "the envelope has no signature")
	case n > op.MaxSignatures:
		return nil, refusal.New(refusal.Oversized, "the envelope has %d signatures, more than %d", n, op.MaxSignatures)
	case len(e.Payload) > op.MaxPayload:
		return nil, refusal.New(refusal.Oversized, "the payload has %d bytes, more than %d", len(e.Payload), op.MaxPayload)
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

// checkNamespaces is the second stage: it returns what each signature is for. It refuses a
// role that the gate does not have. A batch's namespace serves for a batch alone, and a
// batch names its role itself.
func checkNamespaces(sigs []signature, over statement, has func(op.Role) bool) ([]use, error) {
	uses := make([]use, len(sigs))
	for i, s := range sigs {
		u, ok := useOf(s.namespace, over.batch != nil)
		var err *refusal.Refusal
		switch {
		case (!ok || !has(u.role)) && over.batch != nil:
			err = refusal.New(refusal.NamespaceMismatch, "the signature's namespace %.64q is not that of batches of a role here", s.namespace).
				WithHint("sign with ssh-keygen -Y sign -n %s", over.batch.Role.BatchNamespace())
		case !ok || !has(u.role):
			err = refusal.New(refusal.NamespaceMismatch, "the signature's namespace %.64q is not that of a role here", s.namespace).
				WithHint("sign with ssh-keygen -Y sign -n %s", op.Operational.Namespace())
		case over.batch != nil && over.batch.Role != u.role:
			err = refusal.New(refusal.NamespaceMismatch, "the batch is for the role %s, and the signature's namespace is %.64q", over.batch.Role,
				s.namespace).WithHint("sign with ssh-keygen -Y sign -n %s", over.batch.Role.BatchNamespace())
		default:
			uses[i] = u
			continue
		}
		return nil, ofSignature(i, len(sigs), err)
	}
	return uses, nil
}

// checkListed is the third stage: it returns the party that the lines allow to sign
// so, now. It exempts a signature that proves possession of a key in adds.
func checkListed(sigs []signature, uses []use, trust *Trust, adds *additions, now time.Time) ([]party, error) {
	parties := make([]party, len(sigs))
	for i, s := range sigs {
		line, err := s.listed(trust, uses[i], now)
		proof := false
		if err != nil {
			if line, proof = adds.proves(s, uses[i].role, err); !proof {
				return nil, ofSignature(i, len(sigs), err)
			}
		}
		parties[i] = party{Signer: Signer{Principal: line.Principal, Key: line.Key, KeyType: line.KeyType}, proof: proof}
	}
	return parties, nil
}

func (s signature) listed(trust *Trust, u use, now time.Time) (entry, error) {
	switch {
	case s.barred != nil:
		return entry{}, s.barred
	case s.cert != nil:
		return trust.findCertificate(s.cert, u, now)
	default:
		return trust.find(s.key, u, now)
	}
}

// checkCrypto is the fourth stage. It verifies with the hash that the signature
// names, which is itself signed. It checks a security key's flags last, because only
// a verified signature proves them.
func (s signature) checkCrypto(payload []byte) error {
	parsed := &sshsig.Signature{Version: 1, PublicKey: s.key, Namespace: s.namespace, HashAlgorithm: s.hash, Signature: s.inner}
	if err := sshsig.Verify(bytes.NewReader(payload), parsed, s.key, s.hash, s.namespace); err != nil {
		return refusal.New(refusal.BadSignature, "the signature by %s is not one over these bytes",
			ssh.FingerprintSHA256(s.key)).
			WithHint("sign exactly the bytes that are sent, without a newline at the end")
	}
	if s.cert != nil {
		if err := s.cert.authentic(); err != nil {
			return err
		}
		if s.cert.verifiesUser() && attestedBy(s.key, s.inner).Touch() != op.TouchVerified {
			return refusal.New(refusal.TouchRequired,
				"the certificate of key %s asks for %s, and the signature does not say that its user was verified",
				s.cert.keyPrint, verifyRequired).WithHint("use a security key with a PIN or a fingerprint: ssh-keygen -O verify-required")
		}
	}
	return touched(s.key, s.inner)
}

// checkTarget is the fifth stage: it refuses a payload for another gate.
func (v Verifier) checkTarget(c claims) error {
	switch {
	case c.host != v.Host:
		return refusal.New(refusal.TargetMismatch, "the payload is for host %q, this is %q", c.host, v.Host).
			WithHint("send it to the gate of that host")
	case c.gate != v.Gate:
		return refusal.New(refusal.TargetMismatch, "the payload is for gate %s, this is %s", c.gate, v.Gate).
			WithHint("a restored or new gate has a new id: sign the request as it is now")
	default:
		return nil
	}
}

// checkTime is the sixth stage. Both ends are valid, with the skew added.
func (v Verifier) checkTime(what string, c claims, now time.Time) error {
	switch validity := c.expires.Sub(c.issued); {
	case validity > v.MaxValidity:
		return refusal.New(refusal.ValidityTooLong, "%s is valid for %s, more than %s", what, validity, v.MaxValidity).
			WithHint("sign one with an earlier expires_at")
	case now.Before(c.issued.Add(-v.Skew)):
		return refusal.New(refusal.NotYetValid, "%s is issued at %s", what, c.issued.Format(time.RFC3339)).
			WithHint("compare the clocks of the signer and of this host")
	case now.After(c.expires.Add(v.Skew)):
		return refusal.New(refusal.Expired, "%s expired at %s", what, c.expires.Format(time.RFC3339)).
			WithHint("sign the request as it is now")
	default:
		return nil
	}
}

// atStage names the stage of a refusal.
func atStage(s refusal.Stage, err error) error {
	r := *refusal.As(err)
	return r.At(s)
}

// ofSignature adds to a refusal which of several signatures it is about.
func ofSignature(i, n int, err error) error {
	r := *refusal.As(err)
	if n > 1 {
		r.Detail = "signature " + strconv.Itoa(i+1) + ": " + r.Detail
	}
	return &r
}
