package gate_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// copies is a back end that says when each snapshot was made.
type copies struct {
	*backend
	made map[string]time.Time // by the snapshot's name
}

func (c copies) Observe(ctx context.Context, l op.Look) (op.Observed, error) {
	o, err := c.backend.Observe(ctx, l)
	name := l.Params.Str("snapshot")
	switch spec, _ := op.Lookup(l.Op); {
	case spec.Copy == "backup":
		o.Copy = &op.Copy{Kind: "backup", Name: l.Params.Str("backup"), Made: c.made["backup"]}
	case spec.Copy == "":
	case !slices.Contains(o.Snapshots, name):
		o.Missing = "there is no snapshot " + name
	case name != "untold":
		o.Copy = &op.Copy{Kind: "snapshot", Name: name, Made: c.made[name]}
	}
	return o, err
}

func newCopiesWorld(t *testing.T) (*world, copies) {
	t.Parallel()
	c := copies{newBackend(), map[string]time.Time{}}
	w := newWorldOn(t, c)
	w.back = c.backend
	return w, c
}

func factOf(r op.Request, name string) string {
	for _, f := range r.Facts {
		if f.Name == name {
			return f.Text
		}
	}
	return ""
}

// TestMakerOfACopy: this gate's own records say who made a snapshot, never its name
// alone.
func TestMakerOfACopy(t *testing.T) {
	w, c := newCopiesWorld(t)
	w.back.put("db")
	took := w.mustSubmit(ask("guest.snapshot", "db", "snapshot", "ours"))
	w.run()
	c.made["ours"] = w.Now()
	w.Pass(time.Hour)
	w.back.change("db", func(o *op.Observed) { o.Snapshots = append(o.Snapshots, "theirs", "untold", "undated") })
	c.made["theirs"] = w.Now()
	const others = "other hands than this gate's: it has no record of a step that made it"
	restore := func(name string) op.Request { return w.request(ask("guest.restore", "db", "snapshot", name)) }

	require.Equal(t, "uid:1000 by "+took.Steps[0].ID.String(), factOf(restore("ours"), "snapshot made by"))
	require.Equal(t, others, factOf(restore("theirs"), "snapshot made by"))
	require.Equal(t, "not known: the back end does not say when it was made", factOf(restore("undated"), "snapshot made by"))
	require.Equal(t, "the back end tells nothing of it", factOf(restore("untold"), "snapshot"))
	deleting := w.request(ask("guest.snapshot-delete", "db", "snapshot", "ours"))
	require.Equal(t, "uid:1000 by "+took.Steps[0].ID.String(), factOf(deleting, "snapshot made by"))

	// Another snapshot with our name: ours was deleted, and this one was made
	// outside the gate.
	c.made["ours"] = w.Now()
	shown := must.Get(w.gate.Shown(w.ctx, deleting.ID))(t)
	require.Equal(t, others, factOf(shown, "snapshot made by"))

	// A guest of another name does not matter.
	w.back.put("web")
	w.back.change("web", func(o *op.Observed) { o.Snapshots = []string{"ours"} })
	c.made["ours"] = w.Now().Add(-time.Hour)
	require.Equal(t, others, factOf(w.request(ask("guest.restore", "web", "snapshot", "ours")), "snapshot made by"))

	require.Empty(t, factOf(w.request(ask("guest.destroy", "web")), "snapshot made by"))
}

// TestABackupIsMadeByTheStepOfItsTime: a back end names its backups itself.
func TestABackupIsMadeByTheStepOfItsTime(t *testing.T) {
	w, c := newCopiesWorld(t)
	w.back.put("db")
	took := w.mustSubmit(ask("guest.backup", "db"))
	w.run()
	for _, at := range []struct {
		after time.Duration
		want  string
	}{
		{0, "uid:1000 by " + took.Steps[0].ID.String()},
		{2 * time.Minute, "uid:1000 by " + took.Steps[0].ID.String()},
		{-2 * time.Minute, "uid:1000 by " + took.Steps[0].ID.String()},
		{2*time.Minute + time.Second, "other hands than this gate's: it has no record of a step that made it"},
		{-2*time.Minute - time.Second, "other hands than this gate's: it has no record of a step that made it"},
	} {
		c.made["backup"] = w.Now().Add(at.after)
		_, facts := must.Two(w.gate.Explain(w.ctx, hub, ask("guest.backup-restore", "db", "backup", "b1")))(t)
		require.Equal(t, at.want, factOf(op.Request{Facts: facts}, "backup made by"), at.after)
	}
}

// TestOneRequestsLookIsNotAnothers: what is missing for one step of a target must
// not end requests for parts that are still there.
func TestOneRequestsLookIsNotAnothers(t *testing.T) {
	w, c := newCopiesWorld(t)
	w.back.put("db")
	w.back.change("db", func(o *op.Observed) { o.Snapshots = []string{"a", "b"} })
	c.made["a"], c.made["b"] = w.Now(), w.Now().Add(time.Hour)
	first := w.request(ask("guest.restore", "db", "snapshot", "a"))
	second := w.request(ask("guest.restore", "db", "snapshot", "b"))
	w.back.change("db", func(o *op.Observed) { o.Snapshots = []string{"b"} })
	require.NoError(t, w.gate.Refresh(w.ctx, op.Target{Kind: "guest", Name: "db"}))
	require.Equal(t, op.StateSuperseded, w.again(first).Step.State)
	now := w.again(second)
	require.Equal(t, op.StatePending, now.Step.State, "b is still there")
	require.Equal(t, factOf(second, "snapshot made by"), factOf(now, "snapshot made by"))
	require.NotEqual(t, second.Nonce, now.Nonce, "it is issued anew for what is there now")
}

// TestARotationNamesNewPeople: the facts are shown with the request and are in the
// digest of the audit log.
func TestARotationNamesNewPeople(t *testing.T) {
	w := rotating(t)
	eve := newKey("eve")
	line := eve.line("operational@gated")
	r := w.request(op.Ask{Op: op.Rotate, Target: signers, Params: op.Params{"epoch": int64(2), "add": []any{line[:len(line)-1]}}})
	require.Equal(t, "eve: no line names them now, and they could sign as operational", factOf(r, "NEW person"))

	odd := line[3:]
	_, err := w.submit(op.Ask{Op: op.Rotate, Target: signers, Params: op.Params{"epoch": int64(2), "add": []any{"\u0435ve" + odd[:len(odd)-1]}}})
	require.ErrorIs(t, err, refusal.BadParams)
	require.Contains(t, err.Error(), `"\u0435ve" is not in ASCII alone`)
}
