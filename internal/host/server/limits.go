package server

import (
	"sync"
	"time"

	"gated/internal/base/refusal"
)

// Limits bound what callers can make the daemon hold. DefaultLimits has the values. A zero field means its default.
type Limits struct {
	Conns       int // connections, of all uids
	ConnsPerUID int
	Streams     int // of these, event streams and backups, which may last long
	StreamsUID  int // of one uid
	StreamsKept int // of both, for operators alone; at most half
	Waits       int // connections on which a claim waits
	WaitsUID    int // of one uid
	JobWaits    int // calls that wait for a job
	JobWaitsUID int // of one uid
	Lists       int // long reading calls at once; the others wait
	ListsUID    int
	Plans       int // documents that are planned at once; more are refused
	PlansUID    int

	Header time.Duration // for a request's header to arrive
	Body   time.Duration // for header and body to arrive
	Work   time.Duration // for the answer to be found
	Write  time.Duration // for the answer, or one part of a stream, to be taken
	Idle   time.Duration // between requests of a connection
	Beat   time.Duration // between heartbeats of an event stream
	Drain  time.Duration // for calls under way when the daemon stops

	// Bodies bounds the bytes of request bodies in memory; BodiesUID bounds those of one uid. The first freeBody bytes
	// of each body do not count, so that callers with large bodies cannot keep small ones out.
	Bodies    int64
	BodiesUID int64

	// Decoded bounds the memory of decoded bodies in bytes; DecodedUID bounds that of one uid. Calls without room wait.
	// Signed operations need no room.
	Decoded    int64
	DecodedUID int64

	// Answers bounds the bytes of answers to reading calls that their callers have not taken yet; AnswersUID bounds
	// those of one uid. The first freeAnswer bytes of each do not count.
	Answers    int64
	AnswersUID int64
}

// The largest bodies, in bytes (protocol section 4), and how much of each is free of the common bound.
const (
	MaxBody    = 1 << 20
	MaxDesired = 16 << 20
	freeBody   = 64 << 10
	freeAnswer = 64 << 10
)

// DefaultLimits returns the limits of a daemon.
func DefaultLimits() Limits {
	return Limits{
		Conns: 512, ConnsPerUID: 256, Streams: 128, StreamsUID: 64, StreamsKept: 16, Waits: 256, WaitsUID: 64,
		JobWaits: 96, JobWaitsUID: 64,
		Lists: 8, ListsUID: 2, Plans: 2, PlansUID: 1,
		Header: 10 * time.Second, Body: 30 * time.Second, Work: 60 * time.Second, Write: 30 * time.Second,
		Idle: 60 * time.Second, Beat: 15 * time.Second, Drain: 10 * time.Second,
		Bodies: 48 << 20, BodiesUID: 20 << 20, Decoded: 64 << 20, DecodedUID: 24 << 20,
		Answers: 48 << 20, AnswersUID: 20 << 20,
	}
}

// orDefault fills zero fields.
func (l Limits) orDefault() Limits {
	d := DefaultLimits()
	fill(&l.Conns, d.Conns)
	fill(&l.ConnsPerUID, d.ConnsPerUID)
	fill(&l.Streams, d.Streams)
	fill(&l.StreamsUID, d.StreamsUID)
	fill(&l.StreamsKept, d.StreamsKept)
	fill(&l.Waits, d.Waits)
	fill(&l.WaitsUID, d.WaitsUID)
	fill(&l.JobWaits, d.JobWaits)
	fill(&l.JobWaitsUID, d.JobWaitsUID)
	fill(&l.Lists, d.Lists)
	fill(&l.ListsUID, d.ListsUID)
	fill(&l.Plans, d.Plans)
	fill(&l.PlansUID, d.PlansUID)
	fill(&l.Header, d.Header)
	fill(&l.Body, d.Body)
	fill(&l.Work, d.Work)
	fill(&l.Write, d.Write)
	fill(&l.Idle, d.Idle)
	fill(&l.Beat, d.Beat)
	fill(&l.Drain, d.Drain)
	fill(&l.Bodies, d.Bodies)
	fill(&l.BodiesUID, d.BodiesUID)
	fill(&l.Decoded, d.Decoded)
	fill(&l.DecodedUID, d.DecodedUID)
	fill(&l.Answers, d.Answers)
	fill(&l.AnswersUID, d.AnswersUID)
	return l
}

func fill[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// quota is an amount that all uids share, and of which each uid may have a part.
type quota struct {
	what        string // for the refusal
	all, perUID int64

	mu   sync.Mutex
	used int64
	by   map[uint32]int64
}

func newQuota(what string, all, perUID int64) *quota {
	return &quota{what: what, all: all, perUID: perUID, by: map[uint32]int64{}}
}

// take reserves n for uid, or refuses as OverLimit.
func (q *quota) take(uid uint32, n int64) error { return q.takeLeaving(uid, n, 0) }

// takeLeaving is take for a caller that must leave some: of the whole, and of the uid's part, because several agents
// may share a uid.
func (q *quota) takeLeaving(uid uint32, n, left int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.used+n > q.all-left || q.by[uid]+n > q.perUID-left {
		return refusal.New(refusal.OverLimit, "too many %s at once", q.what).WithHint("end some, or try again later")
	}
	q.used += n
	q.by[uid] += n
	return nil
}

// give returns what was taken.
func (q *quota) give(uid uint32, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= n
	if q.by[uid] -= n; q.by[uid] == 0 {
		delete(q.by, uid)
	}
}
