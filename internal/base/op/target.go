package op

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"gated/internal/base/refusal"
)

// Target names one thing that steps act on, written "kind/name". The catalogue has
// the kinds. Name matches [A-Za-z0-9][A-Za-z0-9._-]{0,127}.
type Target struct {
	Kind string
	Name string
}

// String returns "kind/name".
func (t Target) String() string { return t.Kind + "/" + t.Name }

// MarshalText writes "kind/name".
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText parses "kind/name" as ParseTarget does.
func (t *Target) UnmarshalText(b []byte) error {
	v, err := ParseTarget(string(b))
	if err != nil {
		return err
	}
	*t = v
	return nil
}

// ParseTarget parses "kind/name". It refuses, as Malformed, all but exactly one name
// of one kind: wildcards, lists, paths, other alphabets.
func ParseTarget(s string) (Target, error) {
	kind, name, ok := strings.Cut(s, "/")
	if !ok {
		return Target{}, refusal.New(refusal.Malformed, "target %q is not kind/name", s)
	}
	if !isWord(kind) {
		return Target{}, refusal.New(refusal.Malformed, "target %q: the kind is not lower-case letters", s)
	}
	if err := CheckName(name); err != nil {
		return Target{}, err
	}
	return Target{Kind: kind, Name: name}, nil
}

// CheckName refuses, as Malformed, a name that is not
// [A-Za-z0-9][A-Za-z0-9._-]{0,127}.
func CheckName(name string) error {
	if len(name) == 0 || len(name) > 128 {
		return refusal.New(refusal.Malformed, "a name has 1 to 128 characters, not %d", len(name))
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '-') {
			return refusal.New(refusal.Malformed, "name %q: character %d is not allowed", name, i+1).
				WithHint("names are ASCII letters and digits, then also . _ and -")
		}
	}
	return nil
}

func isWord(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < 'a' || s[i] > 'z' {
			return false
		}
	}
	return s != ""
}

// Incarnation is the identity of a target, as its driver reports it. Another target
// of the same name has another incarnation. The empty one means that the target does
// not exist.
type Incarnation string

// Fingerprint is a digest of the state that a driver declares to matter: "sha256:"
// and 64 lower-case hex digits. It does not include running state and times.
type Fingerprint string

// FingerprintOf digests canonical bytes.
func FingerprintOf(b []byte) Fingerprint {
	sum := sha256.Sum256(b)
	return Fingerprint("sha256:" + hex.EncodeToString(sum[:]))
}

// Valid reports whether f has the form of a fingerprint.
func (f Fingerprint) Valid() bool {
	h, ok := strings.CutPrefix(string(f), "sha256:")
	return ok && isHex(h, 64)
}

// GateID identifies one life of one gate's state: 32 lower-case hex digits,
// random, new at init and at restore.
type GateID string

// Valid reports whether g has the form of a gate id.
func (g GateID) Valid() bool { return isHex(string(g), 32) }

func isHex(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := 0; i < n; i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func scopeRows() []Spec {
	rules := []Rule{{Name: "takes-reservations", Class: Destructive,
		Why: say("it takes reservations from agents that may be at work on these paths")}}
	roles := []Role{Operational, Coordination}
	return []Spec{
		{Name: ForceTransfer, Kind: KindScope, Doc: "give an agent's reservation to another agent", Params: []Param{
			{Name: "reservation", Type: TString, Required: true, Doc: "its id, r12"},
			{Name: "to", Type: TString, Required: true, Doc: "a registered agent's name"}},
			Takes: "a reservation from the agent that holds it", ByHand: byHand("transfer it back"),
			Fates: func(p Params) Fates { return Fates{Goes: []string{p.Str("reservation"), "goes to", "path"}} },
			Roles: roles, Partial: true, Rules: rules, Shows: lastOfScope,
			Covers: "the one reservation: id, patterns, mode and holder; and which registration gets it"},
		{Name: ReleaseAll, Kind: KindScope, Doc: "release every reservation of a scope, whoever holds it",
			Takes: "every reservation of the scope from its holder", ByHand: byHand("its holders reserve again"),
			Fates: takes([]string{"path", "reservations", "r*", "and"}),
			Roles: roles, Rules: rules, Shows: lastOfScope,
			Covers: "every reservation in force of the scope: id, patterns, mode and holder"},
	}
}

// lastOfScope compares the step with the last one that took reservations of the
// scope. The reservations themselves cannot tell, because agents may have released
// them and made new ones. The scope stores that step in the same transaction.
func lastOfScope(s Step, o Observed) Evidence {
	return shows(o.Spec.Str("last_step") == s.ID.String())
}

// KindScope is the kind of a directory in which agents reserve paths. The name of
// such a target is the id that the gate registered it under: scope/s3.
const KindScope = "scope"

// The operations that take reservations away from their holders.
const (
	ForceTransfer = "scope.force-transfer"
	ReleaseAll    = "scope.release-all"
)

// ReservationID is a short counter, written "r12".
type ReservationID int64

// String returns "r12".
func (id ReservationID) String() string { return "r" + strconv.FormatInt(int64(id), 10) }

// ParseReservationID parses "r12"; refusals are Malformed.
func ParseReservationID(s string) (ReservationID, error) {
	digits, ok := strings.CutPrefix(s, "r")
	n, err := parseCounter(digits)
	if !ok || err != nil {
		return 0, refusal.New(refusal.Malformed, "%q is not the id of a reservation like r12", s)
	}
	return ReservationID(n), nil
}

// AgentName returns the name in Requester.Agent without the number of its
// registration: "builder" of "builder#7".
func AgentName(agent string) string {
	name, _, _ := strings.Cut(agent, "#")
	return name
}
