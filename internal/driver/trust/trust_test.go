package trust_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/base/store"
	"gated/internal/driver"
	"gated/internal/driver/trust"
	"gated/internal/gate"
	"gated/internal/host/fsck/fscktest"
	"gated/internal/log/journal"
	"gated/internal/test/gateworld"
	"gated/internal/test/mint"
	"gated/internal/test/must"
)

const gateID = gateworld.ID

var noon = gateworld.Noon

// world is a gate at epoch 1, with alice as operator and vault as recovery key, and the driver
// over it.
type world struct {
	*trust.Driver
	t            *testing.T
	gate         *gate.Gate
	alice, vault mint.Key
	changed      int
	asked        int                                                        // number of calls of InForce
	rotate       func(context.Context, gate.Permit) (authz.Rotation, error) // if not nil, it replaces the gate's
}

// The world is the driver's gate and passes calls on to the real one.
func (w *world) ID() op.GateID { return w.gate.ID() }
func (w *world) InForce() (*authz.Trust, int64) {
	w.asked++
	return w.gate.InForce()
}
func (w *world) Rotate(ctx context.Context, p gate.Permit) (authz.Rotation, error) {
	if w.rotate != nil {
		return w.rotate(ctx, p)
	}
	return w.gate.Rotate(ctx, p)
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, alice: mint.Ed25519(t, "alice"), vault: mint.Ed25519(t, "vault")}
	w.Driver = trust.New(w, "init", func(context.Context) { w.changed++ })
	s := fscktest.Open(t, filepath.Join(t.TempDir(), "gated.db"), store.Options{Migrations: gate.Migrations()})
	text := []byte("# signers\n" + line(w.alice, "alice", op.Operational) + "\n" + line(w.vault, "vault", op.Recovery) + "\n")
	loaded := gateworld.Trust(t, string(text))
	require.NoError(t, s.Update(t.Context(), func(tx *store.Tx) error {
		return journal.AddTrust(tx, journal.TrustVersion{Epoch: 1, Text: text, How: "init", At: noon})
	}))
	w.gate = gateworld.New(t, s, gateworld.Still, gate.Config{Observer: w.Driver, Host: "host", Trust: loaded, Epoch: 1})
	require.NoError(t, w.gate.Log(t.Context(), gate.RotatedEntry("init", authz.Rotation{Trust: loaded}, journal.TrustVersion{Epoch: 1})))
	return w
}

func line(k mint.Key, principal string, role op.Role) string {
	return principal + ` namespaces="` + role.Namespace() + `" ` + k.Text()
}

func (w *world) look() op.Observed {
	w.t.Helper()
	return must.Get(w.Observe(w.t.Context(), op.At(op.Signers)))(w.t)
}

// permit is a permit for a rotation that adds bob, with all signatures.
func (w *world) permit() gate.Permit {
	w.t.Helper()
	bob := mint.Ed25519(w.t, "bob")
	by := op.Requester{Source: op.SourceAPI, UID: 1}
	j, err := w.gate.Submit(w.t.Context(), op.Submission{Requester: by, Steps: []op.Ask{{Op: "trust.rotate", Target: op.Signers,
		Params: op.Params{"epoch": int64(2), "add": []any{line(bob, "bob", op.Operational)}}}}})
	require.NoError(w.t, err)
	id := j.Steps[0].ID
	r := must.Get(w.gate.Request(w.t.Context(), id))(w.t)
	must.Get(w.gate.Approve(w.t.Context(), by, id, gateworld.Signed(w.t, r.Payload, bob, w.alice)))(w.t)
	return must.Get(w.gate.Permit(w.t.Context(), id))(w.t)
}

func TestObserve(t *testing.T) {
	w := newWorld(t)
	o := w.look()
	require.Equal(t, 1, w.asked, "of one moment: with each other text the epoch is another")
	require.True(t, o.Present)
	require.Equal(t, op.Incarnation(gateID), o.Incarnation)
	require.Equal(t, op.Params{"epoch": int64(1), "made_by": "init"}, o.Spec)
	require.Equal(t, []op.Fact{{Name: "epoch", Text: "1"},
		{Name: "key", Text: "alice operational " + w.alice.Fingerprint() + ", software key"},
		{Name: "key", Text: "vault recovery " + w.vault.Fingerprint() + ", software key"}}, o.Facts)
	require.Equal(t, []op.Observed{o}, must.Get(w.List(t.Context()))(t))

	other := must.Get(w.Observe(t.Context(), op.At(op.Target{Kind: op.KindTrust, Name: "others"})))(t)
	require.False(t, other.Present)
	must.Fail(w.Task(t.Context(), "x"))(t, refusal.UnknownTarget)
}

func TestDescribe(t *testing.T) {
	sk := mint.SKEd25519(t, "sk", mint.Authenticator{Application: "ssh:"})
	for text, want := range map[string]string{
		`a namespaces="operational@gated",valid-after="20260101Z",valid-before="20270101Z" ` + sk.Text(): "a operational " + sk.Fingerprint() +
			", security key, from 2026-01-01T00:00:00Z, until 2027-01-01T00:00:00Z",
		`*@example.com cert-authority,namespaces="operational@gated" ` + sk.Text(): "*@example.com operational " + sk.Fingerprint() + " cert-authority",
	} {
		loaded := must.Get(authz.LoadTrust([]byte(text)))(t)
		require.Equal(t, want, trust.Describe(loaded.Signers()[0]))
	}
}

func TestRotates(t *testing.T) {
	w := newWorld(t)
	before := w.look()
	p := w.permit()
	require.Empty(t, must.Get(driver.Run(t.Context(), p, w))(t))
	require.Equal(t, 1, w.changed)
	o := w.look()
	require.Equal(t, op.Params{"epoch": int64(2), "made_by": p.Step().ID.String()}, o.Spec)
	require.Equal(t, before.Incarnation, o.Incarnation)
	require.NotEqual(t, before.Fingerprint, o.Fingerprint)
	s := must.Get(w.gate.Record(t.Context(), p.Step().ID, gate.Outcome{After: &o}))(t)
	require.Equal(t, op.StateSucceeded, s.State)
	must.Err(driver.Run(t.Context(), p, w))(t, "a permit works once")
	require.Equal(t, 1, w.changed)
}

// TestRotateThatFails: after a refusal nothing has changed. After any other error the result is
// not known, and a later look shows it.
func TestRotateThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		done    bool
		unknown bool
	}{
		"refused":                    {refusal.New(refusal.BadParams, "no"), false, false},
		"not written":                {refusal.New(refusal.Unavailable, "disk"), false, true},
		"written, and then an error": {refusal.New(refusal.Unavailable, "disk"), true, true},
		"something else":             {errors.New("what"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.rotate = func(ctx context.Context, p gate.Permit) (authz.Rotation, error) {
				if c.done {
					must.Get(w.gate.Rotate(ctx, p))(t)
				}
				return authz.Rotation{}, c.err
			}
			p := w.permit()
			_, err := driver.Run(t.Context(), p, w)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.unknown, driver.IsUnknown(err))
			want := op.Params{"epoch": int64(1), "made_by": "init"}
			if c.done {
				want = op.Params{"epoch": int64(2), "made_by": p.Step().ID.String()}
			}
			require.Equal(t, want, w.look().Spec)
			require.Equal(t, c.done, w.changed == 1)
		})
	}
}
