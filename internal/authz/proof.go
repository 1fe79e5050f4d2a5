package authz

import (
	"errors"
	"slices"

	"gated/internal/op"
)

// additions are the lines that a payload asks to add to the file. A nil one
// adds nothing.
type additions struct {
	lines  []string
	parsed bool
	byKey  map[string][]entry // the key's wire encoding → its lines
}

// additionsOf returns what a payload adds. Its params are not checked yet, so
// that anything may stand there.
func additionsOf(p op.Payload) *additions {
	if p.Op != op.Rotate {
		return nil
	}
	return &additions{lines: p.Params.Lines("add")}
}

// proves reports whether a signature that the allow-list refused proves that
// its maker has a key that is being added, for the role that it is added in. A
// certificate proves nothing, nor does a revoked key: of a CA's line, the proof
// is by the CA's own key.
func (a *additions) proves(s signature, role op.Role, refused error) (entry, bool) {
	if a == nil || s.barred != nil || s.cert != nil {
		return entry{}, false
	}
	if !errors.Is(refused, op.UnknownSigner) && !errors.Is(refused, op.SignerExpired) {
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

// parse reads the lines once, and only when a signature needs them. A line that
// does not load adds nothing; Rotate refuses it later.
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
