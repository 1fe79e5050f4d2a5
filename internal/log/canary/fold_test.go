package canary

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/refusal"
	"gated/internal/log/audit"
)

func TestWhatDoesNotDifferPasses(t *testing.T) {
	w := newTape(t)
	w.planned("uid:1", 150)
	w.refused("uid:2", 50)
	w.policy("other")
	w.planned("uid:1", 150)
	w.refused("uid:2", 49)
	w.watches()
	w.refused("uid:2", 1)
	w.says(Passed, "policy changed", "200 decisions", "20 points")
	require.Empty(t, w.state.Watch.Base)
	require.False(t, w.state.Watch.Open())
}

func TestEverythingRefusedAlerts(t *testing.T) {
	w := newTape(t)
	w.planned("uid:1", 100)
	w.policy("bad")
	w.refused("uid:1", 29)
	w.watches()
	w.refused("uid:1", 1)
	w.says(Alert, "refused 30 of 30, before 0 of 100", "to go back: good instead of bad")
	require.True(t, w.state.Watch.Open(), "until it is taken back")
	w.refused("uid:1", 300)
	require.Empty(t, w.out, "it is said once")

	w.policy("good")
	require.Len(t, w.out, 1)
	require.Contains(t, w.out[0].Detail, "the alert ended")
	require.Empty(t, w.out[0].Verdict)
	require.Equal(t, Alert, w.state.Watch.Verdict)
	require.False(t, w.state.Watch.Open())
	require.Len(t, w.state.Recent, 100, "what was before the change is what the next one is compared with")
}

// TestRatesThatFallAlert: the new policy allows what was refused.
func TestRatesThatFallAlert(t *testing.T) {
	w := newTape(t)
	for range 50 {
		w.planned("uid:1", 1)
		w.refused("uid:1", 1)
	}
	w.policy("open")
	w.planned("uid:1", 30)
	w.says(Alert, "refused 0 of 30, before 50 of 100")

	w = newTape(t)
	w.pending("uid:1", 100)
	w.policy("open")
	w.planned("uid:1", 30)
	w.says(Alert, "pending 0 of 30, before 100 of 100")
}

func TestWhatBecomesOfRequests(t *testing.T) {
	w := newTape(t)
	w.approved("uid:1", 100, time.Minute)
	w.policy("other")
	for range 30 {
		id := w.pending("uid:1", 1)[0]
		w.write(audit.Entry{Kind: audit.Expired, By: byGate, Step: id})
	}
	w.watches()
	w.pending("uid:1", 20) // the next comparison
	w.says(Alert, "approved 0 of 30, before 100 of 100")

	w = newTape(t)
	w.approved("uid:1", 100, 5*time.Minute)
	w.policy("other")
	w.approved("uid:1", 60, 20*time.Minute)
	w.says(Alert, "approved after 20m0s, before after 5m0s (median)")

	w = newTape(t)
	w.approved("uid:1", 100, 5*time.Minute)
	w.policy("other")
	w.approved("uid:1", 100, 14*time.Minute)
	w.says(Passed)
}

func TestTooFewDecisionsExpire(t *testing.T) {
	w := newTape(t)
	w.planned("uid:1", 29)
	w.policy("other")
	w.says(Expired, "29 decisions before the change are too few")

	w = newTape(t)
	w.planned("uid:1", 30)
	w.policy("other")
	w.refused("uid:1", 29)
	w.watches()
	w.now = w.now.Add(7 * 24 * time.Hour)
	w.refused("uid:1", 1) // after the window
	w.says(Expired, "29 decisions")
	require.Len(t, w.state.Recent, 30, "which is counted for the next one")
}

// TestOneCallerAloneIsNoAlert: it also hides no other caller.
func TestOneCallerAloneIsNoAlert(t *testing.T) {
	w := newTape(t)
	w.planned("uid:1", 60)
	w.planned("uid:2", 60)
	w.policy("other")
	w.refused("agent:mad#7", 1000)
	w.watches()
	require.Equal(t, 60, Answers(w.state.Recent), "half of a window of 120")
	w.planned("uid:1", 30)
	w.planned("uid:2", 30)
	w.says(Passed)

	// With many small jobs that run, it does not hide that all others are refused.
	w = newTape(t)
	w.planned("uid:1", 60)
	w.planned("uid:2", 60)
	w.policy("other")
	w.planned("agent:mad#7", 1000)
	w.refused("uid:1", 31)
	w.watches()
	w.refused("uid:2", 60)
	w.says(Alert, "refused")

	// It also does not fill the window by itself.
	w = newTape(t)
	w.planned("uid:1", 60)
	w.planned("uid:2", 60)
	w.policy("other")
	w.planned("agent:mad#7", 1000)
	w.now = w.now.Add(7 * 24 * time.Hour)
	w.planned("uid:1", 1)
	w.says(Expired, "without any one caller")
}

