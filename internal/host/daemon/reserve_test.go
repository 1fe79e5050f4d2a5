package daemon_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hiddeco/sshsig"
	"github.com/stretchr/testify/require"

	"gated/client/api"
	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/test/must"
)

// reserved is the size of the reserve, in bytes.
func (w *world) reserved() int64 {
	w.t.Helper()
	return must.Get(os.Stat(filepath.Join(w.state, "reserve")))(w.t).Size()
}

// rejectRequest hands in a signed rejection.
func (w *world) rejectRequest(id string) error {
	w.t.Helper()
	payload := must.Get(w.client.Payload(w.t.Context(), id))(w.t)
	p := must.Get(op.DecodePayload(payload))(w.t)
	which := must.Get(op.ParseStepID(id))(w.t)
	now := time.Now().UTC().Truncate(time.Second)
	b, err := op.Rejection{Gate: p.Gate, Host: p.Host, Request: which, PayloadSHA256: op.SHA256(payload), Nonce: op.NewNonce(time.Now()), IssuedAt: now,
		ExpiresAt: now.Add(time.Minute)}.Encode()
	require.NoError(w.t, err)
	sig := must.Get(sshsig.Sign(bytes.NewReader(b), w.signer, sshsig.HashSHA512, op.Operational.Namespace()))(w.t)
	_, err = w.client.Reject(w.t.Context(), id, api.EnvelopeOf(b, string(sshsig.Armor(sig))))
	return err
}

// untilWhole waits until the reserve has its size again.
func (w *world) untilWhole(size int64) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.reserved() == size }, patience, 20*time.Millisecond)
}

// signedWorkGoesOn approves one request to its end, and rejects another one.
func (w *world) signedWorkGoesOn(approved, rejected string) {
	w.t.Helper()
	require.NoError(w.t, w.approve(approved))
	j := w.endOf(approved)
	require.Equal(w.t, op.StateSucceeded, j.State, "%+v", j)
	g := must.Get(w.client.Guest(w.t.Context(), strings.TrimPrefix(j.Steps[0].Target, "guest/")))(w.t)
	require.Equal(w.t, "absent", g.State)
	require.NoError(w.t, w.rejectRequest(rejected))
	require.Equal(w.t, op.StateRejected, must.Get(w.client.Request(w.t.Context(), rejected))(w.t).State)
}

// Another program fills the disk to the last byte, again and again: what is signed
// is decided, runs and is recorded.
func fullBesideTheGate(t *testing.T) int {
	w := newDiskWorld(t)
	w.init()
	s := w.start()
	whole := w.reserved()
	require.NotZero(t, whole)
	const rounds = 3
	var approved, rejected []string
	for i := range rounds {
		approved = append(approved, w.waiting(fmt.Sprint("a", i)))
		rejected = append(rejected, w.waiting(fmt.Sprint("b", i)))
	}
	for i := range rounds {
		w.fill(0)
		for _, a := range []api.Submit{ask("guest.create", "more"), ask("guest.destroy", "b0")} {
			must.Fail(w.client.Submit(t.Context(), a, ""))(t, refusal.Unavailable)
		}
		require.Equal(t, whole, w.reserved(), "what nobody signed takes nothing of the reserve")
		h := w.health("disk")
		require.False(t, h.OK)
		require.Contains(t, h.Detail, "only signed work")
		require.Contains(t, h.Detail, "Make room: df "+w.state+"; ")
		if j := w.health("journal"); !j.OK { // the reserve is whole, so it must not say that nothing goes on
			require.Contains(t, j.Detail, "so only signed work goes on, with the reserve (see disk)")
		}
		w.signedWorkGoesOn(approved[i], rejected[i])
		require.Less(t, w.reserved(), whole)
		w.free()
		require.NoError(t, s.cmd.Process.Signal(syscall.SIGHUP))
		w.untilWhole(whole)
		require.True(t, w.health("disk").OK)
		require.Equal(t, op.StateSucceeded, w.submit(ask("guest.create", fmt.Sprint("c", i))).State)
	}
	code, log := s.stop()
	require.Zero(t, code, log)
	w.sound()
	return rounds
}

// One uid hands in jobs until the gate takes no more.
func fullThroughTheGate(t *testing.T) int {
	w := newDiskWorld(t)
	w.init()
	w.config("limits: {journal_quota: 1024}") // the quota is not what stops it
	s := w.start()
	whole := w.reserved()
	approved, rejected := w.waiting("a"), w.waiting("b")
	labels := map[string]any{}
	for i := range 60 {
		labels[fmt.Sprint("l", i)] = strings.Repeat("x", 250)
	}
	taken := 0
	for refused := 0; refused < 3; {
		_, err := w.client.Submit(t.Context(), ask("guest.create", fmt.Sprint("n", taken), "labels", labels), "")
		if err == nil {
			taken++
			require.Less(t, taken, 5000, "the gate takes more than the disk holds")
			continue
		}
		require.ErrorIs(t, err, refusal.Unavailable)
		refused++
	}
	require.Greater(t, taken, 20)
	for small := 0; ; small++ { // until there is no room for the smallest, either
		_, err := w.client.Submit(t.Context(), ask("guest.create", fmt.Sprint("s", small)), "")
		if err != nil {
			require.ErrorIs(t, err, refusal.Unavailable)
			break
		}
		require.Less(t, small, 500)
	}
	w.signedWorkGoesOn(approved, rejected)
	require.Equal(t, whole, w.reserved(), "the threshold is enough where the gate alone writes")
	s.stop()
	w.sound()
	return taken
}

func fullAtStartWithReserve(t *testing.T) int {
	w := newDiskWorld(t)
	w.init()
	s := w.start()
	approved, rejected := w.waiting("a"), w.waiting("b")
	code, log := s.stop()
	require.Zero(t, code, log)
	w.fill(0)
	s = w.start()
	w.signedWorkGoesOn(approved, rejected)
	code, log = s.stop()
	require.Zero(t, code, log)
	w.sound()
	return 1
}
