package reconcile

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/wire/desired"
)

// Status is the state of reconcile.
type Status struct {
	Sources   []SourceStatus `json:"sources"`
	Drivers   []DriverStatus `json:"drivers"`
	Queue     QueueStatus    `json:"queue"`
	Unknown   []Trouble      `json:"unknown"`   // targets that the driver cannot observe: nothing is planned for them
	Conflicts []Conflict     `json:"conflicts"` // targets that several sets mention: their wishes are void
	Stopped   []Stopped      `json:"stopped"`   // wishes that ended and are not tried again unchanged, or wait for the way to be clear
	Full      []string       `json:"full"`      // sets that have as many open requests as they may
	RoundAt   time.Time      `json:"round_at"`  // of the last look at all targets; zero before the first
	RoundTook int64          `json:"round_us"`  // how long it took, in microseconds
}

// SourceStatus is the result of the last read of one source.
type SourceStatus struct {
	Name   string       `json:"name"`
	OK     bool         `json:"ok"`
	Code   refusal.Code `json:"code,omitempty"`  // of the error
	Error  string       `json:"error,omitempty"` // the sentence alone, with file:line:column if it is about a document
	Sets   int          `json:"sets"`
	Guests int          `json:"guests"`
	ReadAt time.Time    `json:"read_at"`
}

// DriverStatus says whether a driver could list its targets.
type DriverStatus struct {
	Kind  string `json:"kind"`
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

// QueueStatus counts targets.
type QueueStatus struct {
	Waiting int `json:"waiting"`
	Working int `json:"working"`
	Later   int `json:"later"` // after a back-off, or until a question about a task
}

// Trouble is a target and its problem.
type Trouble struct {
	Target op.Target `json:"target"`
	Why    string    `json:"why"`
}

// Conflict is a target that several sets mention.
type Conflict struct {
	Target op.Target `json:"target"`
	Sets   []string  `json:"sets"`
}

// Stopped is a step that desired state asks for and that is not tried again, or only when the way is clear.
type Stopped struct {
	Target op.Target    `json:"target"`
	Op     string       `json:"op"`
	Code   refusal.Code `json:"code"`
	Detail string       `json:"detail"`
	Waits  bool         `json:"waits"` // for what is in the way to go
}

// Status returns the present state. Its lists are sorted and never nil.
func (r *Reconciler) Status() Status {
	s := Status{Sources: []SourceStatus{}, Drivers: []DriverStatus{}, Unknown: []Trouble{}, Conflicts: []Conflict{},
		Stopped: []Stopped{}, Full: []string{}}
	s.Queue.Waiting, s.Queue.Working, s.Queue.Later = r.queue.depth()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, st := range r.sources {
		s.Sources = append(s.Sources, st.status(r.Sources[i].Name()))
	}
	for kind, err := range r.round.drivers {
		d := DriverStatus{Kind: kind, OK: err == nil}
		if err != nil {
			d.Error = err.Error()
		}
		s.Drivers = append(s.Drivers, d)
	}
	for t, m := range r.targets {
		if m.unknown != "" {
			s.Unknown = append(s.Unknown, Trouble{Target: t, Why: m.unknown})
		}
		for _, x := range m.stopped {
			s.Stopped = append(s.Stopped, Stopped{Target: t, Op: x.op, Code: x.code, Detail: x.detail, Waits: x.clears != nil})
		}
	}
	for t, w := range r.wishes.wishes {
		if w.conflict() {
			s.Conflicts = append(s.Conflicts, Conflict{Target: t, Sets: w.sets})
		}
	}
	now := r.Now()
	for set, until := range r.limited {
		if now.Before(until) {
			s.Full = append(s.Full, set)
		}
	}
	s.RoundAt, s.RoundTook = r.round.at, r.round.took.Microseconds()
	slices.SortFunc(s.Drivers, func(a, b DriverStatus) int { return cmp.Compare(a.Kind, b.Kind) })
	slices.SortFunc(s.Unknown, func(a, b Trouble) int { return cmp.Compare(a.Target.String(), b.Target.String()) })
	slices.SortFunc(s.Conflicts, func(a, b Conflict) int { return cmp.Compare(a.Target.String(), b.Target.String()) })
	slices.SortFunc(s.Stopped, func(a, b Stopped) int {
		return cmp.Or(cmp.Compare(a.Target.String(), b.Target.String()), cmp.Compare(a.Op, b.Op))
	})
	slices.Sort(s.Full)
	return s
}

func (st sourceState) status(name string) SourceStatus {
	out := SourceStatus{Name: name, OK: st.err == nil && !st.readAt.IsZero(), Sets: len(st.docs), ReadAt: st.readAt}
	if st.err != nil {
		out.Code, out.Error = refusal.CodeOf(st.err), st.err.Error()
		if r := (*refusal.Refusal)(nil); errors.As(st.err, &r) {
			out.Error = r.Detail // the error's text would say the code twice
		}
	}
	for _, d := range st.docs {
		out.Guests += len(d.Doc.Guests)
	}
	return out
}

// SetReader gives the API source its sets; a *gate.Gate does.
type SetReader interface {
	Sets(ctx context.Context) ([]gate.Set, error)
}

// API is the source of the named sets that operators put over the socket. After a change, its owner calls
// Reconciler.Reread.
type API struct {
	sets SetReader
	docs []*SetDoc
}

// NewAPI returns the source.
func NewAPI(sets SetReader) *API { return &API{sets: sets} }

// Name returns "api".
func (*API) Name() string { return "api" }

// Read parses the sets that changed since the last Read.
func (a *API) Read(ctx context.Context) ([]*SetDoc, error) {
	sets, err := a.sets.Sets(ctx)
	if err != nil {
		return nil, err
	}
	known := make(map[string]*SetDoc, len(a.docs))
	for _, d := range a.docs {
		known[d.Set] = d
	}
	docs := make([]*SetDoc, 0, len(sets))
	for _, s := range sets {
		d, ok := known[s.Name]
		if !ok || d.Digest != s.ETag {
			doc, err := desired.Parse(s.Name, s.Body)
			if err != nil {
				return nil, err
			}
			d = &SetDoc{Set: s.Name, Doc: doc, Digest: s.ETag}
		}
		docs = append(docs, d)
	}
	a.docs = docs
	return docs, nil
}
