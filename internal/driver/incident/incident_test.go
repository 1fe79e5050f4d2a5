package incident_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/driver/incident"
	"gated/internal/gate"
	"gated/internal/log/journal"
	"gated/internal/test/gateworld"
	"gated/internal/test/must"
)

// fakeGate has the incidents that a test gives it. The gate's own tests review with the real one.
type fakeGate struct {
	in  journal.Incidents
	err error
}

func (fakeGate) ID() op.GateID                                           { return gateworld.ID }
func (g *fakeGate) Incidents(context.Context) (journal.Incidents, error) { return g.in, g.err }
func (g *fakeGate) Review(context.Context, gate.Permit) error            { return g.err }

func broken(job op.JobID, state op.State) journal.Incident {
	id := op.StepID{Job: job, Index: 1}
	return journal.Incident{At: time.Unix(1700000000, 0), Request: op.Request{ID: id,
		Step:       op.Step{ID: id, Op: "guest.destroy", Target: op.Target{Kind: op.KindGuest, Name: "db-1"}, State: state},
		Signatures: []op.Signed{{Principal: "greta", Role: op.BreakGlass, Reason: "the disk\nis full"}}}}
}

func TestTheFingerprintIsOfWhatHasEnded(t *testing.T) {
	g := &fakeGate{}
	d := incident.New(g)
	require.Equal(t, op.KindIncident, d.Kind())
	none := must.Get(d.Observe(t.Context(), op.At(op.Incidents)))(t)
	require.True(t, none.Present)
	require.Empty(t, none.Facts)
	require.Equal(t, op.Incarnation(gateworld.ID), none.Incarnation)

	g.in.UnderWay = []journal.Incident{broken(7, op.StateAuthorized)}
	waits := must.Get(d.Observe(t.Context(), op.At(op.Incidents)))(t)
	require.Equal(t, none.Fingerprint, waits.Fingerprint)
	require.Contains(t, waits.Facts[0].Text, "it has not ended, and stays open")

	g.in = journal.Incidents{Ended: []journal.Incident{broken(7, op.StateSucceeded)}, ReviewedBy: op.StepID{Job: 5, Index: 1}}
	ended := must.Get(d.Observe(t.Context(), op.At(op.Incidents)))(t)
	require.NotEqual(t, none.Fingerprint, ended.Fingerprint)
	require.Equal(t, op.Params{"reviewed_by": "j5.1"}, ended.Spec)
	require.Equal(t, []op.Fact{{Name: "j7.1", Text: `guest.destroy of guest/db-1: succeeded; approved at 2023-11-14T22:13:20Z by greta as breakglass; greta said "the disk\nis full"`}}, ended.Facts)
	g.in.Ended[0].Request.Step.State = op.StateFailed
	require.NotEqual(t, ended.Fingerprint, must.Get(d.List(t.Context()))(t)[0].Fingerprint)

	g.err = errors.New("the database")
	must.Fail(d.Observe(t.Context(), op.At(op.Incidents)))(t, g.err)
}

func TestThereIsNoOtherTargetAndNoOtherWork(t *testing.T) {
	d := incident.New(&fakeGate{})
	require.False(t, must.Get(d.Observe(t.Context(), op.At(op.Target{Kind: op.KindIncident, Name: "closed"})))(t).Present)
	_, _, err := d.Prepare(t.Context(), op.Step{Op: "guest.destroy", Target: op.Incidents}, nil)
	require.ErrorIs(t, err, refusal.UnknownOp)
	must.Fail(d.Task(t.Context(), "x"))(t, refusal.UnknownTarget)
}
