package canary

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gated/internal/log/audit"
)

// Back says, in words for people, how to undo a change.
type Back func(was, is Identity) string

// learn stores what an entry says about policy, trust and version. If that is a
// change, it begins to watch.
func (s *State) learn(r Rules, e audit.Entry) []audit.Entry {
	was := s.Known
	s.Known = learned(was, e)
	if e.Kind == audit.Started {
		if e.Version != "" && was.Version == "" && s.Started {
			was.Version = unnamed // the log has starts from before entries named the version
		}
		s.Started = true
	}
	changed := was.Changed(s.Known)
	if len(changed) == 0 {
		return nil
	}
	if !s.Watch.Open() {
		return s.begin(r, e, was, s.Recent)
	}
	return s.again(r, e)
}

// unnamed stands for a version that the log does not name.
const unnamed = "an older gated"

func learned(known Identity, e audit.Entry) Identity {
	if e.Policy != "" { // such an entry has both
		known.Policy, known.Revoked = e.Policy, e.Revoked
	}
	if f := e.SignersFile; f.SHA256 != "" && !e.Edited {
		known.Signers, known.Epoch = f.SHA256, f.Epoch
	}
	if e.Version != "" {
		known.Version, known.Schema = e.Version, e.Schema
	}
	return known
}

// again handles a change while a canary is open. The comparison stays with the
// decisions before the first change, because only those are known to be good.
func (s *State) again(r Rules, e audit.Entry) []audit.Entry {
	w := *s.Watch
	changed := w.Was.Changed(s.Known)
	if len(changed) == 0 {
		s.Recent = slices.Clone(w.Base) // the gate decides as before again
		return s.end(e.Time, fmt.Sprintf("entry %d takes the change back", e.Seq))
	}
	if w.Verdict == "" && Answers(s.Recent) == 0 { // one change in several entries
		s.Watch.Changed, s.Watch.Is = changed, s.Known
		return nil
	}
	out := s.end(e.Time, fmt.Sprintf("entry %d is another change, and is watched in its place", e.Seq))
	return append(out, s.begin(r, e, w.Was, w.Base)...)
}

// begin begins to watch the decisions after an entry.
func (s *State) begin(r Rules, e audit.Entry, was Identity, base []Decision) []audit.Entry {
	w := Watch{Change: e.Seq, At: e.Time, Changed: was.Changed(s.Known), Was: was, Is: s.Known, Base: slices.Clone(base), Before: Answers(base),
		Until: e.Time.Add(time.Duration(r.Days) * 24 * time.Hour)}
	s.Watch, s.Recent = &w, nil
	if w.Before < r.Minimum {
		return s.verdict(Expired, e.Time, fmt.Sprintf("%d decisions before the change are too few to compare with, %d would do", w.Before, r.Minimum))
	}
	return nil
}

// end ends an open canary: a watching one has expired, and an alert is over.
func (s *State) end(at time.Time, why string) []audit.Entry {
	w := s.Watch
	if w.Verdict == "" {
		return s.verdict(Expired, at, why)
	}
	w.Ended, w.End, w.Base = at, why, nil
	return []audit.Entry{{Kind: audit.Canary, By: byGate, Change: w.Change, Detail: "the alert ended: " + why}}
}

// verdict sets the canary's final verdict.
func (s *State) verdict(v Verdict, at time.Time, why string) []audit.Entry {
	w := s.Watch
	w.Verdict, w.Decided, w.Why = v, at, why
	detail := strings.Join(w.Changed, ", ") + " changed: " + why
	if w.Back != "" {
		detail += "; to go back: " + w.Back
	}
	if v != Alert {
		w.Base = nil
	}
	return []audit.Entry{{Kind: audit.Canary, By: byGate, Verdict: string(v), Change: w.Change, Detail: detail}}
}

// check compares at certain numbers of answers, so that the verdict does not depend
// on when Step runs.
func (s *State) check(r Rules, back Back, at time.Time) []audit.Entry {
	w := s.Watch
	if w == nil || w.Verdict != "" {
		return nil
	}
	n, size := Answers(s.Recent), s.size(r)
	if n < size && (n < r.Minimum || (n-r.Minimum)%max(size/checks, 1) != 0) {
		return nil
	}
	return s.judge(r, back, at, n >= size)
}

// Pass gives its verdict to a window that has ended. now is the gate's time while
// the gate trusts its clock.
func (s *State) Pass(r Rules, back Back, now time.Time) []audit.Entry {
	if w := s.Watch; w == nil || w.Verdict != "" || !now.After(w.Until) {
		return nil
	}
	return s.judge(r, back, s.Watch.Until, true)
}

// judge compares. At the end of the window it always gives a verdict.
func (s *State) judge(r Rules, back Back, at time.Time, last bool) []audit.Entry {
	w := s.Watch
	if out := found(w.Base, s.Recent, r); len(out) > 0 {
		texts := make([]string, len(out))
		for i, o := range out {
			texts[i] = o.text
		}
		w.Back = back(w.Was, s.Known)
		return s.verdict(Alert, at, strings.Join(texts, "; "))
	}
	n := Answers(s.Recent)
	switch {
	case !last:
		return nil
	case enough(w.Base, s.Recent, r):
		return s.verdict(Passed, at, fmt.Sprintf("of %d decisions nothing differs from %d before by more than %d points", n, w.Before, r.Floor))
	default:
		return s.verdict(Expired, at, fmt.Sprintf("%d decisions, %d before, are too few without any one caller, %d would do", n, w.Before, r.Minimum))
	}
}

// Pause says whether the gate trusts its clock from now on. While it does not, no
// decision counts, and the window keeps its remaining time. Pause reports whether
// that is new.
func (s *State) Pause(now time.Time, trusted bool) bool {
	switch {
	case !trusted && s.Paused.IsZero():
		s.Paused = now
	case trusted && !s.Paused.IsZero():
		s.takenBack(now)
		if w := s.Watch; w != nil && w.Verdict == "" {
			w.Until = w.Until.Add(max(now.Sub(s.Paused), 0))
		}
		s.Paused = time.Time{}
	default:
		return false
	}
	return true
}

// takenBack handles a clock that was ahead at the change and is right now. The
// canary then counts from now with the remaining time of its window, or all of it if
// the gate did not run in between. Otherwise the canary would stay open, and not be
// overdue, until the wrong time is reached.
func (s *State) takenBack(now time.Time) {
	if w := s.Watch; w.Open() && w.At.After(now) {
		left := w.Until.Sub(w.At)
		if !s.Paused.IsZero() {
			left = min(max(w.Until.Sub(s.Paused), 0), left)
		}
		w.At, w.Until = now, now.Add(left)
	}
	if s.Paused.After(now) {
		s.Paused = now
	}
}

// Accept ends the alert about a change after an operator checked it. It reports
// whether there was one.
func (s *State) Accept(now time.Time, by string, change int64) ([]audit.Entry, bool) {
	if s.Watch == nil || s.Watch.Verdict != Alert || !s.Watch.Ended.IsZero() || s.Watch.Change != change {
		return nil, false
	}
	out := s.end(now, "accepted by "+by)
	out[0].By = by
	return out, true
}

// Overdue reports whether the canary is open for so long that it is shown as a
// fault.
func (s *State) Overdue(now time.Time) bool {
	return s.Watch.Open() && now.Sub(s.Watch.At) >= MaxUnresolved
}
