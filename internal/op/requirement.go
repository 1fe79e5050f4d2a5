package op

import (
	"slices"
	"time"
)

// Touch is what a security key has to say of the person at it.
type Touch string

// What a signature can attest, each including the one before.
const (
	TouchNone     Touch = ""             // any key will do
	TouchPresent  Touch = "touch"        // somebody touched a security key
	TouchVerified Touch = "verification" // and it knew who, by PIN or fingerprint
)

// Satisfies reports whether what was attested is at least what is needed.
// Nothing satisfies a need that is none of the three.
func (t Touch) Satisfies(need Touch) bool { return need.Valid() && t.rank() >= need.rank() }

// Valid reports whether t is one of the three.
func (t Touch) Valid() bool { return t.rank() >= 0 }

func (t Touch) rank() int { return slices.Index([]Touch{TouchNone, TouchPresent, TouchVerified}, t) }

// Attested is what a security key signs beside the message: flags and a counter
// (OpenSSH's PROTOCOL.u2f).
type Attested struct {
	Flags   byte
	Counter uint32
}

// Flags of Attested.
const (
	FlagPresent  = 0x01 // the user was present
	FlagVerified = 0x04 // the user was verified
)

// Touch says what the flags attest. Of nil, a key that is no security key, it
// is TouchNone.
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

// BuiltIn names the rule of a demand that no configuration makes.
const BuiltIn = "built-in"

// Demand is one thing that has to be met before a step is authorized: so many
// distinct people, each with a key of their own, who sign in one of the roles.
type Demand struct {
	Rule      string // "built-in", or the line of the configuration that asks for it
	Roles     []Role
	Threshold int
	Touch     Touch // what a signature in one of Roles has to attest
}

// Way is a list of demands that are met together.
type Way struct {
	Name    string // empty for the ordinary one
	Demands []Demand
}

// WayRecovery names the way of recovery alone (design section 5).
const WayRecovery = "recovery"

// Requirement is all that a destructive step needs before it may run.
type Requirement struct {
	Ways        []Way // any of which is enough
	CoolOff     time.Duration
	Windows     []Window // it may run only inside all of them
	MaxValidity time.Duration
}

// Unmet is a demand that signatures do not meet yet.
type Unmet struct {
	Demand
	Have int // of Threshold
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

func (r Requirement) demands() []Demand {
	var out []Demand
	for _, w := range r.Ways {
		out = append(out, w.Demands...)
	}
	return out
}

// Unmet returns what the signatures leave open: of the ordinary way, or of
// another one that somebody has signed for and that is closer to being met. It
// returns nothing if one is met. Each signature is of another person and key.
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

// Met reports whether the signatures are all that is needed. No way at all is
// never met, nor is a way that asks for nothing.
func (r Requirement) Met(signed []Signed) bool {
	return slices.ContainsFunc(r.Ways, func(w Way) bool {
		return len(w.Demands) > 0 && len(w.unmet(signed)) == 0
	})
}

// Missing returns how many more people have to sign, at the least.
func (r Requirement) Missing(signed []Signed) int { return people(r.Unmet(signed)) }

// Needed returns how many people have to sign, at the least.
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
	return slices.Contains(d.Roles, s.Role) && s.Attested.Touch().Satisfies(d.Touch)
}

// people returns the fewest signatures that meet all of unmet. Roles of two
// demands are the same, apart, or one within the other, so that those who meet
// the narrow ones first also count for the wide ones.
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

// Stricter returns what satisfies both requirements: the ways that both know,
// with the demands of both, the longer delay, all windows, the shorter life.
func (r Requirement) Stricter(s Requirement) Requirement {
	out := Requirement{CoolOff: max(r.CoolOff, s.CoolOff), MaxValidity: min(r.MaxValidity, s.MaxValidity),
		Windows: slices.Clone(r.Windows)}
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

// and returns the demands of both, without those of which another one of the
// same roles asks for no less: people need not read both.
func (w Way) and(b Way) Way {
	out := Way{Name: w.Name}
	for _, d := range slices.Concat(w.Demands, b.Demands) {
		if slices.ContainsFunc(out.Demands, func(x Demand) bool { return x.implies(d) }) {
			continue
		}
		out.Demands = append(slices.DeleteFunc(out.Demands, d.implies), d)
	}
	return out
}

// implies reports whether d asks for no less than e of the same roles. Which
// rule asks makes no difference. (Of fewer roles it would ask for no less
// either, but Touch of the others would be forgotten with e.)
func (d Demand) implies(e Demand) bool {
	return within(d.Roles, e.Roles) && within(e.Roles, d.Roles) && d.Threshold >= e.Threshold && d.Touch.Satisfies(e.Touch)
}

func within(some, all []Role) bool {
	return !slices.ContainsFunc(some, func(r Role) bool { return !slices.Contains(all, r) })
}

// Open reports whether a step may run at t as far as the windows go.
func (r Requirement) Open(t time.Time) bool {
	return !slices.ContainsFunc(r.Windows, func(w Window) bool { return !w.Contains(t) })
}
