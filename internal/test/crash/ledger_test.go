package crash

import (
	"math/rand/v2"
	"sync"

	"gated/client/api"
	"gated/internal/base/op"
)

// ledger is what the daemon's callers know: what was acknowledged has to be
// there after every kill.
type ledger struct {
	mu        sync.Mutex
	jobs      map[string]api.Job // as last answered, until they are seen to have ended
	over      map[string]api.Job // that were
	approvals []*signature
	files     map[op.Incarnation]possession
	sets      map[string][]string // ETags that the newest may have: the last acknowledged one and those after it
	tokens    map[string]string   // of agents, by name
	held      map[string]*holding // reservations, by id
	claimed   int                 // how often something was reserved
	backups   int                 // that were told to be whole
}

// signature is an approval that was sent, accepted or not.
type signature struct {
	request  string
	envelope api.Envelope
	accepted bool // it was answered so
	replayed bool // and was sent again since
}

// possession is a guest whose files were written and are to stay as they are.
type possession struct {
	name, digest string
}

func newLedger() *ledger {
	return &ledger{jobs: map[string]api.Job{}, over: map[string]api.Job{}, files: map[op.Incarnation]possession{}, sets: map[string][]string{}, tokens: map[string]string{}, held: map[string]*holding{}}
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

// ended moves a job to those that are over.
func (l *ledger) ended(j api.Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.jobs, j.ID)
	short := api.Job{ID: j.ID, State: j.State}
	for _, s := range j.Steps {
		short.Steps = append(short.Steps, api.Step{ID: s.ID, Op: s.Op, Target: s.Target, State: s.State})
	}
	l.over[j.ID] = short
}

// someSpent returns the accepted approvals that were not replayed yet, and a few
// that were.
func (l *ledger) someSpent(r *rand.Rand) (out []*signature) {
	for _, s := range l.spent() {
		if !s.replayed || r.IntN(10) == 0 && len(out) < 40 {
			out = append(out, s)
		}
		s.replayed = true
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
