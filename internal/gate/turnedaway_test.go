package gate_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// missing is the gate's answer for a request that is not there, and the same for its job.
func (w *world) missing(id op.RequestID) *refusal.Refusal {
	w.t.Helper()
	_, err := w.gate.Request(w.ctx, id)
	require.ErrorIs(w.t, err, refusal.UnknownTarget)
	_, ofJob := w.gate.Job(w.ctx, id.Job)
	_, ofShown := w.gate.ShownJob(w.ctx, id.Job)
	r := refusal.As(err)
	for _, other := range []error{ofJob, ofShown} {
		require.Equal(w.t, strings.Replace(r.Detail, "request "+id.String(), "job "+id.Job.String(), 1), refusal.As(other).Detail)
	}
	return r
}

// TestWhoIsSentToARefusedSubmissionIsToldOfIt: whatever refuses a submission, who looks for its request finds out.
func TestWhoIsSentToARefusedSubmissionIsToldOfIt(t *testing.T) {
	m := mounted{newBackend(), map[string]string{"db": "/mnt"}}
	w := newWorldOn(t, m)
	w.back = m.backend
	m.put("db")
	m.put("web")
	next := op.RequestID{Job: 1, Index: 1}
	require.Equal(t, "there is no request j1.1: there is no job yet", w.missing(next).Detail)
	w.setHolds(time.Hour)
	w.mustReject(w.request(ask("guest.wipe", "web")))
	next.Job = 2
	require.Equal(t, "there is no request j2.1: the newest job is j1", w.missing(next).Detail)

	for name, c := range map[string]struct {
		asks         []op.Ask
		detail, hint string
	}{
		"it cannot be": {[]op.Ask{ask("guest.destroy", "db")},
			"guest.destroy of guest/db: conflict: guest.destroy would reach through /mnt", "the gate told who asked: unmount it first"},
		"it is missing":  {[]op.Ask{ask("guest.stop", "nope")}, "guest.stop of guest/nope: unknown_target: there is no guest/nope", "the gate told who asked: gated guests"},
		"bad parameters": {[]op.Ask{ask("guest.stop", "db", "force", "yes")}, "guest.stop of guest/db: bad_params: ", ""},
		"two steps":      {[]op.Ask{ask("guest.stop", "db"), ask("guest.stop", "nope")}, "a job of 2 steps, which begins with guest.stop of guest/db: unknown_target: step 2: ", ""},
		"a policy":       {[]op.Ask{ask("guest.wipe", "web")}, "guest.wipe of guest/web: rejected_before: ", ""},
		"others' words": {[]op.Ask{ask("go on: run this", "db is fine\x1b[2J\nsign")},
			`"go on: run this" of "guest/db is fine\x1b[2J\nsign": unknown_op: `, ""},
		"no step": {nil, "a job without steps: bad_params: ", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.submit(c.asks...)
			require.Error(t, err)
			w.Pass(3 * time.Second)
			r := w.missing(next)
			require.Contains(t, r.Detail, "there is no request j2.1: the newest job is j1. 3s ago the gate refused "+c.detail)
			require.Contains(t, r.Detail, refusal.CodeOf(err).Error())
			require.Contains(t, r.Hint, c.hint)
			require.True(t, op.Shows(r.Detail+r.Hint), r.Detail)
		})
	}
}

// TestWhatWasRefusedBeforeTheNewestJob: nothing is said of it, nor for an id that a job could have, nor after a restart.
func TestWhatWasRefusedBeforeTheNewestJob(t *testing.T) {
	w := newWorld(t, "web")
	must.Get(w.submit(ask("guest.stop", "web")))(t)
	_, err := w.submit(ask("guest.stop", "nope"))
	require.ErrorIs(t, err, refusal.UnknownTarget)
	require.Equal(t, "there is no request j1.9", refusal.As(must.Err(w.gate.Request(w.ctx, op.RequestID{Job: 1, Index: 9}))(t)).Detail)
	require.Contains(t, w.missing(op.RequestID{Job: 2, Index: 1}).Detail, "the gate refused guest.stop of guest/nope")

	w.Pass(time.Second)
	must.Get(w.submit(ask("guest.destroy", "web")))(t)
	require.Equal(t, "there is no request j3.1: the newest job is j2", w.missing(op.RequestID{Job: 3, Index: 1}).Detail)

	_, err = w.submit(ask("guest.stop", "nope"))
	require.ErrorIs(t, err, refusal.UnknownTarget)
	w.restart()
	require.Equal(t, "there is no request j3.1: the newest job is j2", w.missing(op.RequestID{Job: 3, Index: 1}).Detail)
}
