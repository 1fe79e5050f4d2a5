package hub

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"sync"
	"time"

	"gated/client/api"
	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/reconcile"
)

// Gate is what a link needs from a gate; *gate.Gate is one.
type Gate interface {
	// KnownPayload returns the request that has these bytes as its payload.
	KnownPayload(ctx context.Context, payload []byte) (id op.RequestID, ok bool, err error)
	ApproveOffline(ctx context.Context, by op.Requester, e authz.Envelope) (op.Request, error)
	Request(ctx context.Context, id op.RequestID) (op.Request, error)
	// EachRequest calls fn with each request in a state.
	EachRequest(ctx context.Context, state op.State, fn func(op.Request) error) error
	// NoteRefused writes a refusal to the audit log that was decided outside of the gate.
	NoteRefused(ctx context.Context, by op.Requester, what string, r *refusal.Refusal)
}

// Standing returns the state of each set's wishes, as Reconciler.Standing does.
type Standing func(waits map[op.Target]bool, limit int) (sets []reconcile.SetStanding, unmet []reconcile.WishStanding, left int)

// Log is a gate's audit log; *service.Log is one.
type Log interface {
	// Head returns the newest signed head. Its note is empty if the gate signs none.
	Head(ctx context.Context) (api.Head, error)
	// Consistency proves that the first old entries are the start of the first size entries.
	Consistency(ctx context.Context, old, size int64) (api.Consistency, error)
}

// Config is what a link needs. URL, Host, the lengths of time, Gate and Standing
// are required.
type Config struct {
	URL       string // without a slash at its end
	Host      string
	CA        string        // a file of certificates; the link trusts these alone. Empty means the system's
	TokenFile string        // empty means none
	Interval  time.Duration // between two polls, give or take a quarter
	Timeout   time.Duration // of one exchange as a whole
	Report    time.Duration // after which a report is sent even if nothing changed

	Gate      Gate
	Log       Log // nil sends no heads
	Standing  Standing
	ID        op.GateID // for reports
	Version   string
	StartedAt time.Time

	Now    func() time.Time // nil means time.Now
	Logger *slog.Logger     // nil discards

	// After runs f when d has passed, until stop is called; nil means
	// time.AfterFunc. Random returns numbers in [0, 1); nil means math/rand.
	After  func(d time.Duration, f func()) (stop func())
	Random func() float64
}

// Link polls one hub. As a source of desired state, it has the answer of the last poll. It is safe for concurrent use;
// Run is called once.
type Link struct {
	Config
	by      op.Requester // the requester of relayed operations
	hub     *exchange
	changed chan struct{} // has room for one signal

	polling sync.Mutex // held during a poll of desired state
	relays  relays     // only for the goroutine that runs rounds
	reports reports    // the same
	heads   heads      // the same

	mu     sync.Mutex
	status Status
	kept   *kept // the last good answer; it stays after a failed poll
	err    error // of the last poll
	polled bool
}

// Status is the state of a link.
type Status struct {
	URL         string
	Revision    string    // of the last good answer
	ReadAt      time.Time // when the hub last answered a poll correctly; zero before the first
	PolledAt    time.Time // the last poll
	NextAt      time.Time // the next poll, if Run has begun; else zero
	Err         error     // why its wishes rest now
	ErrSince    time.Time // when the failures began, even if the first one was another; zero without Err
	Missing     []string  // sets that the last answer lacked for the first time; the gate waits for a second answer
	Relayed     int       // operations that it relays
	Refused     int       // of these, envelopes that were refused
	Untried     int       // of these, not handed to the gate yet
	RelayErr    error     // why operations could not be read
	RelaySince  time.Time // when that began; zero without RelayErr
	ReportedAt  time.Time // when it last took a report
	ReportErr   error     // why it did not take the last one
	ReportSince time.Time // when that began; zero without ReportErr
	ReportDue   time.Time // from when on a poll tries again; zero without ReportErr
	HeadErr     error     // why it did not take the newest signed head of the audit log
	HeadSince   time.Time // when that began; zero without HeadErr
	HeadDue     time.Time // from when on a poll tries again; zero without HeadErr
}

// New returns a link that has asked nothing yet.
func New(c Config) *Link {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.After == nil {
		c.After = func(d time.Duration, f func()) func() {
			t := time.AfterFunc(d, f)
			return func() { t.Stop() }
		}
	}
	if c.Random == nil {
		c.Random = rand.Float64
	}
	return &Link{Config: c, by: Requester(c.URL), changed: make(chan struct{}, 1), status: Status{URL: c.URL},
		hub: &exchange{url: c.URL, ca: c.CA, tokenFile: c.TokenFile, timeout: c.Timeout}}
}

// Requester returns the requester for operations that the hub at an address relays. No caller on the socket has it.
func Requester(address string) op.Requester {
	name := address
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		name = u.Host
	}
	return op.Requester{Source: op.SourceHub, Set: name}
}

// Run polls until ctx ends: at once, then by interval.
func (l *Link) Run(ctx context.Context) error {
	defer l.hub.close()
	for {
		l.Round(ctx)
		due, wait := make(chan struct{}), Jitter(l.Interval, l.Random())
		l.mu.Lock()
		l.status.NextAt = l.Now().Add(wait)
		l.mu.Unlock()
		stop := l.After(wait, func() { close(due) })
		select {
		case <-ctx.Done():
			stop()
			return nil
		case <-due:
		}
	}
}

// Jitter spreads the times of gates with the same interval: from three quarters of d to five quarters, as random goes
// from 0 to 1.
func Jitter(d time.Duration, random float64) time.Duration {
	return d*3/4 + time.Duration(random*float64(d/2))
}

// Round asks once for desired state and for operations, hands new ones to the gate, reports, and sends the signed head.
// Failures are in Status; the next round tries again.
func (l *Link) Round(ctx context.Context) {
	for _, part := range []struct {
		what string
		do   func(context.Context)
	}{{"a poll of the hub", l.pollAndHurry}, {"relaying operations", l.relay}, {"a report to the hub", l.report},
		{"a signed head for the hub", l.head}} {
		if ctx.Err() != nil {
			return
		}
		_ = driver.Safely(l.Logger, part.what, func() error { part.do(ctx); return nil }) // Safely logs it
	}
}

// pollAndHurry asks for desired state. If a hub answers again after a failure, the next report is sent at once: the
// cause of failed reports has most likely ended too. Operations that the gate could not decide keep their delay.
// Otherwise, with a hub that fails every other time, the gate would refuse and log the same operation each time.
func (l *Link) pollAndHurry(ctx context.Context) {
	before := l.Status().Err
	l.poll(ctx)
	if before != nil && l.Status().Err == nil {
		l.reports.wait, l.reports.due = 0, time.Time{}
	}
}

// Status returns the state of the link.
func (l *Link) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Err, s.Missing = l.err, slices.Clone(s.Missing)
	if l.kept != nil {
		s.Revision = l.kept.revision
	}
	return s
}

// since returns the time at which a fault began; from is the earlier value, zero for none.
func since(from time.Time, before, now error, at time.Time) time.Time {
	switch {
	case now == nil:
		return time.Time{}
	case before == nil:
		return at
	}
	return from
}

// says logs an error when it begins, changes or ends.
func (l *Link) says(what string, before, now error) {
	switch {
	case now != nil && (before == nil || before.Error() != now.Error()):
		l.Logger.Warn(what+" failed", "hub", l.URL, "error", now)
	case now == nil && before != nil:
		l.Logger.Info(what+" works again", "hub", l.URL)
	}
}
