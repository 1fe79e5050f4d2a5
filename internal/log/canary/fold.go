package canary

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"gated/internal/log/audit"
)

// Take counts one entry of the log and returns the entries to write for it. If the
// entry was counted before, nothing changes.
func (s *State) Take(r Rules, back Back, e audit.Entry) []audit.Entry {
	if e.Seq <= s.Cursor {
		return nil
	}
	s.Cursor = e.Seq
	var out []audit.Entry
	if s.Paused.IsZero() {
		out = s.Pass(r, back, e.Time) // the window may have ended before this entry
	}
	switch e.Kind {
	case audit.Started, audit.Trusted, audit.Rotated:
		return append(out, s.learn(r, e)...)
	case audit.TimeAccepted, audit.LedgerLost:
		s.takenBack(e.Time)
		return out
	}
	d, counts := s.decision(e)
	if !counts || !s.Paused.IsZero() || s.over(r, d) {
		return out
	}
	s.Recent = keep(s.Recent, d, r.Decisions)
	if d.Sort.answers() {
		out = append(out, s.check(r, back, e.Time)...)
	}
	return out
}

// decision returns what an entry decided, if it counts.
func (s *State) decision(e audit.Entry) (d Decision, counts bool) {
	held, known := s.Steps[e.Step]
	switch e.Kind {
	case audit.Planned:
		s.track(e, false)
		return Decision{By: caller(e.By), Sort: Planned}, true
	case audit.Requested:
		if known { // the step was accepted first, so the caller is the same
			e.By = held.By
		}
		s.track(e, true)
		return Decision{By: caller(e.By), Sort: Pending}, true
	case audit.Approved, audit.Rejected, audit.Expired:
		return s.ended(e, held, known)
	case audit.Dispatched, audit.Cancelled, audit.Superseded:
		delete(s.Steps, e.Step)
		return d, false
	case audit.Refused:
		return s.refused(e, held)
	default:
		return d, false
	}
}

// ended returns how a request ended. If a step is approved again, after signatures
// that no longer counted, it counts as approved once.
func (s *State) ended(e audit.Entry, held step, known bool) (d Decision, counts bool) {
	if e.Kind == audit.Approved {
		if !known || !held.Waits {
			return d, false
		}
		held.Waits = false
		s.Steps[e.Step] = held
		return Decision{By: held.By, Sort: Approved, Wait: min(max(e.Time.Unix()-held.Since, 0), maxWait)}, true
	}
	delete(s.Steps, e.Step)
	return Decision{By: held.By, Sort: Denied}, known && held.Waits
}

// refused counts a refusal: once in an hour for one caller, one code and one thing.
// An entry that stands for many refusals does not count, because ten entries before
// it did. Refusals before the gate was asked, and of reservations, do not count
// either: policy, trust and signatures do not decide them.
func (s *State) refused(e audit.Entry, held step) (d Decision, counts bool) {
	d = Decision{By: caller(e.By), Sort: Refused}
	if e.By == byGate && e.Step != "" { // a step that may not run after all
		delete(s.Steps, e.Step)
		if held.By != "" {
			d.By = held.By
		}
	}
	if e.Count > 0 || elsewhere(e.Op) {
		return d, false
	}
	hour := e.Time.Unix() / 3600
	if hour != s.Hour || s.Seen == nil {
		s.Hour, s.Seen = hour, map[string]bool{}
	}
	h := fnv.New64a()
	for _, part := range []string{d.By, string(e.Code), e.Op, e.Target, e.Step} {
		fmt.Fprintf(h, "%d:%s,", len(part), part)
	}
	key := fmt.Sprintf("%016x", h.Sum64())
	if s.Seen[key] {
		return d, false
	}
	if len(s.Seen) < maxSeen {
		s.Seen[key] = true
	}
	return d, true
}

// byGate is the gate itself, which decides without a request.
const byGate = "gate"

// elsewhere reports whether a refused request line is not about jobs or requests:
// "POST /v1/reservations".
func elsewhere(what string) bool {
	_, path, line := strings.Cut(what, " /")
	return line && !strings.HasPrefix(path, "v1/jobs") && !strings.HasPrefix(path, "v1/requests")
}

// track remembers which caller asked for a step and when. If there is no room, it
// drops the oldest step.
func (s *State) track(e audit.Entry, waits bool) {
	if e.Step == "" {
		return
	}
	if s.Steps == nil {
		s.Steps = map[string]step{}
	}
	s.Steps[e.Step] = step{By: caller(e.By), Since: e.Time.Unix(), Waits: waits}
	for len(s.Steps) > maxSteps {
		oldest := e.Step
		for id, o := range s.Steps {
			if since := s.Steps[oldest].Since; o.Since < since || o.Since == since && id < oldest {
				oldest = id
			}
		}
		delete(s.Steps, oldest)
	}
}

// keep adds a decision, and keeps at most that many answers and as many other
// decisions. It drops the oldest one. If one caller has more than half, it drops
// that caller's oldest, so that no caller pushes out the others.
func keep(list []Decision, d Decision, most int) []Decision {
	list = append(list, d)
	all, own := share(list, d)
	for ; all > most; all-- {
		mine := 2*own > most
		i := slices.IndexFunc(list, func(o Decision) bool { return o.Sort.answers() == d.Sort.answers() && (!mine || o.By == d.By) })
		if list[i].By == d.By {
			own--
		}
		list = slices.Delete(list, i, i+1)
	}
	return list
}

// share counts the decisions that are answers, or are not, as d is: of all callers,
// and of d's caller.
func share(list []Decision, d Decision) (all, own int) {
	for _, o := range list {
		if o.Sort.answers() != d.Sort.answers() {
			continue
		}
		all++
		if o.By == d.By {
			own++
		}
	}
	return all, own
}

// over reports whether a caller has half of the window already, and had less than
// half of the answers before. The rest of the window is for others.
func (s *State) over(r Rules, d Decision) bool {
	if s.Watch == nil || s.Watch.Verdict != "" {
		return false
	}
	if _, own := share(s.Recent, d); own < s.size(r)/2 {
		return false
	}
	_, before := share(s.Watch.Base, Decision{By: d.By, Sort: Planned})
	return 2*before < s.Watch.Before
}

// size returns how many answers the window has: as many as before the change, and at
// least twice the minimum.
func (s *State) size(r Rules) int { return min(r.Decisions, max(s.Watch.Before, 2*r.Minimum)) }