// TestAFloodBeforeTheChange: a flood pushes out at most half of the others'
// decisions.
func TestAFloodBeforeTheChange(t *testing.T) {
	w := newTape(t)
	w.planned("uid:1", 150)
	w.planned("uid:2", 150)
	w.refused("uid:3", 1000)
	own := callers(w.state.Recent)
	require.Equal(t, 100, own["uid:3"])
	require.Equal(t, 200, Answers(w.state.Recent))
}

func TestEachDecisionCountsOnce(t *testing.T) {
	w := newTape(t)
	e := audit.Entry{Kind: audit.Planned, By: "uid:1", Step: "j1.1", Seq: 2, Time: w.now}
	require.Empty(t, w.state.Take(rules, goBack, e))
	require.Empty(t, w.state.Take(rules, goBack, e))
	require.Len(t, w.state.Recent, 1)
	w.seq = 2
	id := w.pending("uid:1", 1)[0]
	for _, kind := range []audit.Kind{audit.Reissued, audit.Joined, audit.Signed, audit.Withdrawn, audit.Uncounted, audit.Retried,
		audit.Succeeded, audit.Failed, audit.Interrupted, audit.Compensated, audit.Promoted, audit.Stopped, audit.Canary} {
		w.write(audit.Entry{Kind: kind, By: "uid:1", Step: id})
	}
	require.Len(t, w.state.Recent, 2)
	for range 2 { // it is approved again after a signature no longer counts
		w.write(audit.Entry{Kind: audit.Approved, By: "uid:0", Step: id})
	}
	require.Len(t, w.state.Recent, 3)
	w.write(audit.Entry{Kind: audit.Expired, By: byGate, Step: id})
	require.Len(t, w.state.Recent, 3, "an approval that ran out was an approval")
	require.Empty(t, w.state.Steps)
	w.write(audit.Entry{Kind: audit.Approved, By: "uid:0", Step: "j77.1"})
	require.Len(t, w.state.Recent, 3, "if the request was not seen, its wait is not known")
}

func TestRefusalsThatRepeat(t *testing.T) {
	w := newTape(t)
	w.now = w.now.Truncate(time.Hour)
	e := audit.Entry{Kind: audit.Refused, By: "agent:a#1", Op: "guest.stop", Target: "guest/a", Code: refusal.Conflict}
	w.write(e)
	w.write(e)
	e.By = "agent:a#2"
	w.write(e)
	require.Len(t, w.state.Recent, 1, "the same of the same, registered again")
	w.write(audit.Entry{Kind: audit.Refused, By: "agent:a#2", Code: refusal.Conflict, Count: 5000})
	require.Len(t, w.state.Recent, 1, "those ten had entries of their own")
	for _, other := range []audit.Entry{{Op: "guest.start", Target: e.Target, Code: e.Code}, {Op: e.Op, Target: "guest/b", Code: e.Code},
		{Op: e.Op, Target: e.Target, Code: refusal.NotAllowed}} {
		other.Kind, other.By = e.Kind, e.By
		w.write(other)
	}
	e.By = "agent:b#1"
	w.write(e)
	require.Len(t, w.state.Recent, 5)
	w.now = w.now.Add(time.Hour)
	w.write(e)
	require.Len(t, w.state.Recent, 6, "an hour later it is asked anew")
	for _, what := range []string{"POST /v1/reservations", "GET /v1/backup", "DELETE /v1/agents/a"} {
		w.write(audit.Entry{Kind: audit.Refused, By: "uid:1", Op: what, Code: refusal.NotAllowed})
	}
	require.Len(t, w.state.Recent, 6)
	w.write(audit.Entry{Kind: audit.Refused, By: "uid:1", Op: "POST /v1/jobs", Code: refusal.NotAllowed})
	w.write(audit.Entry{Kind: audit.Refused, By: "uid:1", Op: "POST /v1/requests/j1.1/approve", Code: refusal.Malformed})
	require.Len(t, w.state.Recent, 8)
}

// TestAStepThatMayNotRun: it counts as a refusal for the requester of the step.
func TestAStepThatMayNotRun(t *testing.T) {
	w := newTape(t)
	w.write(audit.Entry{Kind: audit.Planned, By: "uid:1", Step: "j1.1"})
	w.write(audit.Entry{Kind: audit.Refused, By: byGate, Step: "j1.1", Op: "guest.start", Target: "guest/a", Code: refusal.StaleTarget})
	require.Equal(t, []Decision{{By: "uid:1", Sort: Planned}, {By: "uid:1", Sort: Refused}}, w.state.Recent)
	require.Empty(t, w.state.Steps)
	w.write(audit.Entry{Kind: audit.Planned, By: "uid:1", Step: "j2.1"})
	w.write(audit.Entry{Kind: audit.Requested, By: byGate, Step: "j2.1"})
	require.Equal(t, Decision{By: "uid:1", Sort: Pending}, w.state.Recent[3])
	// A refused signature leaves the step unchanged.
	w.write(audit.Entry{Kind: audit.Refused, By: "uid:9", Step: "j2.1", Code: refusal.BadSignature})
	require.Contains(t, w.state.Steps, "j2.1")
}
