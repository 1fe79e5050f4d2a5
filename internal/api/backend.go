package api

import "time"

// Backend is one back end of the gate: what guards a sort of targets.
type Backend struct {
	Name      string     `json:"name"`       // "local"
	Kind      string     `json:"kind"`       // of its targets: "guest"
	State     string     `json:"state"`      // BackendOK or BackendAway
	Detail    string     `json:"detail"`     // why it is away
	Since     *time.Time `json:"since"`      // since when it is in that state; null where nobody watches it
	Version   string     `json:"version"`    // empty where it says none
	Guests    int        `json:"guests"`     // as many as it had when it was listed last
	NewGuests bool       `json:"new_guests"` // guests are made in it
	Findings  []Finding  `json:"findings"`   // of its last check
	CheckedAt time.Time  `json:"checked_at"` // when that began
}

// The states of a back end.
const (
	BackendOK   = "ok"
	BackendAway = "away" // its targets are unknown, and nothing is planned for them
)

// Finding is one thing that a back end found out about itself.
type Finding struct {
	What   string `json:"what"`  // "reachable", "version"
	State  string `json:"state"` // ok, note (works, and somebody should know) or bad
	Detail string `json:"detail"`
	Hint   string `json:"hint"` // what to do; empty where there is nothing to do
}
