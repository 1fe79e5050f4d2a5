package daemon

import (
	"fmt"
	"time"

	"gated/client/api"
	"gated/internal/log/journal"
)

// drillHealth says whether the newest signed drill is too old; nothing if drills are not watched.
func (d *daemon) drillHealth(all journal.Drills) []api.Health {
	older := d.config.Monitor.DrillOlder
	if older == 0 {
		return nil
	}
	h := api.Health{Name: "drill"}
	switch last := all.Signed; {
	case last == nil:
		h.Detail = "no drill was signed yet: gated drill"
	case d.gate.Moment().Now.Sub(last.Ended) > older:
		h.Detail = fmt.Sprintf("the newest one that was signed is from %s, more than %s ago: gated drill", last.Ended.UTC().Format(time.RFC3339), older)
	default:
		h.OK, h.Detail = true, "the newest one that was signed is from "+last.Ended.UTC().Format(time.RFC3339)
	}
	return []api.Health{h}
}

// alertsOlder is the age of the last signed drill above which alert rules warn if the configuration says nothing.
const alertsOlder = 90 * 24 * time.Hour

// drillOlder is the age of the last signed drill above which alert rules warn; 0 if they do not.
func (d *daemon) drillOlder(all journal.Drills) time.Duration {
	if older := d.config.Monitor.DrillOlder; older > 0 || all.Signed == nil {
		return older
	}
	return alertsOlder
}

// drillOf puts a drill on the wire, nil for none.
func drillOf(d *journal.DrillRecord) *api.Drill {
	if d == nil {
		return nil
	}
	out := &api.Drill{Request: d.Step.ID.String(), As: d.Step.Params.Str("as"), Target: d.Step.Params.Str("target"), State: d.Step.State,
		RequestedBy: []string{}, AskedAt: d.Asked.UTC(), Seconds: d.Took().Seconds(), SignedBy: []string{}}
	for _, r := range d.Requesters {
		out.RequestedBy = append(out.RequestedBy, r.String())
	}
	if !d.Ended.IsZero() {
		at := d.Ended.UTC()
		out.EndedAt = &at
	}
	for _, s := range d.Signed {
		out.SignedBy = append(out.SignedBy, s.Principal)
	}
	return out
}
