package op

func scopeRows() []Spec {
	rules := []Rule{{Name: "takes-reservations", Class: Destructive,
		Why: say("it takes reservations from agents that may be at work on these paths")}}
	roles := []Role{Operational, Coordination}
	return []Spec{
		{Name: ForceTransfer, Kind: KindScope, Doc: "give an agent's reservation to another agent", Params: []Param{
			{Name: "reservation", Type: TString, Required: true, Doc: "its id, r12"},
			{Name: "to", Type: TString, Required: true, Doc: "a registered agent's name"}},
			Takes: "a reservation from the agent that holds it",
			Roles: roles, Partial: true, Rules: rules, Shows: lastOfScope,
			Covers: "the one reservation: id, patterns, mode and holder; and which registration gets it"},
		{Name: ReleaseAll, Kind: KindScope, Doc: "release every reservation of a scope, whoever holds it",
			Takes: "every reservation of the scope from its holder",
			Roles: roles, Rules: rules, Shows: lastOfScope,
			Covers: "every reservation in force of the scope: id, patterns, mode and holder"},
	}
}

// lastOfScope compares the step with the last one that took reservations of the
// scope. The reservations themselves cannot tell, because agents may have released
// them and made new ones. The scope stores that step in the same transaction.
func lastOfScope(s Step, o Observed) Evidence {
	return shows(o.Spec.Str("last_step") == s.ID.String())
}
