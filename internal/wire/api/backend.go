package api

import "time"

// Backend is one back end of the gate: the driver of a kind of targets.
type Backend struct {
	Name      string     `json:"name"`       // "local"
	Kind      string     `json:"kind"`       // of its targets: "guest"
	State     string     `json:"state"`      // BackendOK or BackendAway
	Detail    string     `json:"detail"`     // why it is away
	Since     *time.Time `json:"since"`      // the begin of that state; null if the state is not watched
	Version   string     `json:"version"`    // empty if it gives none
	Guests    int        `json:"guests"`     // at the last listing
	NewGuests bool       `json:"new_guests"` // new guests are made in it
	Findings  []Finding  `json:"findings"`   // of its last check
	CheckedAt time.Time  `json:"checked_at"` // when that check began
}

// The states of a back end.
const (
	BackendOK   = "ok"
	BackendAway = "away" // its targets are unknown, so nothing is planned for them
)

// Finding is one result of a back end's check of itself.
type Finding struct {
	What   string `json:"what"`  // "reachable", "version"
	State  string `json:"state"` // ok, note (works, but a person should know) or bad
	Detail string `json:"detail"`
	Hint   string `json:"hint"` // what to do; may be empty
}
