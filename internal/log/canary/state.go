package canary

import (
	"strings"
	"time"
)

// Rules say how long a canary watches and what counts as a difference. All are above
// 0, Decisions is at least twice Minimum and at most 2000, and Floor is below 100.
type Rules struct {
	Decisions int // the most decisions of a window and of its baseline
	Days      int // the longest time of a window
	Minimum   int // with fewer decisions of a sort, the sort is not compared
	Floor     int // a difference of fewer percentage points is noise
}

// What else counts as a difference, beside Rules.Floor.
const (
	// errorsSquared is the square of the number of standard errors that two
	// proportions must differ by. Four are exceeded by chance once in 16,000
	// comparisons.
	errorsSquared = 16
	// slower is how much the median time to approve must differ, as a factor and in
	// seconds.
	slower        = 4
	slowerSeconds = 600
	// checks is how many times a window is compared before it is full.
	checks = 10
)

// The most that a State keeps.
const (
	maxSteps  = 1024 // open steps with their caller and time
	maxSeen   = 512  // refusals of one hour, so that repeats count once
	maxWait   = int64(MaxUnresolved / time.Second)
	maxCaller = 128 // bytes of a caller's name
)

// MaxUnresolved is how long after its change an open canary becomes a fault that is
// shown.
const MaxUnresolved = 30 * 24 * time.Hour

// Identity is the policy, trust and version of the gate's decisions. An empty member
// is not known. Only Revoked may be known and empty: it is known together with
// Policy, and empty without a revocation file.
type Identity struct {
	Policy  string `json:"policy,omitempty"`  // digest, as in the audit log
	Signers string `json:"signers,omitempty"` // digest of the allowed_signers file
	Epoch   int64  `json:"epoch,omitzero"`
	Revoked string `json:"revoked,omitempty"` // digest of the revocation file
	Version string `json:"version,omitempty"` // of the program
	Schema  int    `json:"schema,omitzero"`   // of the database
}

// Changed names what differs, in a fixed order: policy, trust, version. A member
// that is not known on one side does not differ. A list of signers is compared by
// its content, not by its epoch.
func (i Identity) Changed(to Identity) []string {
	var out []string
	differs := func(a, b string) bool { return a != "" && b != "" && a != b }
	if differs(i.Policy, to.Policy) {
		out = append(out, "policy")
	}
	if differs(i.Signers, to.Signers) || i.Policy != "" && to.Policy != "" && i.Revoked != to.Revoked {
		out = append(out, "trust")
	}
	if differs(i.Version, to.Version) || i.Schema != 0 && to.Schema != 0 && i.Schema != to.Schema {
		out = append(out, "version")
	}
	return out
}

// Sort says what was decided.
type Sort string

// The sorts. The first three are answers to callers. The others are how a request
// for a signature ended.
const (
	Planned  Sort = "planned"  // accepted without a signature
	Pending  Sort = "pending"  // waits for a signature
	Refused  Sort = "refused"  // not accepted, or accepted and then not run
	Approved Sort = "approved" // it got all signatures
	Denied   Sort = "denied"   // an operator rejected it, or it expired
)

func (s Sort) answers() bool { return s == Planned || s == Pending || s == Refused }

// Decision is one decision of the gate that counts.
type Decision struct {
	By   string `json:"by"`
	Sort Sort   `json:"sort"`
	Wait int64  `json:"wait,omitzero"` // of Approved, seconds since the request
}

// step is an open step.
type step struct {
	By    string `json:"by"`
	Since int64  `json:"since"` // Unix seconds of the request
	Waits bool   `json:"waits,omitzero"`
}

// Verdict is the result of a canary; empty while it watches.
type Verdict string

// The verdicts.
const (
	Passed  Verdict = "passed"  // no difference is more than noise
	Alert   Verdict = "alert"   // a difference is more than noise
	Expired Verdict = "expired" // there was not enough to compare
)

// Watch is one canary. While it watches, and while its alert is open, it has the
// decisions before the change.
type Watch struct {
	Change  int64      `json:"change"`  // number of the entry that changed something
	At      time.Time  `json:"at"`      // time of that entry
	Changed []string   `json:"changed"` // policy, trust, version
	Was     Identity   `json:"was"`     // before the change
	Is      Identity   `json:"is"`      // since the change
	Base    []Decision `json:"base,omitempty"`
	Before  int        `json:"before"` // answers in Base, even after Base is dropped
	Until   time.Time  `json:"until"`  // the latest end of the window
	Verdict Verdict    `json:"verdict,omitempty"`
	Decided time.Time  `json:"decided,omitzero"`
	Why     string     `json:"why,omitempty"`  // a sentence
	Back    string     `json:"back,omitempty"` // of an alert, how to undo the change
	Ended   time.Time  `json:"ended,omitzero"` // of an alert, when it ended
	End     string     `json:"end,omitempty"`  // why it ended
}

// Open reports whether the canary watches, or its alert is open.
func (w *Watch) Open() bool {
	return w != nil && (w.Verdict == "" || w.Verdict == Alert && w.Ended.IsZero())
}

// State is everything that a canary stores. Its size is bounded, whatever the log
// has.
type State struct {
	Cursor  int64           `json:"cursor"` // the last counted entry
	Known   Identity        `json:"known"`
	Started bool            `json:"started,omitzero"` // a start of the daemon was counted
	Paused  time.Time       `json:"paused,omitzero"`  // since when the gate does not trust its clock; zero if it does
	Hour    int64           `json:"hour,omitzero"`    // the hour of Seen, since 1970
	Seen    map[string]bool `json:"seen,omitempty"`   // the refusals that counted in that hour
	Steps   map[string]step `json:"steps,omitempty"`  // the open steps, by id
	Recent  []Decision      `json:"recent,omitempty"` // the latest decisions since the last change
	Watch   *Watch          `json:"watch,omitempty"`  // the last canary
}

// Answers counts the decisions that are answers to callers.
func Answers(list []Decision) int {
	n := 0
	for _, d := range list {
		if d.Sort.answers() {
			n++
		}
	}
	return n
}

// caller returns the party that asked, without the number of an agent's
// registration: an agent that registers again is the same caller.
func caller(by string) string {
	if strings.HasPrefix(by, "agent:") {
		by, _, _ = strings.Cut(by, "#")
	}
	return by[:min(len(by), maxCaller)]
}
