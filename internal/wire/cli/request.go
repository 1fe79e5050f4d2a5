package cli

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
)

// clockSkew is how far the gate's clock and this one may be apart.
const clockSkew = time.Minute

// touchWords say what a security key attested, and touchNeeds what a demand asks
// of it.
var (
	touchWords = map[op.Touch]string{op.TouchPresent: ", touched", op.TouchVerified: ", touched and verified"}
	touchNeeds = map[op.Touch]string{op.TouchPresent: ", security key with a touch",
		op.TouchVerified: ", security key with a touch and a PIN or fingerprint"}
)

// Signed says who signed a request and what their keys attested, a line each.
func Signed(r api.Request) string {
	text := ""
	for _, s := range r.Signatures {
		ca := ""
		if s.CA != "" {
			ca = fmt.Sprintf(", certified by %s", Inline(s.CA))
		}
		text += fmt.Sprintf("signed: %s as %s (%s%s)%s%s\n",
			Person(s.Principal), Inline(string(s.Role)), Inline(s.Fingerprint), ca,
			touchWords[s.Touch], ofBatch(s.Batch))
	}
	return text
}

// ofBatch says of a signature that it is over a batch, and over how many requests at once.
func ofBatch(in *api.Batched) string {
	if in == nil {
		return ""
	}
	var batch op.Batch
	b, err := base64.StdEncoding.DecodeString(in.Payload)
	if err == nil {
		batch, err = op.DecodeBatch(b)
	}
	if err != nil {
		return ", in a batch that cannot be read"
	}
	return fmt.Sprintf(", in a batch of %d", batch.Count)
}

// Needed says who is still needed for a request that waits, and who could sign:
// a line for each demand that is open, for each other way that would do and that
// somebody could go, and for each new key that has to prove that somebody has it. It is empty of a
// request that does not wait for signatures.
func Needed(r api.Request) string {
	if r.State != op.StatePending {
		return ""
	}
	text := ""
	first := firstWay(r)
	for _, d := range demanded(r) {
		who := "no listed signer could"
		if len(d.Could) > 0 {
			who = People(d.Could)
			// A name with a pattern, as in a CA's line, counts as any number of people.
			if len(d.Could) < open(d) && !slices.ContainsFunc(d.Could, func(s string) bool { return strings.ContainsAny(s, "*?!,") }) {
				who += ", and nobody else could"
			}
		}
		switch {
		case d.Way != first && len(d.Could) == 0: // another way that is open to nobody
		case d.Way == first:
			text += fmt.Sprintf("needs %d more as %s: %s (%s)\n", open(d), roleNames(d.Roles), who, asker(r, d))
		default:
			text += fmt.Sprintf("or %s alone: %d more as %s: %s (%s)\n",
				Inline(d.Way), open(d), roleNames(d.Roles), who, asker(r, d))
		}
	}
	for _, owed := range r.Owed {
		if key, role, ok := strings.Cut(owed, " "); ok {
			text += fmt.Sprintf("the new key %s still has to sign as %s (its holder: opsign approve %s --role %s --key FILE)\n",
				Inline(key), Inline(role), Typed(r.ID, "ID"), Typed(role, "ROLE"))
		} else {
			text += fmt.Sprintf("a new key still has to sign: %s\n", Inline(owed))
		}
	}
	return text
}

// HolderSigns returns the command with which the holder of a key that a rotation adds signs it first, with the key's
// file, and the request without that debt. The command is empty if the request does not wait for that key.
func HolderSigns(r api.Request, key string, role op.Role, file string) (string, api.Request) {
	i := slices.Index(r.Owed, key+" "+string(role))
	if i < 0 {
		return "", r
	}
	r.Owed = slices.Delete(slices.Clone(r.Owed), i, i+1)
	return op.ShellWords("opsign", "approve", r.ID, "--role", string(role), "--key", file), r
}

// Delays says when a request runs that is authorized, or that waits and will not
// run at once; now is the reader's clock. It is empty of one that nothing delays
// or that has ended.
func Delays(r api.Request, now time.Time) string {
	text := ""
	if len(r.Windows) > 0 && (r.State == op.StatePending || r.State == op.StateAuthorized) {
		text = fmt.Sprintf("runs only %s\n", windowNames(r.Windows))
	}
	switch {
	case r.State == op.StatePending && r.CoolOff > 0:
		cool := time.Duration(r.CoolOff) * time.Second
		return fmt.Sprintf("after the last signature it cools off for %s; any operator can stop it by: opsign reject %s "+
			"--reason TEXT\n", Span(cool), Typed(r.ID, "ID")) + text
	case r.State == op.StatePending:
		return text
	case !Delayed(r, now):
		return ""
	}
	at := Runs(r, now)
	switch {
	case at.IsZero():
		return text + fmt.Sprintf("authorized, and its windows have no time in common: it will not run; stop it by: "+
			"opsign reject %s --reason TEXT\n", Typed(r.ID, "ID"))
	case at.After(r.ExpiresAt):
		return text + fmt.Sprintf(
			"what was signed expires at %s, before it could run at %s: reject it, and ask again later\n",
			Moment(r.ExpiresAt), Moment(at))
	}
	return fmt.Sprintf("authorized; runs at %s\n", Moment(at)) + text + fmt.Sprintf(
		"any operator can stop it until then by: opsign reject %s --reason TEXT\n", Typed(r.ID, "ID"))
}

