package audit

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// old is what entries of version 1 have beside Entry.
type old struct {
	Epoch  int64  `json:"epoch,omitzero"`   // of the list of signers
	Digest string `json:"digest,omitempty"` // its meaning depends on the kind
}

// translate gives an entry of version 1 the parts of version 2. Version 1 has most of
// them in the words of its detail.
func (s *stored) translate() {
	e := &s.Entry
	e.Parts = Parts{} // no program wrote them in this version
	switch e.Kind {
	case Started:
		e.SignersFile = SignersFile{Epoch: s.Epoch, SHA256: s.Digest}
		e.Revokes = s.revokes()
	case Trusted:
		e.SignersFile = SignersFile{Epoch: s.Epoch, SHA256: s.Digest}
		if e.Edited = e.Target != ""; !e.Edited { // an edit tells of the list alone
			e.Revokes = s.revokes()
		}
	case Rotated:
		e.SignersFile = SignersFile{Epoch: s.Epoch, SHA256: s.Digest, How: e.Detail}
	case Keyed:
		e.HeadKey = e.Detail
	case Requested, Reissued:
		e.ShownSHA256 = s.Digest
	case Succeeded, Failed, Interrupted:
		e.OutputSHA256 = s.Digest
	case Compensated:
		if of, ok := strings.CutPrefix(e.Detail, "takes back "); ok {
			e.Undoes = of
		}
	case DesiredPut:
		e.Set.Name, e.Set.SHA256, _ = strings.Cut(e.Detail, " sha256:")
	case DesiredGone:
		e.Set.Name = e.Detail
	case AgentRegistered, AgentEnded:
		e.Registration = s.registration()
	case Restored, TimeAccepted:
		e.Ended = ended(e.Detail)
	}
}

// revokes says whether keys are revoked, or may be. The oldest entries have no member
// for it: they have no digest of the revocation file if there was none, and words.
func (s *stored) revokes() *bool {
	is := false
	switch {
	case s.Revokes != nil:
		return s.Revokes
	case s.Policy != "" && s.Revoked == "":
	default:
		is = !revokedNone[s.Kind]().MatchString(s.Detail)
	}
	return &is
}

// revokedNone matches the words of entries if no key was revoked. The oldest starts
// say nothing of revoked keys.
var revokedNone = map[Kind]func() *regexp.Regexp{
	Started: sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^gated [^;]*(; revoked keys: (none, |0 in |.*: no key was revoked, ).*)?$`)
	}),
	Trusted: sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(0 keys revoked|.*: no key was revoked, )`)
	}),
}

// registration reads "builder#7: process 4711", "builder#7: a token", or why
// builder#7 ended. If the words name no registration, the result has no ID.
func (s *stored) registration() Registration {
	one, what, _ := strings.Cut(s.Detail, ": ")
	r := Registration{SHA256: s.Digest}
	var number string
	r.Name, number, _ = strings.Cut(one, "#")
	if id, err := strconv.ParseInt(number, 10, 64); err == nil && id > 0 {
		r.ID = id
	}
	if s.Kind == AgentRegistered {
		r.Token = what == "a token"
		pid, _ := strings.CutPrefix(what, "process ")
		r.PID, _ = strconv.Atoi(pid) // 0 if there is none
	}
	return r
}

// ended reads the end of the words: "; ended: registrations of agents: 2, reservations: 1".
// Without them, nothing ended.
func ended(detail string) (e Ended) {
	const begin = "; ended: registrations of agents: "
	if i := strings.LastIndex(detail, begin); i >= 0 {
		_, _ = fmt.Sscanf(detail[i+len(begin):], "%d, reservations: %d", &e.Registrations, &e.Reservations)
	}
	return e
}
