package local

import (
	"context"
	"strconv"

	"gated/internal/op"
	"gated/internal/proc"
)

// markVar is the one environment variable that the driver adds: processes that
// left their session are found by it.
const markVar = "GATED_GUEST"

func markOf(inc op.Incarnation) string { return markVar + "=" + string(inc) }

// waitPID waits for whatever process has the pid now. It is for waiting alone: a
// pid is not enough to signal by.
func waitPID(ctx context.Context, pid string) error {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return err
	}
	p, err := proc.OpenPID(n)
	if p == nil || err != nil {
		return err // nil where it ended
	}
	defer p.Close()
	return p.Wait(ctx)
}
