package fsck

import (
	"slices"
	"time"

	"gated/internal/base/op"
	"gated/internal/log/audit"
)

// IncidentsSchema is the number of the daemon's first schema with the table of
// incidents. With an older program, breakglass was a role like any other.
const IncidentsSchema = 20

// incident is a break-glass approval in the log.
type incident struct {
	at       time.Time
	seq      int64
	reviewed string // the step that closed it; empty if it is open
	kept     bool   // by a program that keeps incidents
}

// breakGlass follows the incidents of break-glass.
func (h *history) breakGlass(id op.StepID, e audit.Entry) {
	if e.Kind == audit.Approved && slices.ContainsFunc(e.Signers, byBreakGlassKey) {
		h.incidents[id] = incident{at: e.Time, seq: e.Seq, kept: h.schema >= IncidentsSchema}
	}
	if e.Kind != audit.Reviewed {
		return
	}
	for _, text := range e.Incidents {
		if closed, err := op.ParseStepID(text); err == nil {
			in := h.incidents[closed]
			in.reviewed = e.Step
			h.incidents[closed] = in
		}
	}
}

func byBreakGlassKey(words string) bool {
	_, role := op.WhoSigned(words)
	return role == op.BreakGlass
}

// incidents checks that the incidents are those of the log, and open as long as there.
func (c *check) incidents() error {
	var id op.StepID
	var at int64
	var by string
	seen := map[op.StepID]bool{}
	err := c.rows("incidents", `SELECT job, idx, at, reviewed_by FROM incidents`, []any{&id.Job, &id.Index, &at, &by}, func() {
		seen[id] = true
		in, known := c.log.incidents[id]
		switch {
		case !known || in.at.IsZero():
			c.found(incidentUnknown, id.String(), "the audit log does not contain that break-glass approved it")
		case in.reviewed != by || !c.near(no{at: in.at, seq: in.seq}, time.Unix(0, at)):
			c.found(incidentChanged, id.String(), "the audit log has another time or another review of its incident")
		}
	})
	if err != nil {
		return err
	}
	for _, id := range stepsOf(c.log.incidents) {
		if !seen[id] && c.log.incidents[id].kept {
			c.found(incidentLost, id.String(), "break-glass approved it by the audit log, and it is no incident")
		}
	}
	return nil
}
