package bench

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/op"
)

func tiny(t *testing.T) *bench {
	k, err := newKey()
	require.NoError(t, err)
	return &bench{Options: Options{Dir: t.TempDir(), Progress: t.Output()}, ctx: t.Context(), key: k}
}

// TestWhatIsMeasuredIsDone sends a small load through a server as the bench
// does, and looks at the database as the bench does.
func TestWhatIsMeasuredIsDone(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(*bench, int) ([][]byte, error)
		want  string
		run   bool
		after op.State
	}{
		{"signed, decided", (*bench).destroyRequests, authorized, false, op.StateAuthorized},
		{"signed, through", (*bench).destroyRequests, authorized, true, op.StateSucceeded},
		{"benign, decided", func(_ *bench, n int) ([][]byte, error) { return startRequests(n) }, planned, false, op.StatePlanned},
		{"benign, through", func(_ *bench, n int) ([][]byte, error) { return startRequests(n) }, planned, true, op.StateSucceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := tiny(t)
			const n = 20
			requests, err := c.make(b, n)
			require.NoError(t, err)
			dir, err := b.gateDir("gate")
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(b.ctx)
			served := make(chan error, 1)
			go func() { served <- Serve(ctx, dir, n, c.run, "") }()
			require.NoError(t, until(ctx, time.Millisecond, func() (bool, error) {
				conn, err := dial(socketIn(dir))
				if err == nil {
					err = conn.Close()
				}
				return err == nil, nil
			}))
			_, took, err := load(socketIn(dir), 4, requests, c.want)
			require.NoError(t, err)
			require.Len(t, took, n)
			if c.run {
				require.NoError(t, noneOpen(ctx, dir))
			}
			cancel()
			require.NoError(t, <-served)
			require.NoError(t, b.sound(dir, c.after, n))
			require.Error(t, b.sound(dir, c.after, n+1))
		})
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
