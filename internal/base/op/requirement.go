package op

import (
	"slices"
	"strings"
	"time"
)

// Touch is what a security key has to attest about its user.
type Touch string

// What a signature can attest. Each value includes the one before.
const (
	TouchNone     Touch = ""             // any key will do
	TouchPresent  Touch = "touch"        // a person touched a security key
	TouchVerified Touch = "verification" // the key also verified the person, by PIN or fingerprint
)

// Satisfies reports whether t attests at least need. No touch satisfies a need that
// is not one of the three.
func (t Touch) Satisfies(need Touch) bool { return need.Valid() && t.rank() >= need.rank() }

// Valid reports whether t is one of the three.
func (t Touch) Valid() bool { return t.rank() >= 0 }

func (t Touch) rank() int { return slices.Index([]Touch{TouchNone, TouchPresent, TouchVerified}, t) }

// Attested is what a security key signs beside the message: flags and a counter
// (OpenSSH's PROTOCOL.u2f), and of a passkey the page that asked.
type Attested struct {
	Flags   byte
	Counter uint32
	Origin  string // https://console.example.com; empty for a key that is no passkey
}

// Flags of Attested. The last three occur with passkeys alone.
const (
	FlagPresent  = 0x01 // the user was present
	FlagVerified = 0x04 // the user was verified

	FlagBackupEligible = 0x08 // a vault may copy the key (WebAuthn level 3, 6.1)
	FlagBackedUp       = 0x10 // it has
	FlagExtensions     = 0x80 // extension data follows
)

// Touch returns what the flags attest. For nil, which is a key that is no security
// key, it is TouchNone.
func (a *Attested) Touch() Touch {
	switch {
	case a == nil || a.Flags&FlagPresent == 0:
		return TouchNone
	case a.Flags&FlagVerified == 0:
		return TouchPresent
	default:
		return TouchVerified
	}
}

// Passkey reports whether the signature is a passkey's.
func (a *Attested) Passkey() bool { return a != nil && a.Origin != "" }

// BuiltIn names the rule of a demand that comes from no configuration.
const BuiltIn = "built-in"

// Demand is one condition for a step to be authorized. So many people sign in one of
// the roles, each with a key of their own.
type Demand struct {
	Rule      string // "built-in", or the line of the configuration with the rule
	Roles     []Role
	Threshold int
	Touch     Touch // what a signature in one of Roles must attest
	NoPasskey bool  // a passkey's signature does not count
	// Apart: a signature counts only of a person who did not ask for the step, and another known person did.
	Apart bool
}

// Way is a list of demands that must all be met.
type Way struct {
	Name    string // empty for the ordinary way
	Demands []Demand
	// Delay is how long the step waits after the last signature if one signature is of this way.
	Delay time.Duration
}

// Ways beside the ordinary one.
const (
	// WayRecovery is the way for the role recovery alone (design section 5).
	WayRecovery = "recovery"
	// WayBreakGlass is the way for the role breakglass alone, when the operators cannot sign.
	WayBreakGlass = "breakglass"
)

// Requirement is everything that a destructive step needs before it may run.
type Requirement struct {
	Ways        []Way // one of them is enough
	CoolOff     time.Duration
	Windows     []Window // the step may run only while all of them are open
	MaxValidity time.Duration
	Single      bool // each signature is over the payload alone: no batch counts
}

// Unmet is a demand that the signatures do not meet yet.
type Unmet struct {
	Demand
	Have int // signatures out of Threshold
}

// Accepts reports whether a signature in that role counts.
func (r Requirement) Accepts(role Role) bool { return slices.Contains(r.Roles(), role) }

// Roles returns the roles in which a signature counts, those of the ordinary
// way first.
func (r Requirement) Roles() []Role {
	var out []Role
	for _, d := range r.demands() {
		for _, role := range d.Roles {
			if !slices.Contains(out, role) {
				out = append(out, role)
			}
		}
	}
	return out
}

// Touch returns what a signature in that role has to attest.
func (r Requirement) Touch(role Role) Touch {
	need := TouchNone
	for _, d := range r.demands() {
		if slices.Contains(d.Roles, role) && d.Touch.Satisfies(need) {
			need = d.Touch
		}
	}
	return need
}

// NoPasskey reports whether no passkey's signature in that role counts.
func (r Requirement) NoPasskey(role Role) bool {
	return slices.ContainsFunc(r.demands(), func(d Demand) bool { return d.NoPasskey && slices.Contains(d.Roles, role) })
}

