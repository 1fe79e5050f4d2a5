package bench

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/base/op"
	"gated/internal/base/store"
)

func tiny(t *testing.T) *bench {
	return &bench{Options: Options{Dir: t.TempDir(), Progress: t.Output()}, ctx: t.Context(), size: small, keys: newKeys()}
}

// TestWhatIsMeasuredIsDone sends a small load through a server and checks the
// database, both with the functions of the bench.
func TestWhatIsMeasuredIsDone(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(*bench, int) ([]exchange, error)
		want  string
		after op.State
	}{
		{"signed, decided", (*bench).plainRequests, authorized, op.StateAuthorized},
		{"signed, through", (*bench).plainRequests, authorized, op.StateSucceeded},
		{"benign, decided", func(_ *bench, n int) ([]exchange, error) { return startRequests(n) }, planned, op.StatePlanned},
		{"benign, through", func(_ *bench, n int) ([]exchange, error) { return startRequests(n) }, planned,
			op.StateSucceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := tiny(t)
			const n = 20
			requests, err := c.make(b, n)
			require.NoError(t, err)
			b.loaded(t, trial{ops: requests, want: c.want, end: c.after})
		})
	}
}

// loaded sends a trial to a gate of this process, and returns the directory
// with its database.
func (b *bench) loaded(t *testing.T, tr trial) string {
	dir, err := b.gateDir("gate")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	served, n := make(chan error, 1), len(tr.ops)
	go func() {
		served <- Serve(ctx, Served{Dir: dir, Guests: n, Run: tr.run(), Threshold: tr.threshold})
	}()
	require.NoError(t, until(ctx, time.Millisecond, func() (bool, error) {
		conn, err := dial(socketIn(dir))
		if err == nil {
			err = conn.Close()
		}
		return err == nil, nil
	}))
	_, took, err := load(socketIn(dir), 4, tr.ops, tr.want)
	require.NoError(t, err)
	require.Len(t, took, n)
	if tr.run() {
		require.NoError(t, noneOpen(ctx, dir))
	}
	cancel()
	require.NoError(t, <-served)
	require.NoError(t, b.ended(dir, tr.end, n))
	require.Error(t, b.ended(dir, tr.end, n+1))
	return dir
}

// TestEachKindOfApprovalIsOne counts the signatures in the database, and those with a
// certificate or of a security key.
func TestEachKindOfApprovalIsOne(t *testing.T) {
	const n = 8
	for i, want := range []struct{ signatures, certified, attested, calls int }{
		{n, 0, 0, 1}, {n, n, 0, 1}, {n, 0, n, 1}, {2 * n, 0, 0, 1}, {2 * n, 0, 0, 2},
	} {
		b := tiny(t)
		k := b.kinds()[i]
		t.Run(k.name, func(t *testing.T) {
			tr, err := b.trial(k, "kind", n)
			require.NoError(t, err)
			require.Len(t, tr.ops[0], want.calls)
			dir := b.loaded(t, tr)
			require.NoError(t, reading(b.ctx, dir, func(tx *store.Tx) error {
				var all, certified, attested int
				err := tx.QueryRow(`SELECT count(*), count(CASE WHEN ca <> '' THEN 1 END), count(CASE WHEN flags >= 0 THEN 1 END)
					FROM signatures`).Scan(&all, &certified, &attested)
				require.Equal(t, []int{want.signatures, want.certified, want.attested}, []int{all, certified, attested})
				return err
			}))
		})
	}
}

// TestATrialOfTwoNeedsBoth: one signature is not enough for the gate that the
// threshold is measured with.
func TestATrialOfTwoNeedsBoth(t *testing.T) {
	b := tiny(t)
	tr, err := b.trial(b.kinds()[4], "kind", 3)
	require.NoError(t, err)
	for i := range tr.ops {
		tr.ops[i] = tr.ops[i][:1]
	}
	tr.want = `"state":"pending_signature"`
	tr.end = op.StatePending
	b.loaded(t, tr)
}

func TestVerificationIsOfSomething(t *testing.T) {
	b := tiny(t)
	require.NoError(t, b.approvals())
	require.Len(t, b.table.rows, 4)
	for _, r := range b.table.rows {
		require.Positive(t, r.value, r.what)
	}
}

func TestARoundThatChangesNothing(t *testing.T) {
	took, _, err := tiny(t).noChange(50)
	require.NoError(t, err)
	require.Positive(t, took)
}

func TestTheScriptAcceptsEachOnce(t *testing.T) {
	for _, program := range []string{"bash", "ssh-keygen", "flock"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
	rate, err := tiny(t).scriptOnce("script")
	require.NoError(t, err)
	require.Positive(t, rate)
}
