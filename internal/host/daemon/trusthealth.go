package daemon

import (
	"fmt"
	"strings"

	"gated/internal/base/op"
	"gated/internal/host/signers"
	"gated/internal/wire/api"
)

// signersHealth says whether the file of signers is what is in force, whether
// somebody could sign as operational, and who need not touch anything for that
// or for a recovery.
func (d *daemon) signersHealth() api.Health {
	if r := d.signersErr.Load(); r != nil {
		return api.Health{Name: "signers", Detail: r.Detail + "; what was in force stays"}
	}
	if kept, edited := d.signers.Edited(); edited {
		return api.Health{Name: "signers", Detail: fmt.Sprintf("%s was edited by hand, which decides nothing: the edit is kept as %s. "+
			"Take it over with gated trust adopt %s, or remove it", d.signers.Path(), kept, kept)}
	}
	trust := d.gate.Trust()
	h := api.Health{Name: "signers", OK: true, Detail: fmt.Sprintf("epoch %d", d.gate.Epoch())}
	if trust.Blocked() == nil && len(trust.Could(op.Operational, op.TouchNone, d.gate.Moment().Now)) == 0 {
		h.OK = false
		h.Detail += "; nobody could sign as operational: no key for it is listed, valid now and not revoked, so what is destructive " +
			"waits until the recovery key signs a gated trust rotate, or root lists one: gated trust adopt FILE"
	}
	if who := signers.SoftwareSigners(trust.Signers()); len(who) > 0 {
		h.Detail += "; destructive steps and rotations are signed with software keys by " + strings.Join(who, ", ") +
			": any process of theirs could sign. A security key needs a touch: ssh-keygen -t ed25519-sk, then gated trust rotate"
	}
	return h
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
