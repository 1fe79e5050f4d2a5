package convert

import (
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

var (
	at    = time.Date(2026, 3, 4, 5, 6, 7, 0, time.FixedZone("x", 3600))
	web   = op.Target{Kind: "guest", Name: "web-1"}
	alice = op.Requester{Source: op.SourceAPI, UID: 1000, PID: 7}
)

func destroyStep(s op.State) op.Step {
	return op.Step{ID: op.StepID{Job: 12, Index: 1}, Op: "guest.destroy", Target: web, Incarnation: "i", State: s,
		Fingerprint: op.FingerprintOf(nil), Verdict: op.Verdict{Class: op.Destructive, Rule: "r", Why: "w"}, UpdatedAt: at}
}

func payloadOf(t *testing.T, s op.Step) []byte {
	t.Helper()
	b := must.Get(op.Payload{Gate: op.GateID(strings.Repeat("a", 32)), Host: "pve1", Op: s.Op, Target: s.Target,
		Incarnation: s.Incarnation, State: s.Fingerprint, Params: op.Params{}, Nonce: strings.Repeat("A", 22),
		IssuedAt: at.UTC(), ExpiresAt: at.Add(time.Hour).UTC()}.Encode())(t)
	return b
}

// needs is the requirement of so many operators.
func needs(people int) op.Requirement {
	return op.Requirement{Ways: []op.Way{{Demands: []op.Demand{
		{Rule: "built-in", Roles: []op.Role{op.Operational}, Threshold: people}}}}}
}

// members returns the names of an object's members; no value may be missing.
func members(t *testing.T, v any) map[string]string {
	t.Helper()
	b := must.Get(api.Encode(v))(t)
	require.NotContains(t, string(b), "\n")
	var m map[string]jsontext.Value
	require.NoError(t, api.DecodeAnswer(b, &m))
	out := map[string]string{}
	for k, raw := range m {
		out[k] = string(raw)
	}
	return out
}

func requireMembers(t *testing.T, v any, names string) map[string]string {
	t.Helper()
	m := members(t, v)
	for _, name := range strings.Fields(names) {
		require.Contains(t, m, name)
	}
	return m
}

// The names are those at the end of protocol section 6.
func TestPromisedMembers(t *testing.T) {
	s := destroyStep(op.StatePending)
	r, err := RequestOf(op.Request{ID: s.ID, Step: s, Requesters: []op.Requester{alice}, Payload: payloadOf(t, s), Need: needs(1),
		CreatedAt: at, IssuedAt: at, ExpiresAt: at})
	require.NoError(t, err)
	m := requireMembers(t, r, `id op host gate target incarnation state_fingerprint params requested_by reason
		created_at expires_at state rule facts signatures missing demands owed cool_off windows authorized_at runs_at`)
	require.Equal(t, `"j12.1"`, m["id"])
	require.Equal(t, `"pve1"`, m["host"])
	require.Equal(t, `["uid:1000"]`, m["requested_by"])
	require.Equal(t, `"2026-03-04T04:06:07Z"`, m["created_at"])
	require.Equal(t, `1`, m["missing"])
	require.Equal(t, `[]`, m["signatures"])
	require.Equal(t, `[]`, m["facts"])
	require.Equal(t, `{}`, m["params"])
	require.Equal(t, `["operational"]`, m["roles"])
	require.Equal(t, `[]`, m["owed"])
	require.Equal(t, `[]`, m["windows"])
	require.Equal(t, `0`, m["cool_off"])
	require.Equal(t, `null`, m["authorized_at"])
	require.Equal(t, `null`, m["runs_at"])

	j := JobOf(op.Job{ID: 12, Requesters: []op.Requester{alice}, Steps: []op.Step{s}, CreatedAt: at})
	m = requireMembers(t, j, `id state steps created_at finished_at`)
	require.Equal(t, `null`, m["finished_at"])
	require.Equal(t, `"j12.1"`, m["request"])
	m = requireMembers(t, j.Steps[0], `id op target params state request error`)
	require.Contains(t, m["error"], `"code":"pending_signature"`)
	require.Contains(t, m["error"], `"detail":`)

	requireMembers(t, GuestOf(op.Observed{Target: web}, nil, nil),
		`name state incarnation fingerprint spec labels protected provenance destroy facts`)
	requireMembers(t, api.Verdict{}, `class rule why`)
}

func TestReasonsAndRejectionsOnTheWire(t *testing.T) {
	s := destroyStep(op.StatePending)
	said := []op.Reason{{By: "uid:1000", Text: "old"}, {By: "agent:b#7"}}
	no := op.Rejected{Request: op.RequestID{Job: 3, Index: 1}, By: []string{"alice"}, Words: "in use", At: at, AskedBy: []string{"uid:1000"}}
	r, err := RequestOf(op.Request{ID: s.ID, Step: s, Payload: payloadOf(t, s), Reasons: said, TimesRejected: 9, Rejections: []op.Rejected{no}})
	require.NoError(t, err)
	m := members(t, r)
	require.Equal(t, `[{"by":"uid:1000","text":"old"},{"by":"agent:b#7","text":""}]`, m["reasons"])
	require.Equal(t, `9`, m["times_rejected"])
	require.Equal(t, `[{"request":"j3.1","by":["alice"],"words":"in use","at":"2026-03-04T04:06:07Z","requested_by":["uid:1000"]}]`, m["rejections"])
	require.Equal(t, m["reasons"], members(t, JobOf(op.Job{Reasons: said}))["reasons"])
	empty := must.Get(RequestOf(op.Request{ID: s.ID, Step: s, Payload: payloadOf(t, s)}))(t)
	m = members(t, empty)
	require.Equal(t, []string{`[]`, `0`, `[]`}, []string{m["reasons"], m["times_rejected"], m["rejections"]})
}

func TestJobErrorIsThatOfItsState(t *testing.T) {
	ended := func(s op.State, c refusal.Code) op.Step {
		st := destroyStep(s)
		st.Code, st.Detail = c, "because"
		return st
	}
	job := func(steps ...op.Step) api.Job { return JobOf(op.Job{ID: 12, Steps: steps, FinishedAt: at}) }

	require.Nil(t, job(ended(op.StateSucceeded, "")).Error)
	require.Equal(t, &api.Error{Code: refusal.StaleTarget, Detail: "because", Hint: api.HintOf(refusal.StaleTarget)}, job(ended(op.StateSucceeded, ""), ended(op.StateRefused, refusal.StaleTarget)).Error)
	require.Equal(t, &api.Error{Code: refusal.Rejected, Detail: "because", Hint: api.HintOf(refusal.Rejected)}, job(ended(op.StateRejected, "")).Error)
	require.Equal(t, &api.Error{Code: refusal.Expired, Detail: "because", Hint: api.HintOf(refusal.Expired)}, job(ended(op.StateExpired, "")).Error)
	require.Equal(t, &api.Error{Code: refusal.Superseded, Detail: "because", Hint: api.HintOf(refusal.Superseded)}, job(ended(op.StateSuperseded, "")).Error)
	require.Equal(t, &api.Error{Code: refusal.Cancelled, Detail: "because", Hint: api.HintOf(refusal.Cancelled)}, job(ended(op.StateCancelled, "")).Error)
	require.Equal(t, &api.Error{Code: refusal.Internal, Detail: "because", Hint: api.HintOfEnd(op.StateFailed, "j12", refusal.Internal)}, job(ended(op.StateFailed, "")).Error)
	require.Contains(t, job(ended(op.StateFailed, "")).Error.Hint, "gated jobs j12 shows what it printed")
	require.NotEmpty(t, api.HintOf(refusal.StaleTarget))
	require.Empty(t, job(ended(op.StatePlanned, refusal.Unavailable)).Error.Hint, "it runs later")
	require.Nil(t, job(ended(op.StateDispatched, "")).Error)
	require.NoError(t, (*api.Error)(nil).Err())
	require.ErrorIs(t, (&api.Error{Code: refusal.Rejected}).Err(), refusal.Rejected)

	benign := destroyStep(op.StateDispatched)
	benign.Verdict.Class = op.Benign
	require.Nil(t, job(benign).Steps[0].Request)
	require.NotNil(t, job(ended(op.StateSucceeded, "")).Steps[0].Request)
}

func TestRequestOfRefusesABrokenPayload(t *testing.T) {
	must.Err(RequestOf(op.Request{Payload: []byte("{}")}))(t)
}

func TestGuests(t *testing.T) {
	p := &op.Provenance{Creator: "uid:1000", Job: 3, Scratch: true, ScratchUntil: at, CreatedAt: at}
	g := GuestOf(op.Observed{Target: web, Running: "running", Protected: true, Trash: []op.Trashed{{Incarnation: "old", Until: at}}},
		p, &op.Verdict{Class: op.Benign, Rule: "r", Why: "w"})
	require.Equal(t, "j3", g.Provenance.Job)
	require.Equal(t, &api.Verdict{Class: op.Benign, Rule: "r", Why: "w"}, g.Destroy)
	require.Equal(t, []api.Trashed{{Incarnation: "old", Until: at.UTC()}}, g.Trash)

	u := UnknownGuest("web-2", refusal.New(refusal.StaleTarget, "two of them"))
	require.Equal(t, "unknown", u.State)
	require.Equal(t, &api.Error{Code: refusal.StaleTarget, Detail: "two of them"}, u.Error)
	require.Nil(t, u.Destroy)
}

func TestCatalogueOnTheWire(t *testing.T) {
	for _, s := range op.Catalogue() {
		o := OpOf(s)
		require.Equal(t, s.Name, o.Name)
		require.Len(t, o.Params, len(s.Params))
	}
}

// Nothing waits in the place of a step that is not taken back.
func TestWhatIsLeftNamesItsTarget(t *testing.T) {
	s := op.Step{ID: op.StepID{Job: 3, Index: 2}, Target: op.Target{Kind: "guest", Name: "prod"}, Undoes: 1, State: op.StateSuperseded,
		Code: refusal.Superseded, Detail: "j3.1 is not taken back"}
	require.Contains(t, StepOf(s).Error.Hint, "guest/prod")
	s.Undoes = 0
	require.Contains(t, StepOf(s).Error.Hint, "opsign list")
}
