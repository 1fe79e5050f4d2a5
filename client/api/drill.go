package api

import "time"

// Drills has the newest drills of a gate: requests for a signature over an operation that changes nothing.
type Drills struct {
	Open       *Drill `json:"open"`       // null if none is open
	Signed     *Drill `json:"signed"`     // the newest one that was signed and is over; null if there is none
	Unanswered *Drill `json:"unanswered"` // the newest one that ended in another way; null if there is none
	TooOld     bool   `json:"too_old"`    // monitor.drill_older is set, and no signed drill is newer
}

// Drill is how one drill went.
type Drill struct {
	Request     string     `json:"request"` // j12.1
	As          string     `json:"as"`      // the operation that it rehearses
	Target      string     `json:"target"`  // at which; empty if the drill names none
	State       State      `json:"state"`
	RequestedBy []string   `json:"requested_by"`
	AskedAt     time.Time  `json:"asked_at"`
	EndedAt     *time.Time `json:"ended_at"`  // the last needed signature, or the end without; null while it waits for one
	Seconds     float64    `json:"seconds"`   // from the request until then; 0 while it waits
	SignedBy    []string   `json:"signed_by"` // the people whose signatures count, in their order
}
