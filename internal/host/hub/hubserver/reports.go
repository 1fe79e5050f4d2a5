package hubserver

import (
	"reflect"
	"sync"
	"time"

	"gated/internal/base/refusal"
	"gated/internal/host/hub"
)

// maxReports bounds, in bytes of memory, the reports of all hosts together.
const maxReports = 64 << 20

// told is the last report of one host.
type told struct {
	report hub.Report
	body   []byte
	kept   int       // about how many bytes of memory
	at     time.Time // its arrival by the hub's clock
	since  time.Time // since when the host has been as wished, or not as wished
}

// reports keeps the last report of each host in memory.
type reports struct {
	mu    sync.Mutex
	of    map[string]*told
	bytes int
}

// weight returns how many bytes of memory a report takes, with its body. A text is never longer than in the body, but
// an element of a list may be as short as {}.
func weight(r hub.Report, body []byte) int {
	guest := reflect.TypeFor[hub.GuestReport]().Size() + reflect.TypeFor[time.Time]().Size()
	lists := cap(r.Sets)*int(reflect.TypeFor[hub.SetReport]().Size()) + cap(r.Guests)*int(guest) +
		cap(r.Operations)*int(reflect.TypeFor[hub.OperationReport]().Size())
	return cap(body) + len(body) + lists + int(reflect.TypeFor[told]().Size())
}

// put keeps a report, unless it has a later one of the same daemon. It returns whether the report differs from the one
// before, and which operations differ. A report of an earlier daemon of the same gate is a Conflict: it came late, or
// two daemons have one state. If the earlier daemon's start is in the hub's future, its clock was wrong and the new
// report is taken. A report without room is OverLimit.
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
			return false, nil, refusal.New(refusal.Conflict, "the last report of that gate is from a daemon that started later").
				WithHint("if the gate's clock was set back, start the hub again: it forgets reports")
		case same && report.StartedAt.Equal(started) && report.Seq < before.report.Seq:
			return false, nil, nil
		}
	}
	kept := weight(report, body)
	if r.bytes-size+kept > maxReports {
		return false, nil, refusal.New(refusal.OverLimit, "the reports of all hosts have more than %d bytes", maxReports)
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

// get returns the last report of a host, or nil.
func (r *reports) get(host string) *told {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.of[host]
}

// converged reports whether every guest is as its revision wishes.
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
