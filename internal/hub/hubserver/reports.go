package hubserver

import (
	"sync"
	"time"

	"gated/internal/hub"
	"gated/internal/op"
)

// maxReports bounds, in bytes as they were sent, the reports of all hosts
// together.
const maxReports = 64 << 20

// told is the last report of one host.
type told struct {
	report hub.Report
	body   []byte
	at     time.Time // when it came, by the hub's clock
	since  time.Time // since when the host has or has not been as it is wished to be
}

// reports keeps the last report of each host in memory.
type reports struct {
	mu    sync.Mutex
	of    map[string]*told
	bytes int
}

// put keeps a report, unless a later one of the same daemon was kept already,
// and returns whether it says something else than the one before, and which
// operations it says something else of. What no longer fits is refused as
// OverLimit.
func (r *reports) put(host string, report hub.Report, body []byte, now time.Time) (news bool, changed []hub.OperationReport, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.of[host]
	size := 0
	if before != nil {
		size = len(before.body)
		if before.report.StartedAt.Equal(report.StartedAt) && before.report.Gate == report.Gate && report.Seq < before.report.Seq {
			return false, nil, nil
		}
	}
	if r.bytes-size+len(body) > maxReports {
		return false, nil, op.Refuse(op.OverLimit, "the reports of all hosts have more than %d bytes", maxReports)
	}
	next := &told{report: report, body: body, at: now, since: now}
	if before != nil && converged(before.report) == converged(report) {
		next.since = before.since
	}
	r.bytes += len(body) - size
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