// Apart reports whether a signature in that role counts only of a person who did not ask for the step.
func (r Requirement) Apart(role Role) bool {
	return slices.ContainsFunc(r.demands(), func(d Demand) bool { return d.Apart && slices.Contains(d.Roles, role) })
}

// TakesBatch reports whether a batch's signature in that role may count. A security key's verification is of a person
// who means one step, so a demand for it takes no batch.
func (r Requirement) TakesBatch(role Role) bool {
	return !r.Single && role.SignsBatches() && r.Accepts(role) && r.Touch(role) != TouchVerified
}

// BatchRoles returns the roles in which a batch's signature may count.
func (r Requirement) BatchRoles() []Role {
	return slices.DeleteFunc(r.Roles(), func(role Role) bool { return !r.TakesBatch(role) })
}

// Wait returns how long a step waits after the last of its signatures. It is the cool-off, or the delay of a way that has
// a signature, even if another way is met too.
func (r Requirement) Wait(signed []Signed) time.Duration {
	wait := r.CoolOff
	for _, w := range r.Ways {
		if w.Delay > wait && w.begun(signed) {
			wait = w.Delay
		}
	}
	return wait
}

// Longest returns the longest wait that any signatures bring.
func (r Requirement) Longest() time.Duration {
	wait := r.CoolOff
	for _, w := range r.Ways {
		wait = max(wait, w.Delay)
	}
	return wait
}

func (r Requirement) demands() []Demand {
	var out []Demand
	for _, w := range r.Ways {
		out = append(out, w.Demands...)
	}
	return out
}

// Unmet returns the demands that the signatures do not meet yet. They are those of
// the ordinary way, or of another way that has a signature and is closer to its end.
// It returns nothing if one way is met. Each signature is of another person and key.
func (r Requirement) Unmet(signed []Signed) []Unmet {
	var best []Unmet
	for i, w := range r.Ways {
		unmet := w.unmet(signed)
		if i == 0 || people(unmet) < people(best) && w.begun(signed) {
			best = unmet
		}
	}
	return best
}

func (w Way) begun(signed []Signed) bool {
	return slices.ContainsFunc(w.Demands, func(d Demand) bool { return slices.ContainsFunc(signed, d.counts) })
}

// Met reports whether the signatures are enough. A requirement without ways is never
// met, and a way without demands is not either.
func (r Requirement) Met(signed []Signed) bool {
	return slices.ContainsFunc(r.Ways, func(w Way) bool {
		return len(w.Demands) > 0 && len(w.unmet(signed)) == 0
	})
}

// Missing returns the least number of people who still have to sign.
func (r Requirement) Missing(signed []Signed) int { return people(r.Unmet(signed)) }

// Needed returns the least number of people who have to sign.
func (r Requirement) Needed() int { return r.Missing(nil) }

func (w Way) unmet(signed []Signed) []Unmet {
	var out []Unmet
	for _, d := range w.Demands {
		if have := d.Have(signed); have < max(d.Threshold, 1) {
			out = append(out, Unmet{Demand: d, Have: have})
		}
	}
	return out
}

// Have returns how many of the signatures count for the demand.
func (d Demand) Have(signed []Signed) int {
	n := 0
	for _, s := range signed {
		if d.counts(s) {
			n++
		}
	}
	return n
}

func (d Demand) counts(s Signed) bool {
	return slices.Contains(d.Roles, s.Role) && s.Attested.Touch().Satisfies(d.Touch) && !(d.NoPasskey && s.Attested.Passkey())
}

// people returns the fewest signatures that meet all of unmet. The roles of two
// demands are equal, disjoint, or one contains the other. So people who meet the
// narrow demands first also count for the wide ones.
func people(unmet []Unmet) int {
	unmet = slices.Clone(unmet)
	slices.SortStableFunc(unmet, func(a, b Unmet) int { return len(a.Roles) - len(b.Roles) })
	added := map[Role]int{}
	total := 0
	for _, u := range unmet {
		have := u.Have
		for _, role := range u.Roles {
			have += added[role]
		}
		if more := max(u.Threshold, 1) - have; more > 0 {
			total += more
			if len(u.Roles) > 0 {
				added[u.Roles[0]] += more
			}
		}
	}
	return total
}

