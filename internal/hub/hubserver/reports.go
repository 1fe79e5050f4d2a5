package hubserver

import (
	"reflect"
	"sync"
	"time"

	"gated/internal/hub"
	"gated/internal/op"
)

// maxReports bounds, in bytes of memory, the reports of all hosts together.
const maxReports = 64 << 20

// told is the last report of one host.
type told struct {
	report hub.Report
	body   []byte
	kept   int       // bytes of memory, about
	at     time.Time // when it came, by the hub's clock
	since  time.Time // since when the host has or has not been as it is wished to be
}

// reports keeps the last report of each host in memory.
type reports struct {
	mu    sync.Mutex
	of    map[string]*told
	bytes int
}

// weight returns how many bytes of memory it takes to keep a report, with the
// bytes that it came as: no text is longer than it was sent, and an element of a
// list may be as short as {}.
func weight(r hub.Report, body []byte) int {
	guest := reflect.TypeFor[hub.GuestReport]().Size() + reflect.TypeFor[time.Time]().Size()
	lists := cap(r.Sets)*int(reflect.TypeFor[hub.SetReport]().Size()) + cap(r.Guests)*int(guest) +
		cap(r.Operations)*int(reflect.TypeFor[hub.OperationReport]().Size())
	return cap(body) + len(body) + lists + int(reflect.TypeFor[told]().Size())
}

// put keeps a report, unless a later one of the same daemon was kept already,
// and returns whether it says something else than the one before, and which
// operations it says something else of. One of a daemon of the same gate that was
// started earlier is refused as Conflict: it was late, or two daemons have one
// state. A daemon that was started in the hub's future holds nobody up: its clock
// was wrong. What no longer fits is refused as OverLimit.
func (r *reports) put(host string, report hub.Report, body []byte, now time.Time) (news bool, changed []hub.OperationReport, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.of[host]
	size := 0
	if before != nil {
		size = before.kept
		same := before.report.Gate == report.Gate
		switch started := before.report.StartedAt; {
		case same && report.StartedAt.Before(started) && !started.After(now):
			return false, nil, op.Refuse(op.Conflict, "the last report of that gate is of a daemon that was started later").
				WithHint("if the gate's clock was set back, start the hub again: it forgets reports")
		case same && report.StartedAt.Equal(started) && report.Seq < before.report.Seq:
			return false, nil, nil
		}
	}
	kept := weight(report, body)
	if r.bytes-size+kept > maxReports {
		return false, nil, op.Refuse(op.OverLimit, "the reports of all hosts have more than %d bytes", maxReports)
	}
	next := &told{report: report, body: body, kept: kept, at: now, since: now}
	if before != nil && converged(before.report) == converged(report) {
		next.since = before.since
	}
	r.bytes += kept - size
	r.of[host] = next
	if before == nil {
		return true, report.Operations, nil
	}
	news = before.report.Seq != report.Seq || !before.report.StartedAt.Equal(report.StartedAt)
	return news, differing(before.report.Operations, report.Operations), nil
}

func differing(old, list []hub.OperationReport) (out []hub.OperationReport) {
	known := make(map[string]hub.OperationReport, len(old))
	for _, o := range old {
		known[o.Digest] = o
	}
	for _, o := range list {
		if known[o.Digest] != o {
			out = append(out, o)
		}
	}
	return out
}

// get returns the last report of a host, nil if there is none.
func (r *reports) get(host string) *told {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[host]
}

// converged reports whether every guest is as the revision wishes that was read.
func converged(r hub.Report) bool {
	for _, s := range r.Sets {
		if s.Converged != s.Guests {
			return false
		}
	}
	return r.Error == nil && len(r.Sets) > 0
}

// counts adds up the guests of all sets, and those that wait for signatures.
func counts(r hub.Report) (guests, waiting int) {
	for _, s := range r.Sets {
		guests, waiting = guests+s.Guests, waiting+s.Waiting
	}
	return guests, waiting
}
