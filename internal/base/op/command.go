package op

// KindCommand is the kind of the commands in the operator's catalogue.
const KindCommand = "command"

// Run is the only operation on commands.
const Run = "command.run"

func commandRows() []Spec {
	return []Spec{{Name: Run, Kind: KindCommand, Free: true, Partial: true, Once: true, Unseen: true,
		Doc:   "run an entry of the operator's catalogue of commands",
		Takes: "whatever the command takes",
		Roles: []Role{Operational}, Covers: "the program's content, its arguments and environment, and what its probe printed",
		Rules: []Rule{
			{Name: "command-benign", Class: Benign, When: func(c Case) bool { return c.Harmless },
				Why: say("the operator's catalogue says that this command loses nothing")},
			{Name: "command", Class: Destructive, Why: say("only the operator knows what the command loses")},
		},
		Done: "ran"}}
}
