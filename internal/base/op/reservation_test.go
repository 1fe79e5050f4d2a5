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

var repo = op.Target{Kind: op.KindScope, Name: "s3"}

func TestReservationIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := op.ReservationID(rapid.Int64Range(1, 999_999_999_999_999_999).Draw(t, "id"))
		require.Equal(t, id, must.Get(op.ParseReservationID(id.String()))(t))
	})
	// An id has only one spelling.
	for _, s := range []string{"", "r", "12", "R12", "r0", "r012", "r-1", "r+1", "r1.1", " r1", "r1 ", "r1\n", "r1e3", "r٣", "j12", "r12r",
		"r9999999999999999999", "r" + strings.Repeat("1", 19)} {
		id, err := op.ParseReservationID(s)
		require.Zero(t, id, s)
		requireRefusal(t, err, refusal.Malformed, s)
	}
	require.Equal(t, "r9223372036854775807", op.ReservationID(math.MaxInt64).String())
}

func TestAgentNames(t *testing.T) {
	for agent, want := range map[string]string{"builder#7": "builder", "builder": "builder", "": "", "a#1#2": "a"} {
		require.Equal(t, want, op.AgentName(agent))
	}
}

func TestRolesThatTakeReservations(t *testing.T) {
	for _, name := range []string{op.ForceTransfer, op.ReleaseAll} {
		s := lookup(t, name)
		require.Equal(t, op.KindScope, s.Kind)
		require.False(t, s.Creates)
		require.True(t, s.MayApprove(op.Operational), name)
		require.True(t, s.MayApprove(op.Coordination), name)
		require.False(t, s.MayApprove(op.Recovery), name)
		require.Contains(t, s.Covers, "holder")
	}
	for _, s := range op.Catalogue() {
		require.Equal(t, s.Kind == op.KindScope, s.MayApprove(op.Coordination), "%s: coordination signs for reservations alone", s.Name)
	}
}

func TestParamsOfAdminActions(t *testing.T) {
	for _, c := range []struct {
		op, params string
		want       refusal.Code // or ""
	}{
		{op.ReleaseAll, `{}`, ""},
		{op.ReleaseAll, `{"force":true}`, refusal.BadParams},
		{op.ReleaseAll, `{"reservation":"r12"}`, refusal.BadParams},
		{op.ReleaseAll, `{"to":"builder"}`, refusal.BadParams},
		{op.ReleaseAll, `{"path":"/"}`, refusal.NotAllowed},
		{op.ForceTransfer, `{"reservation":"r12","to":"builder"}`, ""},
		{op.ForceTransfer, `{"reservation":"r999999999999999999","to":"A.b_c-9"}`, ""},
		{op.ForceTransfer, `{}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"r12"}`, refusal.BadParams},
		{op.ForceTransfer, `{"to":"builder"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"12","to":"builder"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"r0","to":"builder"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"R12","to":"builder"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"*","to":"builder"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"r1,r2","to":"builder"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":12,"to":"builder"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":["r12"],"to":"builder"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"","to":"builder"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"r12","to":""}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"r12","to":"*"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"r12","to":"builder#7"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"r12","to":"uid:0"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"r12","to":"../x"}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"r12","to":["a","b"]}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"r12","to":"builder","force":true}`, refusal.BadParams},
		{op.ForceTransfer, `{"reservation":"r12","to":"builder","holder":"x"}`, refusal.BadParams},
	} {
		p := must.Get(op.ParseParams([]byte(c.params)))(t, c.params)
		if err := lookup(t, c.op).Check(repo, p); c.want == "" {
			require.NoError(t, err, c.params)
		} else {
			requireRefusal(t, err, c.want, c.op, c.params)
		}
	}
	for _, name := range []string{"", "*", "s1,s2", "s*", "../s1", "s 1"} {
		requireRefusal(t, lookup(t, op.ReleaseAll).Check(op.Target{Kind: op.KindScope, Name: name}, op.Params{}), refusal.Malformed, name)
	}
	requireRefusal(t, lookup(t, op.ReleaseAll).Check(web1, op.Params{}), refusal.BadParams)
}
