package api

import (
	"slices"

	"gated/internal/base/refusal"
)

// MaxWait is the longest wait for a job in one call, in seconds.
const MaxWait = 45

// Until says for what a caller waits.
type Until string

// For what a caller waits. A job that has ended ends each wait.
const (
	UntilEnded   Until = "ended"             // no step is open
	UntilPending Until = "pending_signature" // a step waits for a signature
	UntilDecided Until = "decided"           // no step waits for a signature
)

// Untils are all of them.
var Untils = []Until{UntilEnded, UntilPending, UntilDecided}

// Check refuses an unknown one as Malformed.
func (u Until) Check() error {
	if slices.Contains(Untils, u) {
		return nil
	}
	return refusal.New(refusal.Malformed, "%.40q is nothing to wait for", string(u)).WithHint("until is one of %v", Untils)
}

// Met reports whether the wait is over for a job that stands like this.
func (u Until) Met(j Job) bool {
	switch {
	case !j.State.Open():
		return true
	case u == UntilPending:
		return j.Pending()
	case u == UntilDecided:
		return !j.Pending()
	}
	return false
}

// Pending reports whether a step of the job waits for a signature, be it the first unfinished one or not.
func (j Job) Pending() bool {
	return slices.ContainsFunc(j.Steps, func(s Step) bool { return s.State == StatePending })
}
