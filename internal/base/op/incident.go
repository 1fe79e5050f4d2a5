package op

// KindIncident is the kind of the break-glass approvals that no operator has reviewed. It
// has one target.
const KindIncident = "incident"

// Review is the only operation of its kind. It says that an operator looked at what
// break-glass signatures approved.
const Review = "incident.review"

// Incidents is the one target of its kind: the incidents that are open.
var Incidents = Target{Kind: KindIncident, Name: "open"}

func incidentRows() []Spec {
	return []Spec{{Name: Review, Kind: KindIncident,
		Doc:    "close the open incidents of break-glass, after a look at them: open is the only target",
		Takes:  "nothing; the health of the gate is no longer bad because of them",
		Roles:  []Role{Operational},
		Covers: "each break-glass step that has ended and was not reviewed, with how it ended",
		Rules:  []Rule{{Name: "incident-review", Class: Destructive, Why: say("it says that an operator looked at what was done by break-glass")}},
		// The step that made the newest review tells this one from another.
		Shows: func(s Step, o Observed) Evidence { return shows(o.Spec.Str("reviewed_by") == s.ID.String()) },
		Done:  "reviewed"}}
}
