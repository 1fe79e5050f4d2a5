package gate

import (
	"slices"
	"strings"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// couldSign refuses, as BadParams, a rotation that no listed key could ever sign: in each way, it needs a role in which
// no key is listed. It would wait for ever, because only another rotation could list such a key. How many people a rule
// asks for, and when their keys are valid, does not count here: that can change.
func (inForce *rules) couldSign(s op.Step, labels map[string]string, now time.Time) error {
	if s.Op != op.Rotate || inForce.trust.Blocked() != nil {
		return nil
	}
	spec, err := op.Lookup(s.Op)
	if err != nil {
		return err
	}
	need, err := inForce.asks(spec, s, labels, now)
	if err != nil {
		return err
	}
	var lacks []string
	for _, way := range need.Ways {
		roles := inForce.nobodyIn(way)
		if roles == "" {
			return nil
		}
		lacks = append(lacks, roles)
	}
	return refusal.New(refusal.BadParams, "nobody could sign this rotation: it needs %s, and no key is listed as that", strings.Join(lacks, ", or ")).
		WithHint("root lists the first key of a role while the daemon does not run: gated trust adopt FILE; " +
			"a recovery key can sign each rotation alone, so list one")
}

// nobodyIn returns the roles of the first demand of a way for which no key is listed, or "".
func (inForce *rules) nobodyIn(way op.Way) string {
	for _, d := range way.Demands {
		listed := false
		for _, l := range inForce.trust.Signers() {
			listed = listed || !inForce.trust.IsRevoked(l.Key) && slices.ContainsFunc(d.Roles, func(r op.Role) bool { return slices.Contains(l.Roles, r) })
		}
		if !listed {
			names := make([]string, len(d.Roles))
			for i, r := range d.Roles {
				names[i] = string(r)
			}
			return strings.Join(names, " or ")
		}
	}
	return ""
}
