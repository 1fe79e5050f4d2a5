package convert

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/test/must"
)

// signedBy is a signature of a person whose key has the person's name.
func signedBy(who string, as op.Role, key *op.Attested) op.Signed {
	return op.Signed{Principal: who, Role: as, Key: "SHA256:" + who, Armor: "a", Attested: key, At: at}
}

func TestRequestShowsSignatures(t *testing.T) {
	s := destroyStep(op.StateSucceeded)
	plain := signedBy("alice@example.com", op.Operational, nil)
	certified := signedBy("bob@example.com", op.Operational, &op.Attested{Flags: op.FlagPresent, Counter: 7})
	certified.CA = "SHA256:ca"
	r, err := RequestOf(op.Request{ID: s.ID, Step: s, Payload: payloadOf(t, s), Need: needs(3), Signatures: []op.Signed{plain, certified}})
	require.NoError(t, err)
	require.Equal(t, 3, r.Needed)
	require.Equal(t, 1, r.Missing)
	require.Equal(t, api.Signature{Principal: "alice@example.com", Role: op.Operational, Fingerprint: "SHA256:alice@example.com",
		Armor: "a", SignedAt: at.UTC()}, r.Signatures[0])
	counter := uint32(7)
	require.Equal(t, api.Signature{Principal: "bob@example.com", Role: op.Operational, Fingerprint: "SHA256:bob@example.com",
		CA: "SHA256:ca", Touch: op.TouchPresent, Counter: &counter, Armor: "a", SignedAt: at.UTC()}, r.Signatures[1])
	require.Equal(t, op.SHA256(payloadOf(t, s)), r.PayloadSHA256)
}

func TestRequestShowsWhoIsNeeded(t *testing.T) {
	s := destroyStep(op.StatePending)
	need := op.Requirement{Ways: []op.Way{
		{Demands: []op.Demand{
			{Rule: "built-in", Roles: []op.Role{op.Operational}, Threshold: 1},
			{Rule: "gated.yaml:14", Roles: []op.Role{"manager"}, Threshold: 2, Touch: op.TouchPresent}}},
		{Name: op.WayRecovery, Demands: []op.Demand{{Rule: "built-in", Roles: []op.Role{op.Recovery}, Threshold: 1}}}}}
	r := must.Get(RequestOf(op.Request{ID: s.ID, Step: s, Payload: payloadOf(t, s), Need: need,
		Signatures: []op.Signed{signedBy("alice@example.com", op.Operational, nil), signedBy("dave@example.com", "manager", nil)},
		Could:      map[op.Role][]string{op.Operational: {"bob@example.com"}, "manager": {"bob@example.com", "carol@example.com"}},
		Owed:       []string{"SHA256:new operational"}}))(t)
	require.Equal(t, []op.Role{op.Operational, "manager", op.Recovery}, r.Roles)
	require.Equal(t, []api.Demand{
		{Rule: "built-in", Roles: []op.Role{op.Operational}, Threshold: 1, Have: 1, Could: []string{"bob@example.com"}},
		{Rule: "gated.yaml:14", Roles: []op.Role{"manager"}, Threshold: 2, Touch: op.TouchPresent,
			Could: []string{"bob@example.com", "carol@example.com"}},
		{Rule: "built-in", Way: op.WayRecovery, Roles: []op.Role{op.Recovery}, Threshold: 1, Could: []string{}}}, r.Demands)
	require.Equal(t, []string{"SHA256:new operational"}, r.Owed)
	require.Equal(t, 2, r.Missing)
}

// Who has two roles of one demand is named once.
func TestNobodyCouldTwice(t *testing.T) {
	r := op.Request{Could: map[op.Role][]string{op.Operational: {"a", "b"}, op.Coordination: {"b", "c"}}}
	require.Equal(t, []string{"a", "b", "c"}, could(r, []op.Role{op.Operational, op.Coordination}))
	require.Equal(t, []string{}, could(r, []op.Role{op.Recovery}))
}

func TestRequestShowsWhenItRuns(t *testing.T) {
	s := destroyStep(op.StateAuthorized)
	window := must.Get(op.ParseWindow("mon-fri 08:00-18:00Z"))(t)
	need := needs(1)
	need.CoolOff, need.Windows = 10*time.Minute, []op.Window{window}
	r := must.Get(RequestOf(op.Request{ID: s.ID, Step: s, Payload: payloadOf(t, s), Need: need, AuthorizedAt: at}))(t)
	require.Equal(t, int64(600), r.CoolOff)
	require.Equal(t, at.UTC(), *r.AuthorizedAt)
	require.Equal(t, at.Add(10*time.Minute).UTC(), *r.RunsAt)
	need.Ways = append(need.Ways, op.Way{Name: op.WayBreakGlass, Delay: time.Hour, Demands: []op.Demand{{Rule: "gated.yaml:9", Roles: []op.Role{op.BreakGlass}, Threshold: 1}}})
	broken := op.Request{ID: s.ID, Step: s, Payload: payloadOf(t, s), Need: need, AuthorizedAt: at, Signatures: []op.Signed{signedBy("greta@example.com", op.BreakGlass, nil)}}
	by := must.Get(RequestOf(broken))(t)
	require.Equal(t, int64(3600), by.CoolOff)
	require.Equal(t, at.Add(time.Hour).UTC(), *by.RunsAt)
	require.Equal(t, int64(3600), by.Demands[1].Delay)
	broken.Signatures[0].Role = op.Operational
	require.Equal(t, int64(600), must.Get(RequestOf(broken))(t).CoolOff)
	m := members(t, r)
	require.Equal(t, `["mon-fri 08:00-18:00Z"]`, m["windows"])
	require.Equal(t, `"2026-03-04T04:16:07Z"`, m["runs_at"])
	b := must.Get(api.Encode(r))(t)
	var back api.Request
	require.NoError(t, api.DecodeAnswer(b, &back))
	require.Equal(t, r.Windows, back.Windows)
	require.Equal(t, r.RunsAt, back.RunsAt)
}
