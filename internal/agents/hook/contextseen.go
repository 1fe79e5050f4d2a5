package hook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
)

// seen is what the next hook has to know. There is one file for each name, and it has the registration that wrote it: a
// new agent with the name of an older one begins anew.
type seen struct {
	file string
	self string
	head int64
}

// maxSeen is more than such a file has, in bytes.
const maxSeen = 512

// seenBy returns what an agent with this registration saw last. The second result is false if it saw nothing yet.
func (h Home) seenBy(self string) (was seen, ok bool) {
	sum := sha256.Sum256([]byte(op.AgentName(self)))
	was = seen{file: "seen-" + h.gate + "-" + hex.EncodeToString(sum[:8]), self: self}
	b, _ := h.read(was.file, maxSeen)
	by, head, _ := strings.Cut(string(b), " ")
	n, err := strconv.ParseInt(head, 10, 64)
	was.head = n
	return was, by == self && err == nil && n >= 0
}

// keepSeen writes it for the next hook.
func (h Home) keepSeen(s seen) error {
	return h.locked(func() error { return h.replace(s.file, []byte(s.self+" "+strconv.FormatInt(s.head, 10))) })
}

// without returns the fates without those of jobs that an older agent of the same name asked for, and this one did not.
func (h ContextHook) without(ctx context.Context, all fates, self string) (own fates, err error) {
	older := map[string]bool{}
	for _, f := range all {
		job, _, _ := strings.Cut(f.step, ".")
		others, known := older[job]
		if !known {
			requesters, err := h.Requesters(ctx, job)
			if err != nil && !errors.Is(err, refusal.UnknownTarget) { // a job that is gone has no requesters
				return nil, err
			}
			others = ofOlder(requesters, self)
			older[job] = others
		}
		if !others {
			own = append(own, f)
		}
	}
	return own, nil
}

// ofOlder reports whether requesters have another registration of the agent's name, and not the agent's own.
func ofOlder(requesters []string, self string) (older bool) {
	for _, r := range requesters {
		agent, ok := strings.CutPrefix(r, "agent:")
		if ok && agent == self {
			return false
		}
		older = older || ok && op.AgentName(agent) == op.AgentName(self)
	}
	return older
}
