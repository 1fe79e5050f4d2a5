package api

import "time"

// Incident is a step that was approved with a break-glass signature, and that no operator has reviewed.
type Incident struct {
	Request    string    `json:"request"` // j12.1
	Op         string    `json:"op"`
	Target     string    `json:"target"`
	State      State     `json:"state"` // of the step; a review closes the incident once that is an end
	ApprovedAt time.Time `json:"approved_at"`
	SignedBy   []string  `json:"signed_by"` // the people whose signatures count, in their order
}
