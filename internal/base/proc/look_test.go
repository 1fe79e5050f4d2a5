package proc

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gated/internal/test/must"
)

func TestUIDAndMidExec(t *testing.T) {
	uid := must.Get(UID(os.Getpid()))(t)
	require.Equal(t, uint32(os.Geteuid()), uid)
	between := must.Get(MidExec(os.Getpid()))(t)
	require.False(t, between)

	none := exec.Command("/bin/sleep", "1000")
	none.Env = []string{}
	require.NoError(t, none.Start())
	pid := none.Process.Pid
	defer func() { _ = none.Process.Kill(); _ = none.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for between := true; between; { // Start returns before the exec has ended
		require.NoError(t, ctx.Err(), "one without any environment has executed its program")
		between = must.Get(MidExec(pid))(t)
	}

	require.NoError(t, none.Process.Kill())
	require.Error(t, none.Wait())
	must.Fail(UID(pid))(t, ErrGone)
	must.Fail(MidExec(pid))(t, ErrGone)
}

// TestBetweenTwoPrograms: the process executes programs for ever. The test must meet it while a
// new program has no environment yet.
func TestBetweenTwoPrograms(t *testing.T) {
	const again = `exec /bin/sh -c "$0" "$0"`
	cmd := exec.Command("/bin/sh", "-c", again, again)
	cmd.Env = []string{"A=B"}
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for between := false; !between; {
		require.NoError(t, ctx.Err(), "it was never seen between two programs")
		between = must.Get(MidExec(cmd.Process.Pid))(t)
	}
}

// FuzzEnvEnd: with any program name, the number is the kernel's own.
func FuzzEnvEnd(f *testing.F) {
	f.Add("bash", uint64(0), []byte("7 (bash) S 1"))
	f.Add("a) R 1 1 1 (b", uint64(1<<63), []byte(") ("))
	f.Add("x\n8 (y) S 2", uint64(99), []byte(strings.Repeat("9 ", 60)))
	f.Fuzz(func(t *testing.T, name string, end uint64, raw []byte) {
		line := fmt.Appendf(nil, "7 (%s) S%s %d 0\n", name, strings.Repeat(" 1", 47), end)
		got := must.Get(parseEnvEnd(line))(t)
		require.Equal(t, end, got)
		if got, err := parseEnvEnd(raw); err == nil && got != 0 {
			require.Contains(t, string(raw), fmt.Sprint(got), "a number from nowhere")
		}
	})
}
