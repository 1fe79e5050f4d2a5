package page

import (
	"slices"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/web/access"
	"gated/internal/web/gates"
	"gated/internal/web/passkey"
)

// may reports whether a session may read a gate or, if id is not empty, that request. An
// operator on the own machine reads all. A passkey reads the gates at which it is listed
// and, because it has to prove itself first, a rotation that would list it.
func (c Config) may(s access.Session, g gates.Gate, id string) bool {
	if s.Local || len(inForce(g, s.Key, c.Now())) > 0 {
		return true
	}
	r, ok := g.Request(id)
	return ok && adds(r, s.Key)
}

// adds reports whether an open rotation would list a key.
func adds(r api.Request, key string) bool {
	return key != "" && slices.ContainsFunc(addedLines(r), func(line string) bool { return passkey.Lists(line, key) })
}

// mayHear reports whether a session may know that something of a gate changed.
func (c Config) mayHear(s access.Session, g gates.Gate) bool {
	return c.may(s, g, "") || slices.ContainsFunc(g.Requests, func(r api.Request) bool { return adds(r, s.Key) })
}

// inForce returns the lines of a key that may sign now.
func inForce(g gates.Gate, key string, now time.Time) []api.Signer {
	if key == "" || g.Trust.Blocked || slices.Contains(g.Trust.Revoked, key) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(g.Trust.Signers), func(s api.Signer) bool {
		return s.Fingerprint != key || s.CA || s.ValidAfter != nil && now.Before(*s.ValidAfter) ||
			s.ValidBefore != nil && now.After(*s.ValidBefore)
	})
}

// added returns the passkeys that an open rotation adds.
func added(r api.Request) []passkey.Key {
	var keys []passkey.Key
	for _, line := range addedLines(r) {
		keys = append(keys, passkey.Listed(line)...)
	}
	return keys
}

// addedLines returns the lines that an open rotation adds.
func addedLines(r api.Request) []string {
	if r.Op != op.Rotate || !r.State.Open() {
		return nil
	}
	var lines []string
	add, _ := r.Params["add"].([]any) // another form adds nothing
	for _, line := range add {
		if text, ok := line.(string); ok {
			lines = append(lines, text)
		}
	}
	return lines
}

// known returns the passkeys that could sign a request of a gate: those listed, and those
// that the request adds.
func known(g gates.Gate, r api.Request) []passkey.Key {
	return append(passkey.Listed(g.Trust.Text), added(r)...)
}
