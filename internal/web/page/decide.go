package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/web/access"
	"gated/internal/web/gates"
	"gated/internal/web/passkey"
	"gated/internal/wire/cli"
)

// decision is what the block "decide" shows of one request to one session.
type decision struct {
	Gate, ID   string
	Payload    string    // its SHA-256, in hex: the one that is shown
	Seen       string    // question.Seen of what is shown
	Roles      []op.Role // in which the session's key may approve now
	RejectRole op.Role   // in which it may reject; empty: it may not
	Cannot     string    // why it cannot approve, as a sentence; then Roles is empty
	Typed      string    // what has to be typed first, because it cannot be undone
	Verify     bool      // a rule asks that the authenticator verifies its holder
	Terminal   bool      // there are buttons that ask in the terminal, too
}

// decision says what a session may do about a request of a gate.
func (c Config) decision(s access.Session, g gates.Gate, r api.Request) decision {
	d := decision{Gate: g.Name, ID: r.ID, Payload: r.PayloadSHA256, Terminal: c.Terminal != nil && s.Local && r.State == op.StatePending}
	if r.Class == op.Destructive {
		d.Typed = targetName(r.Target)
	}
	d.Roles = rolesOf(s, g, r, c.Now())
	if d.Cannot = cannot(s, g, r, d.Roles, c.Now()); d.Cannot != "" {
		d.Roles = nil
	}
	d.Verify = asksToVerify(r, d.Roles)
	d.RejectRole = rejectRole(s, g, r, c.Now())
	return d
}

// anyPasskey reports whether a passkey of these pages could sign a request of a gate.
func (c Config) anyPasskey(g gates.Gate, r api.Request) bool {
	return slices.ContainsFunc(known(g, r), func(k passkey.Key) bool { return k.RPID() == c.RPID })
}

// withoutPasskeys offers no passkey, because none would count.
func (d decision) withoutPasskeys() decision {
	if len(d.Roles) > 0 && !d.Terminal {
		d.Cannot = "No passkey of this page is listed at this gate. In a terminal: opsign approve " + d.ID + "."
	}
	d.Roles, d.RejectRole = nil, ""
	return d
}

// stoppable reports whether a rejection still stops a request: one that waits for signatures,
// or that cools off after the last one.
func stoppable(r api.Request) bool {
	return r.State == op.StatePending || r.State == op.StateAuthorized
}

// rejectRole returns a role in which a session may reject a request: any in which it could
// be approved, also after the session's key approved it.
func rejectRole(s access.Session, g gates.Gate, r api.Request, now time.Time) op.Role {
	if !stoppable(r) || g.Err != nil || g.Trust.Blocked {
		return ""
	}
	for _, role := range r.Roles {
		if s.Local || slices.Contains(listedRoles(g, s.Key, now), role) {
			return role
		}
	}
	return ""
}

// targetName returns what a person calls the target: web-1 of guest/web-1.
func targetName(target string) string {
	if _, name, ok := strings.Cut(target, "/"); ok && name != "" {
		return name
	}
	return target
}

// wanted returns the roles in which a signature is missing; of a request that needs none any
// more, all of its roles.
func wanted(r api.Request) []op.Role {
	if open := cli.OpenRoles(r); len(open) > 0 {
		return open
	}
	return r.Roles
}

// rolesOf returns the roles in which a session's key may sign a request now. A local session
// has no key yet, so it is every role that is wanted.
func rolesOf(s access.Session, g gates.Gate, r api.Request, now time.Time) []op.Role {
	roles := owed(s, r)
	for _, role := range wanted(r) {
		may := s.Local || slices.ContainsFunc(inForce(g, s.Key, now), func(l api.Signer) bool { return slices.Contains(l.Roles, role) })
		if may && !barred(r, role) && !slices.Contains(roles, role) {
			roles = append(roles, role)
		}
	}
	return roles
}

// barred reports whether a rule takes no passkey's signature in a role.
func barred(r api.Request, role op.Role) bool {
	return slices.ContainsFunc(r.Demands, func(d api.Demand) bool { return d.NoPasskey && slices.Contains(d.Roles, role) })
}

