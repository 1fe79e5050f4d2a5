package api

import (
	"time"
)

// Error says why a job or step ended as it did, or what it waits for.
type Error struct {
	Code   Code   `json:"code"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"` // what to do; may be empty
}

// Err returns the error as a refusal, nil for nil.
func (e *Error) Err() error {
	if e == nil {
		return nil
	}
	return &Refusal{Code: e.Code, Detail: e.Detail, Hint: e.Hint}
}

// Job is an ordered list of steps.
type Job struct {
	ID          string     `json:"id"`    // j12
	State       State      `json:"state"` // of its first unfinished step
	Steps       []Step     `json:"steps"`
	RequestedBy []string   `json:"requested_by"` // uid:1000, desired:web, gate
	Users       Users      `json:"users"`        // of RequestedBy
	Reason      string     `json:"reason"`       // the first requester's
	Reasons     []Reason   `json:"reasons"`      // of each requester
	CreatedAt   time.Time  `json:"created_at"`
	FinishedAt  *time.Time `json:"finished_at"` // null while a step is open

	// Request is the first request that waits. Error says what the job waits for, or why it failed. Each may be null.
	Request *string `json:"request"`
	Error   *Error  `json:"error"`
}

// Step is one operation on one target.
type Step struct {
	ID          string      `json:"id"` // j12.1
	Op          string      `json:"op"`
	Target      string      `json:"target"`
	Incarnation Incarnation `json:"incarnation"`
	Params      Params      `json:"params"`
	State       State       `json:"state"`
	Class       Class       `json:"class"`
	Rule        string      `json:"rule"`
	Why         string      `json:"why"`
	Undoes      int         `json:"undoes"`             // the number of the step that this one takes back, or 0
	Attempts    int         `json:"attempts"`           // how often a benign step was dispatched
	Detail      string      `json:"detail"`             // what was done, for people
	Output      string      `json:"output,omitempty"`   // what it printed; in the answer about one job alone
	Request     *string     `json:"request"`            // of a destructive step
	RetryAt     *time.Time  `json:"retry_at,omitempty"` // next try of an open step that could not run
	Error       *Error      `json:"error"`
	UpdatedAt   *time.Time  `json:"updated_at"`
}