// Stricter returns what satisfies both requirements: the ways that both have, the
// demands of both, the longer delays, all windows, the shorter life, no batch if one refuses them.
func (r Requirement) Stricter(s Requirement) Requirement {
	out := Requirement{CoolOff: max(r.CoolOff, s.CoolOff), MaxValidity: min(r.MaxValidity, s.MaxValidity),
		Windows: slices.Clone(r.Windows), Single: r.Single || s.Single}
	for _, w := range s.Windows {
		if !slices.Contains(out.Windows, w) {
			out.Windows = append(out.Windows, w)
		}
	}
	for _, a := range r.Ways {
		for _, b := range s.Ways {
			if a.Name == b.Name {
				out.Ways = append(out.Ways, a.and(b))
			}
		}
	}
	return out
}

// and returns the demands of both ways. It leaves out a demand if another one of the
// same roles asks for at least as much, because people need not read both.
func (w Way) and(b Way) Way {
	out := Way{Name: w.Name, Delay: max(w.Delay, b.Delay)}
	for _, d := range slices.Concat(w.Demands, b.Demands) {
		if slices.ContainsFunc(out.Demands, func(x Demand) bool { return x.implies(d) }) {
			continue
		}
		out.Demands = append(slices.DeleteFunc(out.Demands, d.implies), d)
	}
	return out
}

// implies reports whether d asks for at least as much as e, of the same roles. It
// ignores which rule asks. If d had fewer roles, Touch of the other roles would be
// lost with e.
func (d Demand) implies(e Demand) bool {
	return within(d.Roles, e.Roles) && within(e.Roles, d.Roles) && d.Threshold >= e.Threshold && d.Touch.Satisfies(e.Touch) &&
		(d.NoPasskey || !e.NoPasskey) && (d.Apart || !e.Apart)
}

func within(some, all []Role) bool {
	return !slices.ContainsFunc(some, func(r Role) bool { return !slices.Contains(all, r) })
}

// Open reports whether all windows allow a step to run at t.
func (r Requirement) Open(t time.Time) bool {
	return !slices.ContainsFunc(r.Windows, func(w Window) bool { return !w.Contains(t) })
}

// Role is the use for which a key is listed. A role is an SSHSIG namespace, so the
// signature format itself carries the role.
type Role string

// The roles (design section 5).
const (
	// Operational signs destructive guest and command steps, force-transfer,
	// release-all and planned key rotation.
	Operational Role = "operational"
	// Coordination signs force-transfer and release-all.
	Coordination Role = "coordination"
	// Recovery signs key rotation only.
	Recovery Role = "recovery"
	// BreakGlass signs what policy.break_glass of gated.yaml lists, and nothing without it.
	BreakGlass Role = "breakglass"
)

// Roles lists the roles that every gate has. A configuration may name other roles.
// They count only for its own rules.
var Roles = []Role{Operational, Coordination, Recovery, BreakGlass}

// Namespace returns the SSHSIG namespace of the role, "<role>@gated".
func (r Role) Namespace() string { return string(r) + "@gated" }

// BatchNamespace returns the SSHSIG namespace of the role's batches, "<role>@batch.gated". It is no role's namespace,
// because a role's name has no @.
func (r Role) BatchNamespace() string { return string(r) + "@batch.gated" }

// SignsBatches reports whether r has the form of a role that may sign batches. Recovery signs rotations alone, and no
// batch approves one. A break-glass signature is for one request.
func (r Role) SignsBatches() bool { return r.Valid() && !r.Reserved() }

// Reserved reports whether only the role recovery may change the lines of keys that have r. The operators could give
// themselves more than they have with such a line.
func (r Role) Reserved() bool { return r == Recovery || r == BreakGlass }

// BuiltIn reports whether every gate has the role.
func (r Role) BuiltIn() bool { return slices.Contains(Roles, r) }

// Valid reports whether r has the form of a role: [a-z][a-z0-9-]{0,31}.
func (r Role) Valid() bool {
	for i, c := range []byte(r) {
		if (c < 'a' || c > 'z') && (i == 0 || c != '-' && (c < '0' || c > '9')) {
			return false
		}
	}
	return len(r) > 0 && len(r) <= 32
}

// RoleOfNamespace returns the role of a namespace. It compares bytes, so a space or
// another case makes another namespace. It does not check whether a gate has that
// role.
func RoleOfNamespace(ns string) (Role, bool) {
	name, ok := strings.CutSuffix(ns, "@gated")
	if !ok || !Role(name).Valid() {
		return "", false
	}
	return Role(name), true
}

// RoleOfBatchNamespace is RoleOfNamespace for the namespaces of batches.
func RoleOfBatchNamespace(ns string) (Role, bool) {
	name, ok := strings.CutSuffix(ns, "@batch.gated")
	if !ok || !Role(name).SignsBatches() {
		return "", false
	}
	return Role(name), true
}
