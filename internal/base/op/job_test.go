package op_test

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

func TestIDsHaveOneSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := op.JobID(rapid.Int64Range(1, 999_999_999_999_999_999).Draw(t, "job"))
		index := rapid.IntRange(1, 1<<20).Draw(t, "index")

		require.Equal(t, job, must.Get(op.ParseJobID(job.String()))(t))

		id := op.StepID{Job: job, Index: index}
		require.Equal(t, id, must.Get(op.ParseStepID(id.String()))(t))

		text := must.Get(id.MarshalText())(t)
		var back op.StepID
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, id, back)
	})
}

var badJobIDs = []string{"", "j", "12", "J12", "j0", "j012", "j-1", "j+1", "j1 ", " j1", "j1x", "jj1", "j1e3", "j１",
	"j" + strings.Repeat("9", 19), "j99999999999999999999999"}

func TestJobIDRefusesAllElse(t *testing.T) {
	for _, s := range badJobIDs {
		_, err := op.ParseJobID(s)
		requireRefusal(t, err, refusal.Malformed, s)
		_, err = op.ParseStepID(s + ".1")
		requireRefusal(t, err, refusal.Malformed, s)
	}
}

func TestStepIDRefusesAllElse(t *testing.T) {
	for _, s := range []string{"", ".", "j1", "j1.", ".1", "j1.0", "j1.01", "j1.-1", "j1.1.1", "j1. 1", "j1.1\n",
		"j1.1048577", "j1.99999999999999999999"} {
		_, err := op.ParseStepID(s)
		requireRefusal(t, err, refusal.Malformed, s)
		var id op.StepID
		requireRefusal(t, id.UnmarshalText([]byte(s)), refusal.Malformed, s)
		require.Zero(t, id)
	}
	require.Equal(t, op.StepID{Job: 1, Index: 1 << 20}, must.Get(op.ParseStepID("j1.1048576"))(t))
}

func TestJobIDWithTheMostDigitsFitsAnInt64(t *testing.T) {
	id := must.Get(op.ParseJobID("j" + strings.Repeat("9", 18)))(t)
	require.Less(t, int64(id), int64(math.MaxInt64))
}

func TestOpenStates(t *testing.T) {
	open := map[op.State]bool{op.StatePlanned: true, op.StatePending: true, op.StateAuthorized: true, op.StateDispatched: true}
	seen := map[op.State]bool{}
	for _, s := range op.States {
		require.Equal(t, open[s], s.Open(), s)
		require.False(t, seen[s], "%s is listed twice", s)
		seen[s] = true
	}
	require.Len(t, op.States, 12)
}

func TestJobStateIsItsFirstUnfinishedSteps(t *testing.T) {
	step := func(s op.State) op.Step { return op.Step{State: s} }
	undo := func(s op.State) op.Step { return op.Step{State: s, Undoes: 1} }
	for _, c := range []struct {
		name  string
		steps []op.Step
		want  op.State
	}{
		{"one waits", []op.Step{step(op.StatePending)}, op.StatePending},
		{"the second runs", []op.Step{step(op.StateSucceeded), step(op.StateDispatched), step(op.StatePlanned)}, op.StateDispatched},
		{"open goes before failed", []op.Step{step(op.StateFailed), undo(op.StatePlanned)}, op.StatePlanned},
		{"all done", []op.Step{step(op.StateSucceeded), step(op.StateSucceeded)}, op.StateSucceeded},
		{"the first that did not succeed", []op.Step{step(op.StateSucceeded), step(op.StateInterrupted), step(op.StateCancelled)}, op.StateInterrupted},
		{"a compensation does not make a job done", []op.Step{step(op.StateSucceeded), step(op.StateFailed), undo(op.StateSucceeded)}, op.StateFailed},
	} {
		require.Equal(t, c.want, op.Job{Steps: c.steps}.State(), c.name)
	}
}

func TestRequesterNames(t *testing.T) {
	for want, r := range map[string]op.Requester{
		"uid:1000":      {Source: op.SourceAPI, UID: 1000, PID: 7},
		"uid:0":         {Source: op.SourceOffline},
		"agent:builder": {Source: op.SourceAPI, UID: 1000, Agent: "builder"},
		"desired:web":   {Source: op.SourceDesired, Set: "web"},
		"hub:h:8443":    {Source: op.SourceHub, Set: "h:8443"},
		"gate":          {Source: op.SourceGate},
	} {
		require.Equal(t, want, r.String())
	}
}

