package api

import "time"

// FleetRequest is a request that waits for signatures, in the words of a gate's report to a hub. It is enough to choose
// what to look at. Nothing is signed because of it: the gate itself has the payload and the facts.
type FleetRequest struct {
	Request       string    `json:"request"` // j12.1
	Op            string    `json:"op"`
	Target        string    `json:"target"`
	Reason        string    `json:"reason"`       // the first requester's, cut after 200 bytes
	RequestedBy   string    `json:"requested_by"` // uid:1000,agent:builder#7, cut after 200 bytes
	CreatedAt     time.Time `json:"created_at"`
	ExpiresAt     time.Time `json:"expires_at"`     // of the payload; the request continues with a new one
	Missing       int       `json:"missing"`        // how many people still have to sign
	PayloadSHA256 string    `json:"payload_sha256"` // in hex
}

// FleetRow is one line of a hub's queue: what waits at which gate, as the hub says.
type FleetRow struct {
	Host       string    `json:"host"`
	Gate       GateID    `json:"gate"`
	ReportedAt time.Time `json:"reported_at"` // when the host's last report arrived, by the hub's clock
	FleetRequest
}

// FleetQueue is one page of what waits at all gates of a hub, the oldest request first.
type FleetQueue struct {
	Requests []FleetRow `json:"requests"`
	Next     string     `json:"next"`     // continues after the last row; empty at the end
	Waiting  int64      `json:"waiting"`  // rows of all pages
	LeftOut  int64      `json:"left_out"` // further requests that reports left out, over all hosts
}
