package daemon

import (
	"fmt"
	"slices"
	"strings"

	"gated/internal/api"
	"gated/internal/authz"
	"gated/internal/op"
)

// signersHealth says whether the file of signers is what is in force, and which
// of those who may destroy need not touch anything for it.
func (d *daemon) signersHealth() api.Health {
	if r := d.signersErr.Load(); r != nil {
		return api.Health{Name: "signers", Detail: r.Detail + "; what was in force stays"}
	}
	h := api.Health{Name: "signers", OK: true, Detail: fmt.Sprintf("epoch %d", d.gate.Epoch())}
	if who := SoftwareDestroyers(d.gate.Trust().Signers()); len(who) > 0 {
		h.Detail += "; destructive steps are signed with software keys by " + strings.Join(who, ", ") +
			": any process of theirs could sign. A security key needs a touch: ssh-keygen -t ed25519-sk, then gated trust rotate"
	}
	return h
}

// SoftwareDestroyers returns whose keys may sign destructive steps and need no
// touch, each once, in the file's order.
func SoftwareDestroyers(listed []authz.Listed) []string {
	var out []string
	for _, l := range listed {
		if l.Software && slices.Contains(l.Roles, op.Operational) && !slices.Contains(out, l.Principal) {
			out = append(out, l.Principal)
		}
	}
	return out
}

// revokedHealth says whether the revocation file could be read.
func (d *daemon) revokedHealth() api.Health {
	return api.Health{Name: "revoked keys", OK: d.gate.Trust().Blocked() == nil, Detail: *d.revokedSays.Load()}
}

// unmeetable lists the rules that ask for more people than there are.
func (d *daemon) unmeetable() []api.Health {
	at, trust := d.gate.Moment().Now, d.gate.Trust()
	if trust.Blocked() != nil {
		return nil // nobody could sign anything, which is said already
	}
	var out []api.Health
	for _, text := range d.gate.Policy().Unmeetable(func(r op.Role, touch op.Touch) []string { return trust.Could(r, touch, at) }) {
		out = append(out, api.Health{Name: "rule", Detail: text})
	}
	return out[:min(len(out), maxTroubles)]
}
