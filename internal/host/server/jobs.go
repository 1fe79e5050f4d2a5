package server

import (
	"net/http"
	"slices"
	"strconv"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/wire/convert"
)

// The sizes of a page of a list.
const (
	pageDefault = 100
	pageMax     = 1000 // of the audit log
	jobsMax     = 500
	requestsMax = 500
	guestsMax   = 1000
)

// pageBytes is about how much one page of a list holds. The page ends with the element that reaches it, so each page
// has at least one.
const pageBytes = 512 << 10

// jobsExamined is how many jobs one call reads while it searches for those of a closed state: perhaps one in a million
// has it.
const jobsExamined = 1000

// maxKey is the longest Idempotency-Key in bytes.
const maxKey = 255

func (s *Server) submit(c *call) (answer, error) {
	var in api.Submit
	if err := s.decode(c, &in); err != nil {
		return answer{}, err
	}
	asks, err := convert.Asks(in)
	if err != nil {
		return answer{}, ownRefusal(err)
	}
	key, err := idempotencyKey(c.r.Header)
	if err != nil {
		return answer{}, err
	}
	job, err := s.Gate.Submit(c.ctx, op.Submission{Requester: c.by, Reason: in.Reason, Steps: asks, IdempotencyKey: key})
	return answer{status: http.StatusAccepted, value: convert.JobOf(job)}, err
}

// idempotencyKey returns the header's one value, "" if there is none.
func idempotencyKey(h http.Header) (string, error) {
	values := h.Values("Idempotency-Key")
	if len(values) == 0 {
		return "", nil
	}
	key := values[0]
	if len(values) > 1 || key == "" || len(key) > maxKey {
		err := refusal.New(refusal.Malformed, "Idempotency-Key is not one value of 1 to %d characters", maxKey)
		return "", ownRefusal(err)
	}
	for i := 0; i < len(key); i++ {
		if key[i] < 0x20 || key[i] > 0x7e {
			return "", ownRefusal(refusal.New(refusal.Malformed, "Idempotency-Key has a character that is not printable ASCII"))
		}
	}
	return key, nil
}

func (s *Server) jobs(c *call) (answer, error) {
	q := gate.JobFilter{Bytes: pageBytes}
	var err error
	if q.State, err = c.state(); err != nil {
		return answer{}, err
	}
	if q.Limit, err = c.limit(jobsMax); err != nil {
		return answer{}, err
	}
	if text := c.query.Get("after"); text != "" {
		if q.After, err = op.ParseJobID(text); err != nil {
			return answer{}, ownRefusal(err)
		}
	}
	if q.State != "" && !q.State.Open() {
		q.Through = q.After + jobsExamined
	}
	jobs, err := s.Gate.Jobs(c.ctx, q)
	if err != nil {
		return answer{}, err
	}
	out := api.JobList{}
	for _, j := range jobs {
		out.Jobs = append(out.Jobs, convert.JobOf(j))
	}
	out.Next, err = s.next(c, q, jobs)
	return ok(out), err
}

// next returns the job after which the list continues, nil at its end. The list may continue even if no examined job
// matched.
func (s *Server) next(c *call, q gate.JobFilter, jobs []op.Job) (*string, error) {
	var last op.JobID
	switch {
	case len(jobs) == q.Limit, weightOf(jobs) >= q.Bytes:
		last = jobs[len(jobs)-1].ID
	case q.Through == 0:
		return nil, nil
	default:
		more, err := s.Gate.Jobs(c.ctx, gate.JobFilter{After: q.Through, Limit: 1})
		if err != nil || len(more) == 0 {
			return nil, err
		}
		last = more[0].ID - 1
	}
	text := last.String()
	return &text, nil
}

func weightOf[T interface{ Weight() int }](page []T) (n int) {
	for _, v := range page {
		n += v.Weight()
	}
	return n
}

func (s *Server) cancel(c *call) (answer, error) {
	id, err := op.ParseJobID(c.r.PathValue("id"))
	if err != nil {
		return answer{}, ownRefusal(err)
	}
	job, err := s.Gate.Cancel(c.ctx, c.by, id)
	return ok(convert.JobOf(job)), err
}

func (s *Server) classify(c *call) (answer, error) {
	var in api.Ask
	if err := s.decode(c, &in); err != nil {
		return answer{}, err
	}
	ask, err := convert.Ask(in)
	if err != nil {
		return answer{}, ownRefusal(err)
	}
	step, facts, err := s.Gate.Explain(c.ctx, c.by, ask)
	return ok(convert.ExplanationOf(step, facts)), err
}

// state reads the parameter with that name, "" if it is missing.
func (c *call) state() (op.State, error) {
	st := op.State(c.query.Get("state"))
	if c.query.Has("state") && !slices.Contains(op.States, st) {
		return "", ownRefusal(refusal.New(refusal.Malformed, "%q is not a state", clip(string(st))).
			WithHint("the states are %v", op.States))
	}
	return st, nil
}

// limit reads the parameter limit, pageDefault if it is missing.
func (c *call) limit(most int) (int, error) {
	if !c.query.Has("limit") {
		return pageDefault, nil
	}
	n, err := strconv.Atoi(c.query.Get("limit"))
	if err != nil || n < 1 || n > most {
		return 0, ownRefusal(refusal.New(refusal.Malformed, "limit is not a number from 1 to %d", most))
	}
	return n, nil
}

// after reads the parameter with an entry's number, 0 if it is missing.
func (c *call) after() (int64, error) {
	if !c.query.Has("after") {
		return 0, nil
	}
	return entryNumber("after", c.query.Get("after"))
}

func entryNumber(what, text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, ownRefusal(refusal.New(refusal.Malformed, "%s is not the number of an entry", what))
	}
	return n, nil
}