func TestPayer(t *testing.T) {
	for want, r := range map[string]op.Requester{
		"uid:1000":    {Source: op.SourceAPI, UID: 1000, Agent: "builder#1"},
		"uid:7":       {Source: op.SourceOffline, UID: 7},
		"desired:web": {Source: op.SourceDesired, Set: "web"},
		"hub:h:8443":  {Source: op.SourceHub, Set: "h:8443"},
		"":            {Source: op.SourceGate},
	} {
		require.Equal(t, want, r.Payer())
	}
}

func TestReasonsAndRejectionsHaveWeight(t *testing.T) {
	words := strings.Repeat("x", 1000)
	require.Greater(t, op.Job{Reasons: []op.Reason{{By: "uid:1", Text: words}}}.Weight(), op.Job{}.Weight()+1000)
	r := op.Request{Reasons: []op.Reason{{Text: words}}, Rejections: []op.Rejected{{Words: words, AskedBy: []string{words}}}}
	require.Greater(t, r.Weight(), op.Request{}.Weight()+3000)
	one := op.Request{Signatures: []op.Signed{{Armor: words}}}
	weight := one.Weight()
	one.Signatures[0].Batch = &op.Inclusion{Batch: []byte(words), Path: make([]op.Digest, op.MaxBatchPath)}
	require.Greater(t, one.Weight(), weight+1000, "a batch comes with each signature over it")
}

func TestRequestMissing(t *testing.T) {
	one := op.Demand{Rule: "built-in", Roles: []op.Role{op.Operational}, Threshold: 1}
	two := op.Demand{Rule: "gated.yaml:12", Roles: []op.Role{op.Operational}, Threshold: 2}
	need := func(d ...op.Demand) op.Requirement { return op.Requirement{Ways: []op.Way{{Demands: d}}} }
	alice := op.Signed{Principal: "alice@example.com", Key: "SHA256:a", Role: op.Operational}
	bob := op.Signed{Principal: "bob@example.com", Key: "SHA256:b", Role: op.Operational}
	require.Equal(t, 1, op.Request{Need: need(one)}.Missing())
	require.Equal(t, 0, op.Request{Need: need(one), Signatures: []op.Signed{alice}}.Missing())
	require.Equal(t, 1, op.Request{Need: need(one, two), Signatures: []op.Signed{alice}}.Missing())
	require.Equal(t, 0, op.Request{Need: need(one, two), Signatures: []op.Signed{alice, bob}}.Missing())
}

func TestProvenanceMade(t *testing.T) {
	p := &op.Provenance{Storage: []op.StorageOrigin{{ID: "data", Job: 1}, {ID: "snap", Job: 2}}}
	require.True(t, p.Made([]op.StorageID{"data", "snap"}, 0))
	require.True(t, p.Made([]op.StorageID{"data"}, 1))
	require.False(t, p.Made([]op.StorageID{"data", "snap"}, 1), "the snapshot is another job's")
	require.False(t, p.Made([]op.StorageID{"data", "foreign"}, 0))
	require.True(t, p.Made(nil, 1))

	var none *op.Provenance
	require.False(t, none.Made(nil, 0), "an incarnation without provenance has no maker")
}

// TestWhoSignedReadsWhatStringWrites: a name that looks like another role and a key hides no signature.
func TestWhoSignedReadsWhatStringWrites(t *testing.T) {
	for _, name := range []string{"greta@example.com", "Greta Lee", "greta operational SHA256:x"} {
		for _, s := range []op.Signed{{}, {CA: "SHA256:z"}, {CA: "SHA256:z", Attested: &op.Attested{Flags: 1, Counter: 7, Origin: "https://a.example.com"}},
			{Batch: &op.Inclusion{Batch: []byte("b")}}} {
			s.Principal, s.Role, s.Key = name, op.BreakGlass, "SHA256:y"
			who, role := op.WhoSigned(s.String())
			require.Equal(t, []any{name, op.BreakGlass}, []any{who, role}, s.String())
		}
	}
	_, role := op.WhoSigned("greta breakglass SHA256:x operational SHA256:y")
	require.Equal(t, op.Operational, role)
	who, role := op.WhoSigned("gate")
	require.Equal(t, []any{"gate", op.Role("")}, []any{who, role})
}
