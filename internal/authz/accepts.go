package authz

import (
	"time"

	"gated/internal/op"
)

// Accepts returns the principal that a key or certificate, in SSH wire format, may
// sign for in a role at that time. It refuses as the allow-list stage does. Bytes
// that are not a key are Malformed. Accepts does not verify a CA's signature.
func (t *Trust) Accepts(blob []byte, role op.Role, at time.Time) (string, error) {
	if err := t.Blocked(); err != nil {
		return "", err
	}
	s := signature{blob: blob}
	if err := s.parseSigner(); err != nil {
		return "", err
	}
	if s.cert != nil {
		e, err := t.findCertificate(s.cert, role, at)
		return e.Principal, err
	}
	e, err := t.find(s.key, role, at)
	return e.Principal, err
}
