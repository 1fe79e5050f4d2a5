package api

// Steering answers GET /v1/steering: for which commands of a shell a hook names a line of gated instead.
type Steering struct {
	Rules []SteeringRule `json:"rules"`
}

// SteeringRule is the commands for which one operation stands.
type SteeringRule struct {
	From      string   `json:"from"`       // a back end, or an entry of the catalogue: command/drop-db
	InsteadOf []string `json:"instead_of"` // patterns over words; one has to match
	Below     string   `json:"below"`      // the directory of the guests' directories, one of which the command has to name; or empty
	Op        string   `json:"op"`
	Name      string   `json:"name"`   // of the target; empty if the command says it, or nothing does
	Hole      string   `json:"hole"`   // that binds the name; empty if the command does not say it
	Params    []string `json:"params"` // that the operation needs; a hole of the same name binds each
}