// Delayed reports whether a request is authorized and held back: it cools off,
// or waits for its window. This machine's clock may not be the gate's, so that
// a cool-off that is just over still counts as one.
func Delayed(r api.Request, now time.Time) bool {
	if r.State != op.StateAuthorized || r.RunsAt == nil {
		return false
	}
	cools := r.CoolOff > 0 && now.Before(r.RunsAt.Add(clockSkew))
	return cools || !inAll(r.Windows, now)
}

// Runs returns when an authorized request may run: when its cool-off is over
// and, from then or from now on, all its windows are open. It is zero where they
// never are in a week, or nothing is authorized.
func Runs(r api.Request, now time.Time) time.Time {
	if r.RunsAt == nil {
		return time.Time{}
	}
	from := *r.RunsAt
	if len(r.Windows) == 0 {
		return from
	}
	if now.After(from) {
		from = now
	}
	if inAll(r.Windows, from) {
		return from
	}
	// Windows begin at full minutes.
	at := from.UTC().Truncate(time.Minute)
	for range 7 * 24 * 60 {
		at = at.Add(time.Minute)
		if inAll(r.Windows, at) {
			return at
		}
	}
	return time.Time{}
}

// Waiting says in a few words what a request waits for, as one cell of a table.
func Waiting(r api.Request, now time.Time) string {
	if Delayed(r, now) {
		if at := Runs(r, now); len(r.Windows) > 0 && !at.IsZero() {
			return fmt.Sprintf("waits for its window at %s", Moment(at))
		}
		return fmt.Sprintf("cools off until %s", Moment(*r.RunsAt))
	}
	if r.State != op.StatePending {
		return "nothing"
	}
	var out []string
	for _, d := range demanded(r) {
		if d.Way != firstWay(r) {
			continue
		}
		need := fmt.Sprintf("%d %s", open(d), roleNames(d.Roles))
		if len(d.Could) > 0 {
			need += " (" + People(d.Could) + ")"
		}
		out = append(out, need)
	}
	if n := len(r.Owed); n > 0 {
		out = append(out, fmt.Sprintf("%d by new keys", n))
	}
	if r.Rule == op.SignedByRule {
		out = append(out, "asked for by a rule")
	}
	return strings.Join(out, ", ")
}

// OpenRoles returns the roles in which a signature would help most: those of the
// first way's open demands. It is empty of a request that has none.
func OpenRoles(r api.Request) []op.Role {
	var out []op.Role
	for _, d := range demanded(r) {
		for _, role := range d.Roles {
			if d.Way == firstWay(r) && !slices.Contains(out, role) {
				out = append(out, role)
			}
		}
	}
	return out
}

// demanded returns the demands that are open; none if one way has none that is.
func demanded(r api.Request) []api.Demand {
	left := map[string]int{}
	var out []api.Demand
	for _, d := range r.Demands {
		more := open(d)
		left[d.Way] += more
		if more > 0 {
			out = append(out, d)
		}
	}
	for _, more := range left {
		if more == 0 {
			return nil
		}
	}
	return out
}

// firstWay names the ordinary way, or the only one where that is another.
func firstWay(r api.Request) string {
	if len(r.Demands) == 0 {
		return ""
	}
	return r.Demands[0].Way
}

// Span shows a length of time without parts that are nothing, and from an hour
// on without seconds: 45s, 10m, 1m30s, 1h30m.
func Span(d time.Duration) string {
	d = max(d.Round(time.Second), 0)
	h, m, sec := d/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second
	text := ""
	if h > 0 {
		text = fmt.Sprintf("%dh", h)
	}
	if m > 0 {
		text += fmt.Sprintf("%dm", m)
	}
	if h == 0 && (sec > 0 || m == 0) {
		text += fmt.Sprintf("%ds", sec)
	}
	return text
}

// OpInLine names an operation in a line of a list: those on guests, which are nearly all, by their verb alone.
func OpInLine(name string) string { return strings.TrimPrefix(name, "guest.") }

// open returns how many signatures a demand still needs.
func open(d api.Demand) int { return max(max(d.Threshold, 1)-d.Have, 0) }

// asker says which rule a demand comes from and what it asks of a key. If a rule of
// the configuration alone wants the step signed, the built-in demand is that rule's.
func asker(r api.Request, d api.Demand) string {
	rule := "built-in rule"
	switch {
	case d.Rule == op.BuiltIn && r.Rule == op.SignedByRule:
		rule = "a rule of the configuration"
	case d.Rule != op.BuiltIn:
		rule = fmt.Sprintf("rule %s", Inline(d.Rule))
	}
	return rule + touchNeeds[d.Touch]
}

func roleNames(roles []op.Role) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return shownAll(names, " or ")
}

func windowNames(windows []op.Window) string {
	names := make([]string, len(windows))
	for i, w := range windows {
		names[i] = w.String()
	}
	return strings.Join(names, " and only ")
}

// shownAll joins words of others', each safe to print by itself.
func shownAll(words []string, between string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = Inline(w)
	}
	return strings.Join(out, between)
}

func inAll(windows []op.Window, t time.Time) bool {
	return !slices.ContainsFunc(windows, func(w op.Window) bool { return !w.Contains(t) })
}
