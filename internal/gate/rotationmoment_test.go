package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/gate"
	"gated/internal/log/journal"
	"gated/internal/test/must"
)

// within returns a line with an option of its validity.
func within(line, option string, at time.Time) string {
	return strings.Replace(line, " namespaces", " "+option+`="`+at.UTC().Format("20060102150405Z")+`",namespaces`, 1)
}

// TestRotationIsCheckedAtTheMomentItIsMade: between the dispatch of a rotation and
// the rotation itself, a role can lose its last other key. The gate then refuses the
// rotation, and the file in force stays.
func TestRotationIsCheckedAtTheMomentItIsMade(t *testing.T) {
	t.Parallel()
	dave := newKey("dave")
	for name, c := range map[string]struct {
		change  func(*world)
		refused string
	}{
		"nothing changes":        {func(*world) {}, ""},
		"the last key has ended": {func(w *world) { w.Pass(48 * time.Hour) }, "the last key of the role operational cannot go"},
		"the last key ends soon": {func(w *world) { w.Pass(2 * time.Hour) }, "the last key of the role operational cannot go"},
		"the last key is revoked": {func(w *world) {
			revoked := must.Get(authz.LoadRevoked([]byte(dave.print() + "\n")))(w.t)
			require.NoError(w.t, w.gate.Reload(w.ctx, revoked, w.gate.Policy()))
		}, "the last key of the role operational cannot go"},
		"the revocation list cannot be read": {func(w *world) {
			require.NoError(w.t, w.gate.Reload(w.ctx, authz.UnreadableRevoked(refusal.Unavailable), w.gate.Policy()))
		}, "revo"},
		"another file came into force": {func(w *world) {
			text := append(w.gate.Trust().Text(), mallory.line("coordination@gated")...)
			require.NoError(w.t, w.store.Update(w.ctx, func(tx *store.Tx) error {
				return journal.AddTrust(tx, journal.TrustVersion{Epoch: 3, Text: text, How: "test", At: w.Now()})
			}))
			next := must.Get(authz.LoadTrust(text))(w.t)
			require.NoError(w.t, w.gate.Log(w.ctx, gate.RotatedEntry("test", authz.Rotation{Trust: next}, journal.TrustVersion{Epoch: 3})))
			require.NoError(w.t, w.gate.ReplaceTrust(w.ctx, next))
		}, "the rotation makes epoch 3"},
	} {
		t.Run(name, func(t *testing.T) {
			w := rotating(t)
			ends := within(dave.line("operational@gated"), "valid-before", w.Now().Add(25*time.Hour))
			r := w.request(rotate(2, []string{ends}, []string{bob.print()}))
			must.Get(w.approveAs(r, op.Operational, alice, dave))(t)
			require.NoError(t, w.rotateNow(r.ID))
			r = w.request(rotate(3, nil, []string{alice.print()}))
			must.Get(w.approveAs(r, op.Recovery, rita))(t)
			p := must.Get(w.gate.Permit(w.ctx, r.ID))(t)
			o := must.Get(w.observer.Observe(w.ctx, op.At(signers)))(t)
			require.NoError(t, p.Use(w.ctx, o))

			c.change(w)
			before, epoch := w.gate.InForce()
			_, err := w.gate.Rotate(w.ctx, p)
			after := must.Get(w.observer.Observe(w.ctx, op.At(signers)))(t)
			must.Get(w.gate.Record(w.ctx, r.ID, gate.Outcome{Err: err, After: &after}))(t)
			now, nowEpoch := w.gate.InForce()
			if c.refused == "" {
				require.NoError(t, err)
				require.Equal(t, epoch+1, nowEpoch)
				return
			}
			require.ErrorContains(t, err, c.refused)
			require.Equal(t, epoch, nowEpoch)
			require.Equal(t, string(before.Text()), string(now.Text()))
			require.NoError(t, w.store.View(w.ctx, func(tx *store.Tx) error {
				v, err := journal.ReadTrust(tx)
				require.Equal(t, epoch, v.Epoch)
				return err
			}))
			got := must.Get(w.gate.Request(w.ctx, r.ID))(t)
			require.NotEqual(t, op.StateSucceeded, got.Step.State)
		})
	}
}

// TestRotationToKeysThatAreNotValid: a role with a key must keep one that is valid
// now and for a day.
func TestRotationToKeysThatAreNotValid(t *testing.T) {
	t.Parallel()
	w := rotating(t)
	dave, line := newKey("dave"), newKey("dave").line("operational@gated")
	all := []string{alice.print(), bob.print()}
	for name, a := range map[string]op.Ask{
		"valid in a minute":          rotate(2, []string{within(line, "valid-after", w.Now().Add(time.Minute))}, all),
		"valid in two days":          rotate(2, []string{within(line, "valid-after", w.Now().Add(48*time.Hour))}, all),
		"valid for an hour":          rotate(2, []string{within(line, "valid-before", w.Now().Add(time.Hour))}, all),
		"valid a second ago":         rotate(2, []string{within(line, "valid-before", w.Now().Add(-time.Second))}, all),
		"a CA that is not valid yet": rotate(2, []string{strings.Replace(within(line, "valid-after", w.Now().Add(time.Minute)), " ", " cert-authority,", 1)}, all),
	} {
		must.Fail(w.submit(a))(t, refusal.BadParams, name)
	}
	require.Equal(t, int64(1), w.gate.Epoch())

	// The last operator's key ends within a day, so the rule of a day does not
	// apply. Its successor must be valid now.
	text := within(alice.line("operational@gated"), "valid-before", w.Now().Add(time.Hour)) + rita.line("recovery@gated")
	trust := must.Get(authz.LoadTrust([]byte(text)))(t)
	for line, ok := range map[string]bool{
		within(dave.line("operational@gated"), "valid-after", w.Now().Add(time.Minute)):    false,
		within(dave.line("operational@gated"), "valid-before", w.Now().Add(2*time.Minute)): true,
	} {
		_, err := trust.Rotate([]string{strings.TrimSpace(line)}, []string{alice.print()}, w.Now())
		if ok {
			require.NoError(t, err, line)
			continue
		}
		require.ErrorIs(t, err, refusal.BadParams, line)
	}
}
