package evidence

import (
	"cmp"
	"slices"
	"time"

	"gated/internal/base/op"
	"gated/internal/base/store"
	"gated/internal/log/archive"
	"gated/internal/log/audit"
)

// scanPage is how many entries are read at once.
const scanPage = 500

// history is what the log says of steps.
type history struct {
	steps map[op.StepID][]audit.Entry
	lists []audit.Entry // those that name rules in force: started, trusted and rotated
}

// begins lists the kinds of the first entry of a step.
var begins = map[audit.Kind]bool{audit.Planned: true, audit.Requested: true, audit.Compensated: true}

// ends lists the kinds that end a step of which there is evidence.
var ends = map[audit.Kind]bool{audit.Succeeded: true, audit.Failed: true, audit.Interrupted: true, audit.Rejected: true, audit.Refused: true}

// end returns the entry that ended a step.
func end(entries []audit.Entry) (audit.Entry, bool) {
	for _, e := range slices.Backward(entries) {
		if ends[e.Kind] {
			return e, true
		}
	}
	return audit.Entry{}, false
}

// scan reads the log. Entries that are archived are read only if archived is set; if a file of them is missing, that is audit.NotAtHand.
func scan(tx *store.Tx, dir *archive.Dir, archived bool, wants func(op.StepID) bool) (h history, err error) {
	h.steps = map[op.StepID][]audit.Entry{}
	if archived {
		err = h.segments(tx, dir, wants)
	} else {
		var kept []audit.Entry
		kept, err = audit.KeptEntries(tx)
		for _, e := range kept {
			h.learn(e, wants)
		}
	}
	if err != nil {
		return h, err
	}
	bound, err := audit.Bound(tx)
	if err != nil {
		return h, err
	}
	for after := bound.Seq; ; {
		page, err := audit.After(tx, after, scanPage)
		if err != nil || len(page) == 0 {
			return h, err
		}
		for _, e := range page {
			h.learn(e, wants)
		}
		after = page[len(page)-1].Seq
	}
}

func (h history) hasWhole(id op.StepID) bool {
	entries := h.steps[id]
	return len(entries) > 0 && begins[entries[0].Kind]
}

func (h *history) segments(tx *store.Tx, dir *archive.Dir, wants func(op.StepID) bool) error {
	bound, err := audit.Bound(tx)
	if err != nil {
		return err
	}
	all, err := audit.Segments(tx)
	if err != nil {
		return err
	}
	for _, s := range all {
		texts, err := dir.Texts(s)
		if err != nil {
			return err
		}
		for _, text := range texts {
			e, err := audit.Decode(text)
			if err != nil {
				return err
			}
			if e.Seq <= bound.Seq {
				h.learn(e, wants)
			}
		}
	}
	return nil
}

func (h *history) learn(e audit.Entry, wants func(op.StepID) bool) {
	switch e.Kind {
	case audit.Started, audit.Trusted, audit.Rotated:
		h.lists = append(h.lists, e)
	}
	if e.Step == "" || e.Kind == audit.Rotated || e.Kind == audit.Refused && e.Class == "" {
		return
	}
	if id, err := op.ParseStepID(e.Step); err == nil && wants(id) {
		h.steps[id] = append(h.steps[id], e)
	}
}

// within reports whether a time is from since on and before until; a zero time is no bound.
func within(t, since, until time.Time) bool {
	return (since.IsZero() || !t.Before(since)) && (until.IsZero() || t.Before(until))
}

// ended returns the steps that ended between two times, in the order of their numbers.
func (h history) ended(since, until time.Time) []op.StepID {
	var out []op.StepID
	for id, entries := range h.steps {
		if e, ok := end(entries); ok && within(e.Time, since, until) {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b op.StepID) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index)) })
	return out
}
