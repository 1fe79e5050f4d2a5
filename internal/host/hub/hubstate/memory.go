package hubstate

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/host/hub"
	"gated/internal/log/witness"
)

// Bounds of what Memory keeps.
const (
	maxReports = 64 << 20 // bytes of the reports of all hosts together
	maxHeads   = 10_000   // gates
	maxOdd     = 1_000    // contradicting heads of all gates
)

// Memory keeps everything in memory, and forgets it when the program ends. It is for one hub. The zero value is not ready;
// NewMemory makes one.
type Memory struct {
	has func(ctx context.Context, host string) error

	mu       sync.Mutex
	of       map[string]*told
	bytes    int
	heads    map[op.GateID]witness.Record
	evidence []witness.Record // of all gates, the oldest first
}

// told is a host's last report, and about how many bytes of memory it takes.
type told struct {
	Told
	size int
}

// NewMemory returns an empty one. has refuses hosts whose reports are not taken, as Documents.Has does.
func NewMemory(has func(ctx context.Context, host string) error) *Memory {
	return &Memory{has: has, of: map[string]*told{}, heads: map[op.GateID]witness.Record{}}
}

// weight returns how many bytes of memory a report takes, with its body. A text is never longer than in the body, but
// an element of a list may be as short as {}.
func weight(r hub.Report, body []byte) int {
	guest := reflect.TypeFor[hub.GuestReport]().Size() + reflect.TypeFor[time.Time]().Size()
	lists := cap(r.Sets)*int(reflect.TypeFor[hub.SetReport]().Size()) + cap(r.Guests)*int(guest) +
		cap(r.Operations)*int(reflect.TypeFor[hub.OperationReport]().Size()) +
		cap(r.Requests)*int(reflect.TypeFor[api.FleetRequest]().Size())
	return cap(body) + len(body) + lists + int(reflect.TypeFor[told]().Size())
}

// Put implements Reports. A report without room is OverLimit.
func (m *Memory) Put(ctx context.Context, a Arrived) (out Outcome, err error) {
	if err := m.has(ctx, a.Host); err != nil {
		return Outcome{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, size := m.of[a.Host], 0
	if before != nil {
		size = before.size
		if keep, err := LastOf(before.Report).Judge(a.Report, a.At); err != nil || !keep {
			return Outcome{}, err
		}
	}
	next := &told{Told{a.Report, a.Body, a.At, a.At}, weight(a.Report, a.Body)}
	if m.bytes-size+next.size > maxReports {
		return Outcome{}, refusal.New(refusal.OverLimit, "the reports of all hosts have more than %d bytes", maxReports).
			WithHint("gated hub --postgres keeps more of them")
	}
	if before != nil && Converged(before.Report) == Converged(a.Report) {
		next.Since = before.Since
	}
	m.bytes += next.size - size
	m.of[a.Host] = next
	out = Outcome{News: true, Changed: a.Report.Operations}
	if before != nil {
		out.News = before.Report.Seq != a.Report.Seq || !before.Report.StartedAt.Equal(a.Report.StartedAt)
		out.Changed = Differing(before.Report.Operations, a.Report.Operations)
	}
	if before == nil || before.Report.Gate != a.Report.Gate {
		if before != nil {
			out.Was = before.Report.Gate
		}
		out.Twin = m.twin(a.Host, a.Report.Gate)
	}
	return out, nil
}

// twin returns another host of a gate, the first by name; empty for none.
func (m *Memory) twin(of string, gate op.GateID) (first string) {
	for host, t := range m.of {
		if host != of && t.Report.Gate == gate && gate != "" && (first == "" || host < first) {
			first = host
		}
	}
	return first
}

// Report implements Reports.
func (m *Memory) Report(_ context.Context, host string) (*Told, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.of[host]; t != nil {
		return &t.Told, nil
	}
	return nil, nil
}

// Queue implements Reports. It looks at every row.
func (m *Memory) Queue(_ context.Context, q Query) (api.FleetQueue, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := api.FleetQueue{Requests: []api.FleetRow{}}
	var rows []api.FleetRow
	for host, t := range m.of {
		if q.Host != "" && q.Host != host {
			continue
		}
		out.LeftOut += int64(t.Report.RequestsLeftOut)
		for _, r := range t.Report.Requests {
			if q.Op != "" && q.Op != r.Op {
				continue
			}
			out.Waiting++
			row := RowOf(Arrived{Host: host, Report: t.Report, At: t.At}, r)
			if q.After == nil || PlaceOf(row).Compare(*q.After) > 0 {
				rows = append(rows, row)
			}
		}
	}
	slices.SortFunc(rows, func(a, b api.FleetRow) int { return PlaceOf(a).Compare(PlaceOf(b)) })
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		out.Next = PlaceOf(rows[q.Limit-1]).String()
	}
	out.Requests = append(out.Requests, rows...)
	return out, nil
}

// Head implements Heads.
func (m *Memory) Head(_ context.Context, gate op.GateID) (*witness.Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r, ok := m.heads[gate]; ok {
		return &r, nil
	}
	return nil, nil
}

// Replace implements Heads. A new gate without room is OverLimit.
func (m *Memory) Replace(_ context.Context, was *witness.Record, is witness.Record) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept, ok := m.heads[is.Gate]
	if ok != (was != nil) || ok && (kept.Note != was.Note || kept.Key != was.Key) {
		return false, nil
	}
	if !ok && m.gatesOf(is.Host) >= MaxGates {
		return false, OverGates(is.Host)
	}
	if !ok && len(m.heads) >= maxHeads {
		return false, refusal.New(refusal.OverLimit, "the hub keeps the heads of %d gates", maxHeads).
			WithHint("gated hub --postgres keeps more of them")
	}
	m.heads[is.Gate] = is
	return true, nil
}

func (m *Memory) gatesOf(host string) (n int) {
	for _, h := range m.heads {
		if h.Host == host {
			n++
		}
	}
	return n
}

// Contradicted implements Heads.
func (m *Memory) Contradicted(_ context.Context, evidence witness.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	ofGate, ofHost := 0, 0
	for _, e := range m.evidence {
		if e.Gate == evidence.Gate && e.Note == evidence.Note && e.Key == evidence.Key {
			return nil
		}
		if e.Host == evidence.Host {
			ofHost++
			if e.Gate == evidence.Gate {
				ofGate++
			}
		}
	}
	if ofGate >= MaxEvidence || ofHost >= MaxHostEvidence || len(m.evidence) >= maxOdd {
		return OverEvidence(evidence.Host)
	}
	m.evidence = append(m.evidence, evidence)
	return nil
}

// Evidence implements Heads.
func (m *Memory) Evidence(_ context.Context, gate op.GateID) (out []witness.Record, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.evidence {
		if e.Gate == gate {
			out = append(out, e)
		}
	}
	return out, nil
}

// Contradictions implements Heads.
func (m *Memory) Contradictions(_ context.Context, limit int) (out []witness.Record, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	shown := map[string]bool{}
	for _, e := range slices.Backward(m.evidence) {
		if !shown[e.Host] && len(out) < limit {
			shown[e.Host], out = true, append(out, e)
		}
	}
	return out, nil
}

var _ Store = (*Memory)(nil)
