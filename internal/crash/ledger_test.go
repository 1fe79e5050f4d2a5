package crash

import (
	"sync"

	"gated/internal/api"
	"gated/internal/op"
)

// ledger is what the daemon's callers know: what was acknowledged has to be
// there after every kill.
type ledger struct {
	mu        sync.Mutex
	jobs      map[string]api.Job // as last answered
	approvals []*signature
	files     map[op.Incarnation]possession
	sets      map[string][]string // ETags that the newest may have: the last acknowledged one and those after it
	answers   int
}

// signature is an approval that was sent, accepted or not.
type signature struct {
	request  string
	envelope api.Envelope
	accepted bool // it was answered so
}

// possession is a guest whose files were written and are to stay as they are.
type possession struct {
	name, digest string
}

func newLedger() *ledger {
	return &ledger{jobs: map[string]api.Job{}, files: map[op.Incarnation]possession{}, sets: map[string][]string{}}
}

func (l *ledger) job(j api.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs[j.ID] = j
}

// sending is called before an approval is sent: its answer may be lost.
func (l *ledger) sending(request string, e api.Envelope) *signature {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &signature{request: request, envelope: e}
	l.approvals = append(l.approvals, s)
	return s
}

func (l *ledger) accepted(s *signature) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.accepted = true
}

// spent returns the approvals that were accepted.
func (l *ledger) spent() []*signature {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*signature
	for _, s := range l.approvals {
		if s.accepted {
			out = append(out, s)
		}
	}
	return out
}

func (l *ledger) owns(inc op.Incarnation, p possession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.files[inc] = p
}

func (l *ledger) putting(set, etag string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sets[set] == nil {
		l.sets[set] = []string{""} // it was never there
	}
	l.sets[set] = append(l.sets[set], etag)
}

func (l *ledger) put(set, etag string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sets[set] = []string{etag}
}
