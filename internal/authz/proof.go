package authz

import (
	"errors"
	"slices"

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
