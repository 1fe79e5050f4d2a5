// Package trust is the driver of the single target trust/signers: the file that says which
// operators may approve which steps. A rotation of that file takes effect here.
package trust

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"gated/internal/authz"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver"
	"gated/internal/gate"
)

// Gate is the part of a gate that the driver needs; *gate.Gate implements it.
type Gate interface {
	ID() op.GateID
	InForce() (*authz.Trust, int64)
	Rotate(ctx context.Context, p gate.Permit) (authz.Rotation, error)
}

// Driver is the trust driver. It is safe for concurrent use.
type Driver struct {
	gate    Gate
	changed func(context.Context)

	mu  sync.Mutex
	how string
}

var _ driver.Driver = (*Driver)(nil)

// New returns the driver. how says what made the version in force, as in journal.TrustVersion.
// The driver calls changed after each rotation to write the file. If that fails, the rotation
// still counts.
func New(g Gate, how string, changed func(context.Context)) *Driver {
	return &Driver{gate: g, how: how, changed: changed}
}

// Kind returns "trust".
func (*Driver) Kind() string { return op.KindTrust }

// Observe looks at the signers in force. This kind has no other target.
func (d *Driver) Observe(_ context.Context, l op.Look) (op.Observed, error) {
	t := l.Target
	if t != op.Signers {
		return op.Observed{Target: t}, nil
	}
	trust, epoch := d.gate.InForce()
	return op.Observed{Target: t, Present: true, Incarnation: op.Incarnation(d.gate.ID()), Fingerprint: fingerprint(epoch, trust.Text()),
		Spec: op.Params{"epoch": epoch, "made_by": d.madeBy()}, Facts: facts(trust, epoch)}, nil
}

func (d *Driver) madeBy() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.how
}

// fingerprint covers the epoch and every byte of the file.
func fingerprint(epoch int64, text []byte) op.Fingerprint {
	return op.FingerprintOf(append(fmt.Appendf(nil, "trust epoch %d\n", epoch), text...))
}

// facts are what operators should see before they sign a rotation.
func facts(trust *authz.Trust, epoch int64) []op.Fact {
	out := []op.Fact{{Name: "epoch", Text: fmt.Sprint(epoch)}}
	for _, l := range trust.Signers() {
		out = append(out, op.Fact{Name: "key", Text: Describe(l)})
	}
	return out
}

// Describe describes a line without its key: its owner, its roles, the type of the key, and
// until when it is valid.
func Describe(l authz.Listed) string {
	parts := []string{l.String()}
	switch {
	case l.CA: // String says that
	case l.Passkey != "":
		parts = append(parts, "passkey of "+l.Passkey)
	case l.Software:
		parts = append(parts, "software key")
	default:
		parts = append(parts, "security key")
	}
	if !l.ValidAfter.IsZero() {
		parts = append(parts, "from "+l.ValidAfter.UTC().Format(time.RFC3339))
	}
	if !l.ValidBefore.IsZero() {
		parts = append(parts, "until "+l.ValidBefore.UTC().Format(time.RFC3339))
	}
	return strings.Join(parts, ", ")
}

// List returns the signers.
func (d *Driver) List(ctx context.Context) ([]op.Observed, error) {
	o, err := d.Observe(ctx, op.At(op.Signers))
	return []op.Observed{o}, err
}

// Prepare looks at the signers. Its action rotates them.
func (d *Driver) Prepare(ctx context.Context, step op.Step, _ func(func())) (op.Observed, driver.Action, error) {
	if step.Op != op.Rotate {
		return op.Observed{}, driver.Action{}, refusal.New(refusal.UnknownOp, "the trust driver does not know %q", step.Op)
	}
	now, err := d.Observe(ctx, step.Look())
	return now, driver.DoesWith(d.rotate), err
}

// rotate makes the gate accept the new version. When rotate returns nil, the version is in
// force and in the database on disk.
func (d *Driver) rotate(ctx context.Context, used gate.Permit) (driver.Result, error) {
	_, before := d.gate.InForce()
	_, err := d.gate.Rotate(ctx, used)
	if _, after := d.gate.InForce(); after != before { // also if only work after the commit failed
		d.mu.Lock()
		d.how = used.Step().ID.String()
		d.mu.Unlock()
		d.changed(ctx)
	}
	switch refusal.CodeOf(err) {
	case "", refusal.BadParams, refusal.NotAllowed:
		return driver.Result{}, err // the gate refused and changed nothing
	default:
		return driver.Result{}, driver.Unknown(err)
	}
}

// Task reports that there is no such task, because a rotation is done when its action returns.
func (*Driver) Task(_ context.Context, task string) (driver.Progress, error) {
	return driver.Progress{}, refusal.New(refusal.UnknownTarget, "there is no task %q", task)
}
