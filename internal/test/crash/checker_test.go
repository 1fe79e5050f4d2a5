package crash

import (
	"fmt"
	"slices"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/log/audit"
)

// entry is what the checker reads of an audit entry.
type entry struct {
	Seq         int64          `json:"seq"`
	Kind        string         `json:"kind"`
	Step        string         `json:"step"`
	Op          string         `json:"op"`
	Class       op.Class       `json:"class"`
	Incarnation op.Incarnation `json:"incarnation"`
}

// replay is what an audit log says so far: no destructive step is dispatched
// without an approval, nor twice, and none goes on after its end.
type replay struct {
	seq        int64 // of the newest entry
	approved   map[string]bool
	dispatched map[string]bool // destructive ones
	ended      map[string]bool
	places     map[op.Incarnation]place // where it leaves each incarnation that it says was made
	destroying map[op.Incarnation]bool  // of which a destroy began
	kinds      map[string]int
	archives   bool // its first entries may be in segments
}

func newReplay() *replay {
	return &replay{approved: map[string]bool{}, dispatched: map[string]bool{}, ended: map[string]bool{}, places: map[op.Incarnation]place{},
		destroying: map[op.Incarnation]bool{}, kinds: map[string]int{}}
}

// add takes the next entry and says what is wrong with it.
func (r *replay) add(e entry) (wrong []string) {
	if r.archives && r.seq == 0 && (e.Seq-1)%audit.TileWidth == 0 {
		r.seq = e.Seq - 1
	}
	if r.seq++; e.Seq != r.seq {
		return []string{fmt.Sprintf("entry %d has the number %d", r.seq, e.Seq)}
	}
	r.kinds[e.Kind]++
	switch e.Kind {
	case "approved":
		r.approved[e.Step] = true
	case "succeeded", "failed", "interrupted":
		r.ended[e.Step] = true
		r.move(e)
	case "dispatched":
		if r.ended[e.Step] {
			wrong = append(wrong, e.Step+" was dispatched after its end")
		}
		if e.Op == "guest.destroy" {
			r.destroying[e.Incarnation] = true
		}
		if e.Class != op.Destructive {
			return wrong
		}
		if r.dispatched[e.Step] {
			wrong = append(wrong, e.Step+" is destructive and was dispatched twice")
		}
		if r.dispatched[e.Step] = true; !r.approved[e.Step] {
			wrong = append(wrong, e.Step+" is destructive and was dispatched unsigned")
		}
	}
	return wrong
}

// move keeps where the end of a step leaves what it was about.
func (r *replay) move(e entry) {
	switch {
	case e.Kind != "succeeded" && (e.Op == "guest.destroy" || e.Op == "guest.undelete"):
		if e.Incarnation != "" {
			r.places[e.Incarnation] = unknown
		}
	case e.Kind != "succeeded":
	case e.Op == "guest.create" || e.Op == "guest.undelete":
		r.places[e.Incarnation] = live
	case e.Op == "guest.destroy":
		r.places[e.Incarnation] = trashed
	}
}

// replayed is what a whole log says, and what is wrong with it.
func replayed(log []entry) (r *replay, wrong []string) {
	r = newReplay()
	for _, e := range log {
		wrong = append(wrong, r.add(e)...)
	}
	return r, wrong
}

// place is where an incarnation is, by the log or by a look.
type place int

const (
	unknown place = iota // the log cannot tell: a step on it was interrupted or failed
	live
	trashed
	gone
)

func (p place) String() string { return []string{"unknown", "live", "in the trash", "gone"}[p] }

// seen is what a look finds of an incarnation.
type seen struct {
	place
	digest string // of its files, where it is there
}

// checkGuests compares each guest whose files are known with the log: it is
// whole where the log leaves it, or out of a trash that was emptied.
func checkGuests(owned map[op.Incarnation]possession, log *replay, look func(possession, op.Incarnation) seen) []string {
	var wrong []string
	for inc, p := range owned {
		s, want := look(p, inc), log.places[inc]
		if s.place != gone && s.digest != p.digest {
			wrong = append(wrong, fmt.Sprintf("%s (%s) is %s and not whole", p.name, inc, s.place))
		}
		switch {
		case s.place == want:
		case want == trashed && s.place == gone: // it was kept for its time
		case want == unknown && log.destroying[inc]:
		default:
			wrong = append(wrong, fmt.Sprintf("%s (%s) is %s; by the log it is %s", p.name, inc, s.place, want))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// checkJobs compares what was acknowledged with what is there: the same steps,
// and nothing that ended, or that was authorized, is open again.
func checkJobs(told, now map[string]api.Job) []string {
	var wrong []string
	for id, was := range told {
		is, ok := now[id]
		if !ok {
			wrong = append(wrong, id+" was acknowledged and is lost")
			continue
		}
		for i, s := range was.Steps {
			if i >= len(is.Steps) || is.Steps[i].Op != s.Op || is.Steps[i].Target != s.Target {
				wrong = append(wrong, s.ID+" was acknowledged and is another step")
				continue
			}
			after := is.Steps[i].State
			if !s.State.Open() && after != s.State {
				wrong = append(wrong, fmt.Sprintf("%s was told to be %s and is %s", s.ID, s.State, after))
			}
			if s.State == op.StateAuthorized && (after == op.StatePending || after == op.StatePlanned) {
				wrong = append(wrong, fmt.Sprintf("%s was told to be authorized and is %s", s.ID, after))
			}
		}
	}
	slices.Sort(wrong)
	return wrong
}

// checkProcesses compares the guests' processes with what status says runs.
func checkProcesses(running map[int]op.Incarnation, guests []api.Guest) []string {
	var wrong []string
	allowed := map[op.Incarnation]bool{}
	for _, g := range guests {
		allowed[g.Incarnation] = g.State == "running"
	}
	has := map[op.Incarnation]bool{}
	for pid, inc := range running {
		if has[inc] = true; !allowed[inc] {
			wrong = append(wrong, fmt.Sprintf("process %d of %q runs, and status knows of none", pid, inc))
		}
	}
	for _, g := range guests {
		if g.State == "running" && !has[g.Incarnation] {
			wrong = append(wrong, g.Name+" is said to run and has no process")
		}
	}
	slices.Sort(wrong)
	return wrong
}

// checkReplay says what is wrong with the answer to an approval that was
// accepted before.
func checkReplay(request string, err error) []string {
	ends := []refusal.Code{refusal.Replayed, refusal.Rejected, refusal.Cancelled, refusal.Superseded, refusal.Expired}
	if err == nil {
		return []string{"an approval of " + request + " was accepted twice"}
	}
	if !slices.Contains(ends, refusal.CodeOf(err)) {
		return []string{fmt.Sprintf("a replay for %s got %v", request, err)}
	}
	return nil
}
