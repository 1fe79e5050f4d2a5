package canary

import (
	"strings"
	"time"
)

// Rules say how long is watched and what is a difference. All are above 0,
// Decisions is at least twice Minimum and at most 2000, and Floor below 100.
type Rules struct {
	Decisions int // that a window has at most, and its baseline
	Days      int // that a window lasts at most
	Minimum   int // decisions of a sort without which nothing is compared
	Floor     int // percentage points below which a difference is noise
}

// What counts as a difference beside Rules.Floor.
const (
	// errorsSquared is the square of how many standard errors of the difference of
	// two proportions it has to be: four are exceeded by chance once in 16,000
	// comparisons.
	errorsSquared = 16
	// slower is by how much the median time to approve has to differ, as a
	// factor and in seconds.
	slower        = 4
	slowerSeconds = 600
	// looks is how often a window that is not full is looked at.
	looks = 10
)

// What is kept at most.
const (
	maxSteps  = 1024 // steps under way of which it is known who asked, and when
	maxSeen   = 512  // refusals of one hour, to count repeats once
	maxWait   = int64(MaxUnresolved / time.Second)
	maxCaller = 128 // bytes of a caller's name
)

// MaxUnresolved is how long after its change a canary without an end is shown as
// something that is wrong.
const MaxUnresolved = 30 * 24 * time.Hour

// Identity is what the gate decided by. An empty member is not known, but for
// Revoked, which is known together with Policy and empty without a revocation
// file.
type Identity struct {
	Policy  string `json:"policy,omitempty"`  // digest, as in the audit log
	Signers string `json:"signers,omitempty"` // digest of the allowed_signers file
	Epoch   int64  `json:"epoch,omitzero"`
	Revoked string `json:"revoked,omitempty"` // digest of the revocation file
	Version string `json:"version,omitempty"` // of the program
	Schema  int    `json:"schema,omitzero"`   // of the database
}

// Changed names what differs, in a fixed order: policy, trust, version. What is
// not known on either side is no difference. A list of signers is what it says,
// whatever its epoch.
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

// The sorts. The first three answer who asks; the others are how a request for
// a signature ended.
const (
	Planned  Sort = "planned"  // accepted without a signature
	Pending  Sort = "pending"  // waits for a signature
	Refused  Sort = "refused"  // was not accepted, or not run after all
	Approved Sort = "approved" // the signatures were there
	Denied   Sort = "denied"   // an operator rejected it, or it expired
)

func (s Sort) answers() bool { return s == Planned || s == Pending || s == Refused }

// Decision is one decision of the gate, as it counts.
type Decision struct {
	By   string `json:"by"`
	Sort Sort   `json:"sort"`
	Wait int64  `json:"wait,omitzero"` // of Approved, seconds since it was asked for
}

// step is a step under way.
type step struct {
	By    string `json:"by"`
	Since int64  `json:"since"` // Unix seconds, when it was asked for
	Waits bool   `json:"waits,omitzero"`
}

// Verdict is what came of a canary; empty while it watches.
type Verdict string

// The verdicts.
const (
	Passed  Verdict = "passed"  // nothing differs by more than noise
	Alert   Verdict = "alert"   // something does
	Expired Verdict = "expired" // that could not be told
)

// Watch is one canary. While nobody knows what came of it, and while an alert
// stands, it has the decisions of before.
type Watch struct {
	Change  int64      `json:"change"`  // number of the entry that changed something
	At      time.Time  `json:"at"`      // time of that entry
	Changed []string   `json:"changed"` // policy, trust, version
	Was     Identity   `json:"was"`     // when the decisions of before were made
	Is      Identity   `json:"is"`      // since the change
	Base    []Decision `json:"base,omitempty"`
	Before  int        `json:"before"` // answers in Base, also when that is gone
	Until   time.Time  `json:"until"`  // when the window ends at the latest
	Verdict Verdict    `json:"verdict,omitempty"`
	Decided time.Time  `json:"decided,omitzero"`
	Why     string     `json:"why,omitempty"`  // a sentence
	Back    string     `json:"back,omitempty"` // of an alert, how to go back
	Ended   time.Time  `json:"ended,omitzero"` // of an alert, when it was no more
	End     string     `json:"end,omitempty"`  // why
}

// Open reports whether it watches, or is an alert that stands.
func (w *Watch) Open() bool {
	return w != nil && (w.Verdict == "" || w.Verdict == Alert && w.Ended.IsZero())
}

// State is all that is known. Its size is bounded whatever the log holds.
type State struct {
	Cursor  int64           `json:"cursor"` // the last entry that counted
	Known   Identity        `json:"known"`
	Started bool            `json:"started,omitzero"` // a start was seen
	Paused  time.Time       `json:"paused,omitzero"`  // since when the clock is not believed
	Hour    int64           `json:"hour,omitzero"`    // that Seen is about, since 1970
	Seen    map[string]bool `json:"seen,omitempty"`   // refusals that counted in it
	Steps   map[string]step `json:"steps,omitempty"`  // under way, by id
	Recent  []Decision      `json:"recent,omitempty"` // since the last change, the latest
	Watch   *Watch          `json:"watch,omitempty"`  // the last one
}

// Answers counts the decisions that answer somebody.
func Answers(list []Decision) int {
	n := 0
	for _, d := range list {
		if d.Sort.answers() {
			n++
		}
	}
	return n
}

// caller is who asked, as people and sets of desired state go: an agent that is
// registered again is the same.
func caller(by string) string {
	if strings.HasPrefix(by, "agent:") {
		by, _, _ = strings.Cut(by, "#")
	}
	return by[:min(len(by), maxCaller)]
}