// owed returns the roles in which a key that a rotation adds has to prove itself. A local
// session may have any of them.
func owed(s access.Session, r api.Request) []op.Role {
	var roles []op.Role
	for _, text := range r.Owed {
		key, role, ok := strings.Cut(text, " ")
		if ok && (s.Local || key == s.Key) && !slices.Contains(roles, op.Role(role)) {
			roles = append(roles, op.Role(role))
		}
	}
	return roles
}

// asksToVerify reports whether a rule asks signatures of those roles for verification.
func asksToVerify(r api.Request, roles []op.Role) bool {
	return slices.ContainsFunc(r.Demands, func(d api.Demand) bool {
		return d.Touch == op.TouchVerified && slices.ContainsFunc(d.Roles, func(role op.Role) bool { return slices.Contains(roles, role) })
	})
}

// gateAway is why nobody can sign at a gate that is away.
const gateAway = "The gate does not answer as it should, so nothing can be signed now."

// cannot says why a session cannot sign; it is empty if it can. The gate decides, and this
// only spares a person a signature that would be refused.
func cannot(s access.Session, g gates.Gate, r api.Request, roles []op.Role, now time.Time) string {
	switch {
	case r.State == op.StateAuthorized:
		return "All signatures are there. Until it runs, it can be rejected."
	case r.State != op.StatePending:
		return fmt.Sprintf("The request is %s: there is nothing to sign any more.", r.State)
	case g.Err != nil:
		return gateAway
	case g.Trust.Blocked:
		return "The gate cannot read its list of revoked keys, so it refuses each signature."
	case len(roles) == 0 && adds(r, s.Key):
		return "Your passkey has proved itself. Those who are listed have to sign now."
	case len(owed(s, r)) == 0 && len(roles) > 0 && signedAlready(s, g, r, now):
		return "You have signed this already. Another person has to sign now."
	case len(owed(s, r)) == 0 && len(roles) > 0 && asker(s, g, r, roles, now):
		return "A rule takes no signature of the person who asked, and this gate does not know you as another one. Another person has to sign."
	case len(roles) > 0:
		return ""
	case slices.ContainsFunc(wanted(r), func(role op.Role) bool { return barred(r, role) }):
		return "A rule asks for a key that is no passkey: sign in a terminal, with opsign approve " + r.ID + "."
	case slices.Contains(g.Trust.Revoked, s.Key):
		return "Your passkey is revoked at this gate."
	case len(inForce(g, s.Key, now)) == 0:
		return "Your passkey is not listed at this gate."
	}
	return fmt.Sprintf("This needs a signature as %s, and your passkey signs as %s.", words(wanted(r)), words(listedRoles(g, s.Key, now)))
}

// asker reports whether a rule takes no requester's signature in one of the roles, and the gate does not count the
// session's person among those who could sign. As in signedAlready, this gate's list says who that is. A local session has
// no key yet, so its gate says it.
func asker(s access.Session, g gates.Gate, r api.Request, roles []op.Role, now time.Time) bool {
	mine := inForce(g, s.Key, now)
	return len(mine) > 0 && slices.ContainsFunc(r.Demands, func(d api.Demand) bool {
		return d.NotRequester && slices.ContainsFunc(roles, func(role op.Role) bool { return slices.Contains(d.Roles, role) }) &&
			!slices.ContainsFunc(mine, func(l api.Signer) bool { return slices.Contains(d.Could, l.Principal) })
	})
}

// signedAlready reports whether the session's person has a signature that counts. A gate
// counts people, whatever keys they have. Who that person is, this gate's list says: another
// gate, by whose list the session began, may have the key under another name.
func signedAlready(s access.Session, g gates.Gate, r api.Request, now time.Time) bool {
	return slices.ContainsFunc(r.Signatures, func(x api.Signature) bool {
		return slices.ContainsFunc(inForce(g, s.Key, now), func(l api.Signer) bool { return x.Principal == l.Principal })
	})
}

func listedRoles(g gates.Gate, key string, now time.Time) []op.Role {
	var roles []op.Role
	for _, l := range inForce(g, key, now) {
		roles = append(roles, l.Roles...)
	}
	return roles
}

// words joins roles for a sentence.
func words(roles []op.Role) string {
	var out []string
	for _, r := range roles {
		out = append(out, string(r))
	}
	if len(out) == 0 {
		return "no role"
	}
	return strings.Join(out, " or ")
}
