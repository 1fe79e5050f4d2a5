package journal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

func TestRequirementIsStoredWhole(t *testing.T) {
	windows := []op.Window{}
	for _, s := range []string{"22:00-06:00Z", "mon-fri 08:00-18:00Z"} {
		w := must.Get(op.ParseWindow(s))(t)
		windows = append(windows, w)
	}
	demand := rapid.Custom(func(t *rapid.T) op.Demand {
		return op.Demand{Rule: rapid.String().Draw(t, "rule"),
			Roles:     rapid.SliceOfN(rapid.SampledFrom(op.Roles), 1, 3).Draw(t, "roles"),
			Threshold: rapid.IntRange(1, 16).Draw(t, "threshold"),
			Touch:     rapid.SampledFrom([]op.Touch{op.TouchNone, op.TouchPresent, op.TouchVerified}).Draw(t, "touch")}
	})
	rapid.Check(t, func(t *rapid.T) {
		r := op.Requirement{CoolOff: time.Duration(rapid.IntRange(0, 86400).Draw(t, "cool-off")) * time.Second,
			MaxValidity: time.Duration(rapid.IntRange(1, 86400).Draw(t, "validity")) * time.Second,
			Windows:     rapid.SliceOfN(rapid.SampledFrom(windows), 0, 2).Draw(t, "windows")}
		for _, name := range rapid.SampledFrom([][]string{{""}, {"", op.WayRecovery}, {op.WayRecovery}, {"", op.WayBreakGlass}}).Draw(t, "ways") {
			r.Ways = append(r.Ways, op.Way{Name: name, Demands: rapid.SliceOfN(demand, 1, 3).Draw(t, "demands"),
				Delay: time.Duration(rapid.IntRange(0, 86400).Draw(t, "delay")) * time.Second})
		}
		got, err := journal.DecodeNeed(journal.EncodeNeed(r))
		if err != nil {
			t.Fatal(err)
		}
		if journal.EncodeNeed(got) != journal.EncodeNeed(r) || got.CoolOff != r.CoolOff || got.Longest() != r.Longest() || len(got.Windows) != len(r.Windows) {
			t.Fatalf("%+v became %+v", r, got)
		}
		if extra := journal.EncodeExtra(r); extra != "" && extra != journal.EncodeNeed(r) {
			t.Fatalf("the log would have %q", extra)
		}
	})
	must.Err(journal.DecodeNeed(`{"ways":[],"roof":1}`))(t, "what is not understood is not less")
	for _, seconds := range []string{"-1", "9223372037", "18446744078", "9223372036854775807"} {
		must.Err(journal.DecodeNeed(`{"ways":[],"cool_off":`+seconds+`}`))(t, "a cool-off of "+seconds+" seconds is no duration")
		must.Err(journal.DecodeNeed(`{"ways":[],"max_validity":`+seconds+`}`))(t, "a validity of "+seconds+" seconds is no duration")
		must.Err(journal.DecodeNeed(`{"ways":[{"name":"breakglass","demands":[],"delay":`+seconds+`},{"name":"breakglass","demands":[]}]}`))(t,
			"a delay of "+seconds+" seconds is no duration, whatever else has the name of its way")
	}
	require.Equal(t, 9223372036*time.Second, must.Get(journal.DecodeNeed(`{"ways":[],"cool_off":9223372036}`))(t).CoolOff)
}

func TestDelayedRequests(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		id := op.StepID{Job: add(t, tx, uid, step(0, 0, op.StatePending)), Index: 1}
		must.Fail(journal.IsDelayed(tx, id))(t, refusal.UnknownTarget)
		night := must.Get(op.ParseWindow("22:00-06:00Z"))(t)
		for _, c := range []struct {
			need    op.Requirement
			delayed bool
		}{
			{op.Requirement{}, false},
			{op.Requirement{CoolOff: time.Second}, true},
			{op.Requirement{Ways: []op.Way{{}, {Name: op.WayBreakGlass, Delay: time.Second}}}, true},
			{op.Requirement{Windows: []op.Window{night}}, true},
		} {
			r := op.Request{ID: id, Payload: []byte("p"), Nonce: "n", Need: c.need, CreatedAt: now, IssuedAt: now, ExpiresAt: now}
			require.NoError(t, journal.PutRequest(tx, r))
			require.Equal(t, c.delayed, must.Get(journal.IsDelayed(tx, id))(t), "%+v", c.need)
		}
	})
}

func TestTrustVersionsGoUpByOne(t *testing.T) {
	update(t, newStore(t), func(tx *store.Tx) {
		v := must.Get(journal.ReadTrust(tx))(t)
		require.Zero(t, v.Epoch, "there is none at first")
		add := func(epoch int64) error {
			return journal.AddTrust(tx, journal.TrustVersion{Epoch: epoch, Text: []byte{byte(epoch)}, How: "test", At: now})
		}
		require.ErrorIs(t, add(2), refusal.Conflict)
		require.NoError(t, add(1))
		require.ErrorIs(t, add(1), refusal.Conflict)
		require.ErrorIs(t, add(3), refusal.Conflict)
		require.NoError(t, add(2))
		v = must.Get(journal.ReadTrust(tx))(t)
		require.Equal(t, journal.TrustVersion{Epoch: 2, Text: []byte{2}, How: "test", At: now.UTC()}, v)
		v = must.Get(journal.ReadTrustOf(tx, 1))(t)
		require.Equal(t, []byte{1}, v.Text)
		v = must.Get(journal.ReadTrustOf(tx, 7))(t)
		require.Zero(t, v.Epoch)
	})
}
