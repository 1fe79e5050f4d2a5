package matrix_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/refusal"
	"gated/internal/gate"
	"gated/internal/test/must"
)

// floodRows are U09: what one uid may do without a signature, as often as it likes,
// stops nothing that operators signed.
var floodRows = []attack{
	{id: "U09a", what: "an agent at its limit of requests asks for commands on and on, each of which is probed", want: refusal.OverLimit, run: func(w *world) error {
		w.rules.OpenPerSource = 2
		w.reload()
		c := w.withPrograms()
		c.write("probe", "#!"+c.path("sh")+"\necho probed >> "+c.path("probes")+"\necho nothing else\n")
		for i := range 2 {
			must.Get(w.submit(builder, purge("what", fmt.Sprint(i))))(w.t)
		}
		w.arm()
		before := must.Get(os.ReadFile(c.path("probes")))(w.t)
		var err error
		for i := range 20 {
			_, err = w.submit(builder, purge("what", fmt.Sprint(10+i)))
			require.ErrorIs(w.t, err, refusal.OverLimit)
		}
		require.Equal(w.t, before, must.Get(os.ReadFile(c.path("probes")))(w.t), "a probe ran before the limit was looked at")
		require.NoFileExists(w.t, c.ran())
		return err
	}},
	{id: "U09b", what: "a body of 1 MiB, all of it empty objects", want: refusal.TooComplex, run: func(w *world) error {
		socket := w.serve()
		w.arm()
		const head, tail = `{"steps":[`, `{}]}`
		return problem(w.t, w.callAs(socket, "POST", "/v1/jobs", head+strings.Repeat("{},", 8192)+tail, "application/json"))
	}},
	{id: "U09c", what: "a user has the gate write large labels on and on", want: refusal.OverLimit, run: func(w *world) error {
		w.limit(gate.Quotas{JournalBytes: 256 << 10}, nil)
		w.arm()
		// It is counted, because an entry for each would be what the quota is against.
		w.allow.unlogged = "refusals of one user are counted"
		large := labels()
		for i := range 4 {
			large[fmt.Sprint("l", i)] = strings.Repeat("x", 4000)
		}
		var err error
		for i := 0; err == nil && i < 100; i++ {
			var j op.Job
			if j, err = w.submit(other, ask("guest.set-config", "victim", "labels", large)); err == nil {
				must.Get(w.gate.Cancel(w.ctx, other, j.ID))(w.t)
			}
		}
		return err
	}},
	{id: "U09d", what: "a user takes snapshots of one guest on and on, through its agents", want: refusal.OverLimit, run: func(w *world) error {
		w.limit(gate.Quotas{Snapshots: 2}, nil)
		for i := range 2 {
			w.first("guest.snapshot", "victim", "snapshot", fmt.Sprint("s", i))
		}
		w.arm()
		must.Fail(w.submit(builder, ask("guest.snapshot", "victim", "snapshot", "more")))(w.t, refusal.OverLimit)
		_, err := w.submit(tester, ask("guest.create", "new"), ask("guest.snapshot", "victim", "snapshot", "more"))
		return err
	}},
	{id: "U09e", what: "unsigned work while the disk is low", want: refusal.Unavailable, run: func(w *world) error {
		var room lowRoom
		w.limit(gate.Quotas{}, &room)
		r := w.request(ask("guest.snapshot-delete", "victim", "snapshot", w.snapshot()))
		begun := must.Get(w.submit(builder, ask("guest.create", "new")))(w.t)
		room.low.Store(true)
		w.arm()
		w.allow.unlogged, w.allow.runs = "an entry would take what is kept for signed work", true
		require.ErrorIs(w.t, w.executor().execute(w.ctx, begun.Steps[0].ID), refusal.Unavailable, "what is admitted waits as well")
		_, err := w.submit(builder, ask("guest.create", "another"))
		w.unchanged()
		require.Equal(w.t, op.StatePending, w.reread(r.ID).Step.State)
		room.low.Store(false)
		must.Get(w.gate.Cancel(w.ctx, builder, begun.ID))(w.t)
		return err
	}},
	{id: "U09f", what: "a job changes the guest while an operator reads what the guest is", want: refusal.Code(op.StatePlanned), run: func(w *world) error {
		r := w.destroyRequest()
		require.NoError(w.t, w.gate.ShowPayload(w.ctx, r.ID))
		w.armUnlogged("the step waits, and is refused nothing")
		j := must.Get(w.submit(builder, ask("guest.set-config", "victim", "labels", labels("tier", "prod"))))(w.t)
		_ = w.runAll()
		require.Equal(w.t, r.Payload, w.reread(r.ID).Payload)
		state := w.stepOf(j.Steps[0].ID).State
		must.Get(w.gate.Cancel(w.ctx, builder, j.ID))(w.t)
		return refusal.Code(state)
	}},
}

// limit opens the host again with quotas and a room.
func (w *world) limit(q gate.Quotas, r gate.Room) {
	w.t.Helper()
	w.shut()
	w.quotas, w.room = q, r
	w.open()
}

// snapshot gives the victim a snapshot and returns its name.
func (w *world) snapshot() string {
	w.first("guest.snapshot", "victim", "snapshot", "s")
	return "s"
}

// lowRoom is a disk that a row makes low.
type lowRoom struct{ low atomic.Bool }

func (r *lowRoom) Admit(int64) error {
	if r.low.Load() {
		return refusal.New(refusal.Unavailable, "the disk is low")
	}
	return nil
}

func (r *lowRoom) Make(bool) bool { return false }
func (r *lowRoom) Committed()     {}
